"""What stops everything inside, where that cannot be done."""

import os
import signal

import pytest

from belljar.backends.local.halting import send_all


@pytest.mark.parametrize("error", [BlockingIOError, MemoryError])
def test_who_cannot_fork_hears_signals_afterwards(monkeypatch, error):
    """The user has no process left, and that is expected; whatever else is wrong, signals are heard."""

    def fork() -> int:
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        raise error

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(os, "fork", fork)
    if error is BlockingIOError:
        assert not send_all(os.getpid(), signal.SIGSTOP, is_stand_in=False)
    else:
        with pytest.raises(error):
            send_all(os.getpid(), signal.SIGSTOP, is_stand_in=False)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_sandbox_that_has_ended_is_no_error():
    """Nobody has this number."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert not send_all(2**22 + 1, signal.SIGCONT, is_stand_in=False)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
