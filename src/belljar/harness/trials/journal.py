"""The log of a trial while it runs: a line for each event, and the state that a progress display shows."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from belljar.harness.trials.outcome import TrialOutcome


class TrialState(StrEnum):
    """What a trial is doing."""

    WAITING = "waiting"
    SETUP = "setup"
    AGENT = "agent"
    GRADING = "grading"
    DONE = "done"


@dataclass(slots=True)
class Journal:
    """Keeps the log of one trial, and calls `on_change` after each line."""

    task: str
    log: Path
    on_change: Callable[["Journal"], None]
    state: TrialState = TrialState.WAITING
    note: str = ""
    """The latest line of the log."""

    submissions: int = 0
    best: float | None = None
    """The best score so far, from 0 to 100."""

    judge_denials: int = 0
    """How often a judge's sandbox tried to reach something. It has no network."""

    outcome: TrialOutcome | None = None
    """How it has ended."""

    _started: float | None = None
    _ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long the trial has run, without the time in which it waited for its turn."""
        return 0.0 if self._started is None else (self._ended or time.monotonic()) - self._started

    def enter(self, state: TrialState) -> None:
        """Note what begins."""
        self.state = state
        if self._started is None:
            self._started = time.monotonic()
        if state is TrialState.DONE:
            self._ended = time.monotonic()
        self.write(state.value)

    def write(self, line: str) -> None:
        """Add a line to the log."""
        self.note = line
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self.log.open("a") as log:
            log.write(f"{stamp} {line}\n")
        self.on_change(self)
