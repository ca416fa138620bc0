"""A window with a terminal, as a user has it: a program in it whose controlling terminal it is, and keys to type."""

import fcntl
import os
import re
import select
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE = 60
PROMPT = "ready> "
SHELL = ("bash", "--norc", "--noprofile", "-i")

CTRL_C, CTRL_Z = "\x03", "\x1a"


class Window:
    """A terminal and what runs in it: a shell with job control, unless something else is asked for."""

    def __init__(
        self,
        call: Callable[..., Any],
        workdir: Path,
        environment: Mapping[str, str],
        program: Sequence[str] = SHELL,
    ) -> None:
        self.keyboard, theirs = os.openpty()
        termios.tcsetwinsize(self.keyboard, (24, 80))
        plain = {"TERM": "dumb", "PS1": PROMPT, "INPUTRC": "/dev/null", "HISTFILE": ""}
        self._seen = ""

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                program,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                cwd=workdir,
                env={**environment, **plain},
                preexec_fn=_log_in,  # noqa: PLW1509 - two system calls
            )

        self.process: subprocess.Popen[bytes] = call(start)
        os.close(theirs)
        if program == SHELL:
            self.expect(PROMPT)

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def run(self, line: str) -> None:
        """Type a line, and see it."""
        self.type(f"{line}\r")
        self.expect("\r\n")

    def finish(self, line: str) -> str:
        """Run something to its end; return what it shows."""
        self.run(line)
        return self.expect(PROMPT)

    def finish_until(self, line: str, text: str) -> None:
        """Run something again and again, until it shows a text."""
        given_up = time.monotonic() + PATIENCE
        while text not in (shown := self.finish(line)):
            assert time.monotonic() < given_up, f"{text!r} is not shown, but {shown!r}"

    def expect(self, text: str) -> str:
        """Wait until a text is shown; return what was shown before it."""
        return self.expect_match(re.escape(text))

    def expect_match(self, pattern: str) -> str:
        given_up = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self._seen)):
            assert time.monotonic() < given_up, f"{pattern!r} is not shown, but {self._seen!r}"
            if select.select([self.keyboard], [], [], 0.5)[0]:
                self._seen += _read(self.keyboard).decode(errors="replace")
        before, self._seen = self._seen[: found.start()], self._seen[found.end() :]
        return before

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self.keyboard, (rows, columns))

    def hang_up(self) -> None:
        """Close the window, whatever runs in it."""
        if self.keyboard >= 0:
            os.close(self.keyboard)
            self.keyboard = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.process.kill()
        self.process.wait(PATIENCE)


def _log_in() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:  # nobody has the other end any more
        raise AssertionError("the window was closed from inside") from error
