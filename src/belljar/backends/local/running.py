"""A command's whole life in a local sandbox: one process serves its doors, carries its terminal and sees its end."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from belljar.backends.local.identity import account_files, choose
from belljar.backends.local.launching import Launched, launch
from belljar.backends.local.limiting import enforce
from belljar.backends.local.staging import Plan
from belljar.gateway.settings import Settings
from belljar.linux.processes import allow_most_descriptors
from belljar.policy import CompiledPolicy, Mode
from belljar.sandbox.homes import home_inside
from belljar.sandbox.ledger import Ledger
from belljar.sandbox.spec import Spec
from belljar.sandbox.terminal import Terminal
from belljar.sandbox.view import view_of

EXIT_TIMEOUT: Final = 124

_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Network(NamedTuple):
    """What a sealed sandbox can reach, and how that is done and noted."""

    policy: CompiledPolicy
    settings: Settings
    ledger: Ledger


def run(spec: Spec, network: Network | None, files: dict[Path, bytes], *, timeout: float | None = None) -> int:
    """Run a command to its end and return its exit code. Without `network` it has the host's.

    For a process without threads. Raises LaunchError, ViewError, ArmingError: then the command has not been started.
    """
    identity, home = choose(), home_inside(os.environ)
    view = view_of(spec, home, files | account_files(identity, home))
    terminal = Terminal()
    enforcement = enforce(spec.limits)
    udp = network is not None and network.policy.mode is Mode.ALLOW_ALL
    plan = Plan(
        spec,
        view,
        identity,
        terminal.streams(),
        sealed=network is not None,
        udp=udp,
        address_space=enforcement.address_space,
    )
    launched = launch(plan)
    if enforcement.group is not None:
        enforcement.group.watch()
        launched.join(enforcement.group.directories)
    life = _Life(launched, terminal)
    launched.settle()
    return life.run(network, timeout)


class _Life:
    """The parent's loop, from the moment the sandbox is sealed."""

    def __init__(self, launched: Launched, terminal: Terminal) -> None:
        # Imported while the child is at work: it takes as long as sealing the sandbox does.
        from belljar.gateway.loop import Loop  # noqa: PLC0415

        self._launched, self._terminal = launched, terminal
        self._loop = Loop()
        self._timed_out = False

    def run(self, network: Network | None, timeout: float | None) -> int:
        loop, launched = self._loop, self._launched
        with self._serving(network), self._signals():
            self._terminal.start()
            try:
                launched.go()
                ended = _Descriptor(launched.descriptor())
                loop.watch(ended).on_readable = loop.stop
                if timeout is not None:
                    loop.call_later(timeout, self._time_out)
                loop.run()
                code = launched.wait()
            finally:
                launched.kill()
                self._terminal.finish()
        return EXIT_TIMEOUT if self._timed_out else code

    def _time_out(self) -> None:
        self._timed_out = True
        self._launched.kill()

    @contextmanager
    def _serving(self, network: Network | None) -> Iterator[None]:
        listeners = self._launched.listeners
        if network is None or listeners is None:
            yield
            return
        from belljar.gateway.gateway import Gateway  # noqa: PLC0415 - see above
        from belljar.gateway.jar import Jar  # noqa: PLC0415
        from belljar.gateway.observing import Observer  # noqa: PLC0415
        from belljar.gateway.resolver import Resolver  # noqa: PLC0415

        allow_most_descriptors()  # the command has been forked, and keeps the limit that it was given
        gateway = Gateway(self._loop, Resolver(self._loop, network.settings.resolvers), network.settings)
        gateway.open(Jar("local", network.policy, Observer("local", audit=network.ledger)), listeners)
        try:
            yield
        finally:
            gateway.close_all()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Pass signals on to the command; whoever asks a second time to end it need not ask a third time."""
        asked = False

        def pass_on(number: int, _: Any) -> None:
            nonlocal asked
            if asked and number in (signal.SIGINT, signal.SIGTERM):
                self._launched.kill()
            asked = asked or number in (signal.SIGINT, signal.SIGTERM)
            self._launched.signal(number)

        before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Descriptor(NamedTuple):
    number: int

    def fileno(self) -> int:
        return self.number
