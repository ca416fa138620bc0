"""Whoever attends to a sandbox ends it when that is due, whatever keeps the loop busy."""

import os
import signal
import subprocess
import time

from belljar.backends.attending import EXIT_TIMEOUT, Attendant
from belljar.gateway.io.loop import Loop

HANGS = 60.0


class Sleeper:
    """A command that would never end."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def go(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])

    def descriptor(self) -> int:
        return os.pidfd_open(self._started.pid)

    def wait(self) -> int:
        code = self._started.wait()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        self._started.send_signal(number)

    def group(self) -> int | None:
        return None  # it has no terminal

    def signal_group(self, number: int) -> None:
        self.signal(number)

    def hang_up(self) -> None:
        self.signal(signal.SIGHUP)

    def stopped_by(self) -> int | None:
        return None

    def halt(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self, *, foreground: bool) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def is_alive(self) -> bool:
        return os.waitid(os.P_PID, self._started.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    @property
    def _started(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None
        return self.process


def attended(timeout: float | None, before_spinning=lambda: None) -> tuple[int, bool]:
    """Run a command while something keeps the loop busy for as long as it lives; return its code, and if it lives."""
    loop, sleeper, lived_on = Loop(), Sleeper(), []

    def spin() -> None:
        before_spinning()
        given_up = time.monotonic() + HANGS
        while sleeper.is_alive() and time.monotonic() < given_up:
            pass
        lived_on.append(sleeper.is_alive())
        sleeper.kill()

    loop.call_soon(spin)
    try:
        return Attendant(loop, sleeper).run(timeout), lived_on[0]
    finally:
        loop.close()


def test_a_timeout_comes_although_the_loop_is_busy():
    assert attended(0.1) == (EXIT_TIMEOUT, False)


def test_a_signal_is_passed_on_although_the_loop_is_busy():
    assert attended(None, lambda: os.kill(os.getpid(), signal.SIGTERM)) == (128 + signal.SIGTERM, False)
