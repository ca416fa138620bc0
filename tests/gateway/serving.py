"""A gateway at work in the universe, and sandboxes behind it."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from belljar.gateway.audit.log import AuditLog
from belljar.gateway.audit.metrics import Metrics
from belljar.gateway.audit.observing import Observer
from belljar.gateway.gateway import Gateway
from belljar.gateway.io.loop import Loop
from belljar.gateway.limits import Limits
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.upstream.brokerdoor import BrokerDoor
from belljar.gateway.upstream.hostfiles import Server
from belljar.gateway.upstream.resolver import Resolver
from belljar.policy import CompiledPolicy, ResolvedPolicy, Syntax, read_policy, resolve
from tests.universe import Universe, addresses
from tests.universe.sandboxes import Sandbox

T = TypeVar("T")

OWN_ADDRESSES = [ip_address(text) for text in (addresses.GATEWAY, addresses.GATEWAY_V6)]
RESOLVER = Server(ip_address(addresses.RESOLVER), 53)
NO_FILE = Path("/nonexistent")
PATIENCE = 60.0
NONE = (0, 0, 0, 0)


def eventually(happened: Callable[[], object], every: float = 0.002) -> None:
    """Wait for something that other threads will bring about."""
    given_up = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < given_up, "it never happened"
        time.sleep(every)


def policy(text: str, generation: int = 1) -> CompiledPolicy:
    """Compile a policy for the machine that the gateway runs on."""
    return resolved(text, generation).compile()


def resolved(text: str, generation: int = 1) -> ResolvedPolicy:
    """Read a policy for that machine, for others to compile it."""
    return resolve(read_policy(text, Syntax.YAML).policy, generation=generation, host_addresses=OWN_ADDRESSES)


class Serving:
    """The gateway, running on a thread in its place."""

    def __init__(
        self,
        universe: Universe,
        settings: Settings = DEFAULTS,
        audit: AuditLog | None = None,
        hosts: Path = NO_FILE,
        *,
        broker_state: Path | None = None,
    ) -> None:
        self.universe = universe
        self.audit = audit
        self.metrics = Metrics()
        self.loop = universe.gateway.call(Loop)
        self.bugs: list[BaseException] = []
        self.loop.on_crash = self.bugs.append
        servers = settings.resolvers or [RESOLVER]
        resolver = Resolver(self.loop, servers, hosts=hosts, resolv_conf=NO_FILE)
        self.broker = BrokerDoor(self.loop, broker_state, lambda _: None) if broker_state is not None else None
        broker = None if self.broker is None else self.broker.descriptor
        self.gateway = Gateway(self.loop, resolver, settings, broker=broker)
        self._running = universe.gateway.start(self.loop.run)
        self._count = 0

    def do(self, function: Callable[[], T]) -> T:
        """Do something on the loop's thread."""
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(function())
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                done.set_exception(error)

        self.loop.call_from_thread(call)
        return done.result(PATIENCE)

    @contextmanager
    def sandbox(self, text: str, **limits: Any) -> Iterator[tuple[Sandbox, SandboxState]]:
        """Make a sandbox with a policy, and serve it."""
        self._count += 1
        sandbox = self.universe.sandbox()
        name = f"s{self._count}"
        jar = SandboxState(name, policy(text), Observer(name, audit=self.audit, metrics=self.metrics), Limits(**limits))
        self.do(lambda: self.gateway.open(jar, sandbox.listeners))
        try:
            yield sandbox, jar
        finally:
            closed = Event()
            self.do(lambda: self.gateway.close(jar.id, on_closed=closed.set))
            assert closed.wait(PATIENCE)
            sandbox.close()

    def count(self, jar: SandboxState, metric: str, **labels: str) -> int:
        """Return a number of a sandbox, as Prometheus reads it."""
        shown = ",".join(f'{label}="{value}"' for label, value in {"sandbox": jar.id, **labels}.items())
        lines = self.do(self.metrics.render).splitlines()
        return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{metric}{{{shown}}} "))

    def change_policy(self, jar: SandboxState, text: str) -> int:
        """Put a new policy in force; return how many flows it cut."""
        return self.do(lambda: self.gateway.change_policy(jar.id, policy(text, jar.generation + 1)))

    def wait_until_idle(self, jar: SandboxState) -> None:
        """Wait until nothing is left of any connection of a sandbox."""
        eventually(
            lambda: self.do(lambda: (jar.connections, jar.handshakes, len(jar.flows), len(jar.handlers))) == NONE
        )

    def close(self) -> None:
        """End it all."""
        self.do(self.gateway.close_all)
        if self.broker is not None:
            self.do(self.broker.close)
        self.loop.call_from_thread(self.loop.stop)
        self._running.result(PATIENCE)
        self.loop.close()
        for bug in self.bugs:
            raise bug
