"""Processes that can be found again, and what can be seen of them."""

import os
import signal

import pytest

from belljar.linux.lives import runs_own_program


def test_a_process_runs_a_program_of_its_own_once_it_has_become_one():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os.set_inheritable(writing, False)
        os.execv("/bin/sleep", ["sleep", "1000"])
    os.close(reading)
    try:
        assert not runs_own_program(child)
        os.write(writing, b"!")
        while not runs_own_program(child):
            os.sched_yield()
    finally:
        os.close(writing)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        runs_own_program(child)
