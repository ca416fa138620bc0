"""What a run has come to: its trials, and a mean that says how many of them it covers."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from belljar.errors import BelljarError, reason
from belljar.harness.results.final import TrialResult, result_from_data
from belljar.harness.results.layout import RESULT, SETTINGS, SUMMARY, write_json
from belljar.harness.trials.outcome import TrialOutcome

EXIT_SCORED: Final = 0
"""Every trial has a score."""

EXIT_UNSCORED: Final = 3
EXIT_ISOLATION: Final = 4
EXIT_CANCELLED: Final = 130


class ResultsError(BelljarError):
    """A run cannot be read. Name another."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The results of a run."""

    run_id: str
    results: Sequence[TrialResult]
    lost: Sequence[str]
    """Tasks whose trial ended without a result, or still runs."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many trials ended in each way."""
        counts = Counter(result.outcome.value for result in self.results)
        return dict(counts) | ({TrialOutcome.LOST.value: len(self.lost)} if self.lost else {})

    @property
    def scored(self) -> list[float]:
        """The scores there are."""
        return [result.score for result in self.results if result.score is not None]

    @property
    def mean(self) -> float | None:
        """The mean of the scores there are; None if there is none."""
        return sum(self.scored) / len(self.scored) if self.scored else None

    @property
    def total(self) -> int:
        """How many trials there are."""
        return len(self.results) + len(self.lost)

    @property
    def exit_code(self) -> int:
        """What a program that ran it exits with; docs/eval.md lists the codes."""
        outcomes = {result.outcome for result in self.results}
        if TrialOutcome.CANCELLED in outcomes:
            return EXIT_CANCELLED
        if TrialOutcome.ISOLATION_ERROR in outcomes:
            return EXIT_ISOLATION
        return EXIT_SCORED if len(self.scored) == self.total else EXIT_UNSCORED

    def coverage(self) -> str:
        """Return the mean with what it covers, for people."""
        mean = "no score" if self.mean is None else f"mean score {self.mean:.1f}"
        return f"{mean}, {len(self.scored)} of {self.total} trials scored"

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "run_id": self.run_id,
            "mean_score": self.mean,
            "scored": len(self.scored),
            "total": self.total,
            "outcomes": self.outcomes,
            "tasks": [
                *({"task": task, "outcome": TrialOutcome.LOST.value} for task in self.lost),
                *map(asdict, self.results),
            ],
        }


def write_summary(directory: Path, results: Iterable[TrialResult]) -> RunSummary:
    """Write `summary.json` of a run that has ended, and return it."""
    summary = RunSummary(directory.name, tuple(results), ())
    write_json(directory / SUMMARY, summary.to_data())
    return summary


def read_run(directory: Path) -> RunSummary:
    """Read a run, whether it has ended or not. Raises ResultsError."""
    if not directory.is_dir():
        raise ResultsError(f"there is no run {directory}; `ls {directory.parent}` lists those there are")
    results, lost = [], []
    for trial in sorted(each for each in directory.iterdir() if (each / SETTINGS).exists()):
        try:
            results.append(result_from_data(json.loads((trial / RESULT).read_text())))
        except FileNotFoundError:
            lost.append(trial.name)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{trial / RESULT} cannot be read: {reason(error)}; remove the trial") from None
    if not results and not lost:
        raise ResultsError(f"{directory} holds no trial; name a directory that `belljar eval run` has made")
    return RunSummary(directory.name, tuple(results), tuple(lost))
