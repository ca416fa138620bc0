"""A sandbox's life from outside: its doors are answered, its terminal and signals are carried, and its end is seen."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from belljar.backends.jobcontrol import Job, JobControl, JoinedTerminal
from belljar.errors import BelljarError
from belljar.gateway.io.loop import Loop

if TYPE_CHECKING:
    from belljar.sandbox.terminal.joined import Terminal

EXIT_TIMEOUT: Final = 124
_AGAIN_SECONDS: Final = 1.0

_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Outcome(NamedTuple):
    """How a command has ended."""

    code: int
    out_of_memory: bool
    """Whether the kernel has ended something in its sandbox for want of memory."""

    timed_out: bool


class LaunchedCommand(Job, Protocol):
    """A sealed sandbox whose command is to be started."""

    def go(self) -> JoinedTerminal | None:
        """Start the command; return its terminal, if there is one that its backend carries itself."""

    def descriptor(self) -> int:
        """Return a descriptor that becomes readable when it has ended."""

    def wait(self) -> int:
        """Return the command's exit code once it has ended."""

    def signal(self, number: int) -> None:
        """Send a signal to the command."""


class Attendant:
    """Who is there for a sandbox, from the moment it is sealed."""

    def __init__(self, loop: Loop, launched: LaunchedCommand, terminal: "Terminal | None" = None) -> None:
        """Have a terminal to carry, unless the sandbox's backend does that itself."""
        self._loop, self._launched, self._terminal = loop, launched, terminal
        self._control = JobControl(loop, launched)
        self.timed_out = False
        """Whether the command was ended because its time was over."""

    def run(self, timeout: float | None) -> int:
        """Have the command started, and return its exit code."""
        loop, launched = self._loop, self._launched
        with self._signals():
            if self._terminal is not None:
                self._terminal.start()
            try:
                self._control.start(launched.go() or self._terminal)
                ended = _Descriptor(launched.descriptor())
                loop.watch(ended).on_readable = loop.stop
                with self._timer(timeout):
                    loop.run()
                code = launched.wait()
            finally:
                launched.kill()
                self._control.end()
                if self._terminal is not None:
                    self._terminal.finish()
        return EXIT_TIMEOUT if self.timed_out else code

    @contextmanager
    def _timer(self, timeout: float | None) -> Iterator[None]:
        """Have the command killed when its time is over, by a thread: what it does may keep the loop busy."""
        over = threading.Event()

        def kill_in_time() -> None:
            has_time = over.wait(timeout)
            while not has_time:
                self.timed_out = True
                with suppress(BelljarError):  # an engine of containers does not answer; it may later
                    self._launched.kill()
                has_time = over.wait(_AGAIN_SECONDS)

        thread = threading.Thread(target=kill_in_time, daemon=True)
        if timeout is not None:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if timeout is not None:
                thread.join()  # before the process is reaped: its number may be another's then

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
            if number == signal.SIGHUP:
                self._control.check_hangup()

        heard = [number for number in _PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]  # nohup, say
        before = {number: signal.signal(number, pass_on) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have whoever ends us before the command has begun, or after it, leave nothing behind."""

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Descriptor(NamedTuple):
    number: int

    def fileno(self) -> int:
        return self.number
