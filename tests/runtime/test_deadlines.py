"""Deadlines, across restarts and clocks that jump."""

import time

import pytest

from belljar.runtime import deadlines
from belljar.runtime.deadlines import Deadline


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_that_jumps_between_two_lives_stretches_nothing(monkeypatch, jump):
    deadline = Deadline.after(600)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    remembered = Deadline.remembered(deadline.at, 600)
    assert remembered.due - deadlines.since_boot() <= 600
    assert remembered.is_over == (jump > 0)
    assert not deadline.is_over, "while the server lives, the clock does not matter"
