"""A command's parent in a container, where the command has a terminal: it sees what stops it, and has it continued.

An engine tells nobody that a command is stopped, and gives us nothing but its streams. So the monitor, which is the
session's first process, stops as well; its state and its name can be seen from outside (`linux.jobs.glimpse`). The name
tells which signal it was, and counts. Two signals tell the monitor whether the command has the terminal from then on;
when the monitor is continued, so is the command.

It runs inside, by the toolbox's Python, and has the agent's rights. An agent that meddles with it meddles with its own
terminal.
"""

import os
import signal
import sys
import termios
from contextlib import suppress
from typing import Final

from belljar.linux.jobs import SessionJob

BACKGROUND: Final = signal.SIGUSR1
FOREGROUND: Final = signal.SIGUSR2
_NAME: Final = "belljar"


def main() -> None:
    """Run a command: what the arguments after the first say. The first says whether it has the terminal."""
    foreground, *command = sys.argv[1:]
    os._exit(_Monitor(command, foreground=foreground == "foreground").run())


def tell_about_keys() -> None:
    """Say `yes` if the terminal of a process, and no program, makes something of Ctrl-C, and its child is concerned."""
    monitor = sys.argv[1]
    terminal = os.open(f"/proc/{monitor}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    flags = termios.tcgetattr(terminal)[3]
    group = _read(f"/proc/{monitor}/task/{monitor}/children").split()[0]
    holder = _read(f"/proc/{monitor}/stat").rpartition(")")[2].split()[5]
    concerned = flags & termios.ISIG and flags & termios.ICANON and group == holder
    sys.stdout.write("yes" if concerned else "no")


def stopped_by(name: str) -> int | None:
    """Return the signal that has stopped a command, from the name of its monitor; None if it tells none."""
    known, *numbers = name.split(":")
    return int(numbers[0]) if known == _NAME and numbers and numbers[0].isdecimal() else None


class _Monitor:
    def __init__(self, command: list[str], *, foreground: bool) -> None:
        self._foreground = foreground
        self._stops = 0
        self._process = os.fork()
        if self._process == 0:
            _become(command, foreground=foreground)
        with suppress(OSError):  # it has done that itself, and has become the command
            os.setpgid(self._process, self._process)
        self._job = SessionJob(self._process, 0)
        for number in (BACKGROUND, FOREGROUND):
            signal.signal(number, self._change_place)

    def run(self) -> int:
        """Be there for the command, and return its exit code."""
        while True:
            _call_ourselves(_NAME)
            _, status = os.waitpid(self._process, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            self._stops = (self._stops + 1) % 1000
            _call_ourselves(f"{_NAME}:{os.WSTOPSIG(status)}:{self._stops}")
            os.kill(os.getpid(), signal.SIGSTOP)
            with suppress(OSError):  # the terminal is gone, and we shall be soon
                self._job.resume(foreground=self._foreground)

    def _change_place(self, number: int, _: object) -> None:
        self._foreground = number == FOREGROUND
        if self._foreground:
            with suppress(OSError):
                self._job.give_terminal()


def _become(command: list[str], *, foreground: bool) -> None:
    try:
        os.setpgid(0, 0)
        if foreground:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpgrp())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 - our own shell, which becomes the command
    finally:
        os._exit(126)


def _read(path: str) -> str:
    with open(path) as file:  # noqa: PTH123 - a quick start
        return file.read()


def _call_ourselves(name: str) -> None:
    with suppress(OSError), open("/proc/self/comm", "w") as ours:  # noqa: PTH123 - a quick start
        ours.write(name)
