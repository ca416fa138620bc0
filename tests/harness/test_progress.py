"""The table of a run that is drawn on a terminal."""

import fcntl
import os
import re
import struct
import termios

import pytest

from belljar.cli.eval.progress import LiveProgress
from belljar.harness.trials.journal import Journal, TrialState

COLUMNS, ROWS = 60, 12


@pytest.fixture
def terminal():
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with os.fdopen(theirs, "w") as output:
        yield output, ours
    os.close(ours)


def last_table(ours: int) -> list[str]:
    """Return the lines of the table that was drawn last."""
    drawn = os.read(ours, 1 << 16).decode()
    return re.split(r"\x1b\[J", drawn)[-1].splitlines()


def test_the_table_fits_the_terminal_and_shows_the_latest_state(terminal, tmp_path):
    output, ours = terminal
    progress = LiveProgress(output)
    for number in range(30):
        journal = Journal(f"a-long-name-of-a-task-{number}", tmp_path / "log", progress)
        journal.enter(TrialState.SETUP)
        journal.enter(TrialState.AGENT)
    progress.close()
    lines = last_table(ours)
    assert len(lines) < ROWS
    assert max(map(len, lines)) < COLUMNS
    assert all(" agent " in line for line in lines[1:-1])
    assert lines[-1] == f"… and {30 - len(lines[1:-1])} more"


def test_a_notice_stays_below_the_table(terminal, tmp_path):
    output, ours = terminal
    progress = LiveProgress(output)
    journal = Journal("count", tmp_path / "log", progress)
    journal.enter(TrialState.AGENT)
    progress.notify("no further trial begins")
    journal.enter(TrialState.DONE)
    progress.close()
    assert [line.split()[0] for line in last_table(ours)] == ["TASK", "count", "no"]
