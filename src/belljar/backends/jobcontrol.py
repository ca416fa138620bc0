"""A command that is stopped and continued, together with us, as if there were no sandbox around it.

Theory of operation
-------------------
While the caller's terminal is joined to the command's, every key goes to the command's own, and it is there that Ctrl-Z
means something: the command is stopped, and nobody outside of the sandbox notices. So we look, several times a second.
Then the caller's terminal is made what it was, and our own process group is stopped by the same signal; for whoever
has started us, it is as if the command had been stopped. When we are continued, the command is.

A command can ignore the signal that it sends its own group, and who is stopped keeps neither its time nor its doors. So
before we are stopped, everything inside is halted.

A command that has the caller's terminal not for itself (we are in the background, or part of a pipeline) is in the
background of its own. It runs and prints, and its terminal stops it once it reads from there. Then, if we are in the
foreground, the terminals are joined; if not, we are stopped, as any job is that reads in the background. Two more
things are looked for, since nobody tells us: that we have come to the foreground, and that a line was typed which
nobody else in the pipeline reads. The command may be waiting for it, and has not tried to read yet.

The kernel ignores such signals where nobody would continue us. Then we are not stopped, and the command goes on at
once: a terminal that answers to nothing would be worse.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from belljar.gateway.io.loop import Loop
from belljar.linux.jobs import WANTS_TERMINAL

_SECONDS_BETWEEN_LOOKS: Final = 0.1
_SECONDS_TO_END: Final = 3.0
"""For a command that is told that its terminal is gone."""

_NOBODY: Final = 0
"""The process group that has a terminal whose session has lost its leader: Ctrl-C interrupts nobody there."""

_STANDARD_ERROR: Final = 2
_ENDED_BY_KEY: Final = b"\r\nbelljar: Ctrl-C was typed three times, and the command went on; everything is ended\r\n"


class JoinedTerminal(Protocol):
    """The caller's terminal and the command's own."""

    on_hangup: Callable[[], None]
    on_insistence: Callable[[int | None], None]
    begins_joined: bool

    @property
    def callers(self) -> "Callers": ...

    def join(self) -> None: ...

    def part(self) -> None: ...


class Callers(Protocol):
    """The caller's terminal."""

    is_shared: bool

    @property
    def is_taken(self) -> bool: ...

    def is_ours(self) -> bool: ...

    def has_line(self) -> bool: ...

    def hides_keys(self) -> bool: ...

    def take(self) -> None: ...

    def release(self) -> None: ...


class Job(Protocol):
    """A command that was started."""

    def group(self) -> int | None:
        """Return its process group, by the number that the terminal knows it by; None if it has ended."""

    def signal_group(self, number: int) -> None:
        """Send a signal to its process group."""

    def hang_up(self) -> None:
        """Tell its process group that the terminal is gone, and wait for nobody."""

    def stopped_by(self) -> int | None:
        """Return the signal that has stopped it; None if it runs."""

    def halt(self) -> None:
        """Stop everything inside, whether it likes to or not."""

    def resume(self, *, foreground: bool) -> None:
        """Have it go on, with its terminal or without, and everything inside that was halted."""

    def kill(self) -> None:
        """End everything inside at once."""


class JobControl:
    """What stops and continues a command."""

    def __init__(self, loop: Loop, job: Job) -> None:
        self._loop, self._job = loop, job
        self._terminal: JoinedTerminal | None = None
        self._had_terminal = _has_controlling_terminal()
        self._waiting: int | None = None
        """The signal of a job that stays stopped until there is a terminal for it."""

    def start(self, terminal: JoinedTerminal | None) -> None:
        """Begin, as soon as the command does."""
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, self._on_stop)
        if terminal is None:
            return
        self._terminal = terminal
        signal.signal(signal.SIGCONT, self._on_continue)
        terminal.on_hangup = self._on_hangup
        terminal.on_insistence = lambda group: self._loop.call_from_thread(partial(self._insist, group))
        if terminal.begins_joined:
            terminal.join()
        self._loop.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def end(self) -> None:
        """Have nothing to do with signals any more."""
        for number, handler in ((signal.SIGTSTP, self._on_stop), (signal.SIGCONT, self._on_continue)):
            if signal.getsignal(number) == handler:
                signal.signal(number, signal.SIG_DFL)

    def check_hangup(self) -> None:
        """Have the command end if we were told to hang up because our terminal is gone."""
        if self._had_terminal and not _has_controlling_terminal():
            self.hang_up()

    def hang_up(self) -> None:
        """Have the command end because the terminal is gone, whether it likes to or not."""
        self._terminal = None
        self._job.hang_up()
        self._loop.call_later(_SECONDS_TO_END, self._job.kill)

    def _on_hangup(self) -> None:
        """Note that there is no terminal for the command to go on with, whatever is seen of it by now."""
        self._terminal = None
        self._loop.call_from_thread(self.hang_up)

    def _insist(self, group: int | None) -> None:
        if group in (_NOBODY, self._job.group()):  # a shell's job is the shell's
            os.write(_STANDARD_ERROR, _ENDED_BY_KEY)
            self._job.kill()

    def _look(self) -> None:
        """See whether the command is stopped, and whether we have come to the foreground."""
        self._loop.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        if self._terminal is None:
            return
        callers = self._terminal.callers
        # Who waits is stopped, and would be seen so: as one that has stopped itself, for which all of us are stopped.
        number = self._waiting or self._job.stopped_by()
        if callers.is_shared and number in (None, *WANTS_TERMINAL) and callers.hides_keys():
            self._waiting = number  # another program of the pipeline asks for a password
            return
        self._waiting = None
        if number is None:
            if not callers.is_taken and callers.is_ours() and (not callers.is_shared or callers.has_line()):
                self._go_on()
            return
        is_needed = number in WANTS_TERMINAL
        joins = callers.is_taken or not callers.is_shared or is_needed
        if not (is_needed and callers.is_ours()):
            self._terminal.part()
            self._job.halt()
            _stop_ourselves(number if is_needed else signal.SIGTSTP)
        if joins and callers.is_ours():
            self._go_on()
        elif is_needed:
            self._waiting = number
        else:
            self._job.resume(foreground=False)

    def _go_on(self) -> None:
        """Have the command go on with the caller's terminal."""
        if self._terminal is not None:
            self._terminal.join()
            self._job.resume(foreground=True)

    def _on_stop(self, *_: Any) -> None:
        """Stop the command, because we were told to stop."""
        if self._terminal is not None and self._waiting is None:
            self._job.signal_group(signal.SIGTSTP)  # once it is stopped, so are we
            return
        self._waiting = None  # it will try to read again
        self._job.signal_group(signal.SIGSTOP)
        self._job.halt()
        _stop_ourselves(signal.SIGTSTP)
        self._job.resume(foreground=False)
        self._job.signal_group(signal.SIGCONT)

    def _on_continue(self, *_: Any) -> None:
        """Go on after somebody has stopped us without a warning, and perhaps used the terminal meanwhile."""
        if self._terminal is not None and self._terminal.callers.is_taken:
            callers = self._terminal.callers
            if callers.is_ours():
                callers.take()
            else:
                callers.release()


def _stop_ourselves(number: int) -> None:
    """Stop our process group, until somebody continues it; nothing happens where nobody would."""
    before = signal.signal(number, signal.SIG_DFL)
    os.killpg(0, number)
    signal.signal(number, before)


def _has_controlling_terminal() -> bool:
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False
