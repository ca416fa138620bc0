"""The two gradings that a trial has of one piece of work: the agent's own submission, and the final state."""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from belljar.errors import printable
from belljar.harness.judge.archive import SubmissionFilter, clean_archive
from belljar.harness.judge.grading import ARCHIVE
from belljar.harness.judge.report import SubmissionKind, SubmissionStatus
from belljar.harness.judge.tarreader import ArchiveLimits, TarReader
from belljar.harness.results.final import TrialResult
from belljar.harness.results.layout import HISTORY, OUTPUT, SUBMISSIONS
from belljar.harness.tasks.model import EvalTask

_COMPARED: Final = ("valid", "timed_out", "score", "pass_rate", "total_tests", "passed", "failed", "errors")
_MAX_TAIL: Final = 300
_MAX_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Grading:
    """One submission: what the judge made of it."""

    id: str
    error: str | None
    """Why it was not graded."""

    report: Mapping[str, Any]
    files: Mapping[str, str]
    """A digest of each file that was submitted."""

    def differences(self, other: "Grading") -> list[str]:
        """Return in what another grading differs."""
        found = [
            f"{name} is {self.report[name]} and {other.report[name]}"
            for name in _COMPARED
            if self.report[name] != other.report[name]
        ]
        ours, theirs = self.statuses(), other.statuses()
        changed = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        return found + [f"{printable(name)} is {ours.get(name)} and {theirs.get(name)}" for name in changed]

    def not_passed(self) -> str:
        """Return the first tests that did not pass, in parentheses; nothing if all did."""
        names = [printable(name) for name, status in self.statuses().items() if status not in ("PASSED", "SKIPPED")]
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        return f" (not passed: {', '.join(names[:_MAX_NAMES])}{more})" if names else ""

    def statuses(self) -> dict[str, str]:
        """Return the status of each test."""
        return {detail["name"]: detail["status"] for detail in self.report["test_details"]}


@dataclass(frozen=True, slots=True)
class TrialGradings:
    """A trial, with its two gradings; None for one that was not submitted."""

    result: TrialResult
    own: Grading | None
    final: Grading | None
    output: str
    """The end of what the agent wrote."""

    @property
    def both(self) -> tuple[Grading, Grading] | None:
        """Both gradings, if there are two, and both have a report."""
        if self.own is None or self.final is None or self.own.error or self.final.error:
            return None
        return self.own, self.final

    def score(self) -> str:
        """Return what the trial scored, for people."""
        score = "no score" if self.result.score is None else f"{self.result.score:.1f} of 100"
        return score + (f": {self.result.detail}" if self.result.detail else "")


def read_gradings(task: EvalTask, result: TrialResult, directory: Path) -> TrialGradings:
    """Read what a trial has left in its directory."""
    entries = json.loads((directory / HISTORY).read_text())["entries"]
    last = {entry["kind"]: _read(task, entry, directory / SUBMISSIONS / entry["submission_id"]) for entry in entries}
    output = directory / OUTPUT
    tail = output.read_bytes()[-_MAX_TAIL:].decode(errors="replace") if output.exists() else ""
    return TrialGradings(
        result,
        last.get(SubmissionKind.AGENT.value),
        last.get(SubmissionKind.AUTO.value),
        " | ".join(map(printable, tail.splitlines())),
    )


def _read(task: EvalTask, entry: Mapping[str, Any], directory: Path) -> Grading:
    graded = entry["status"] == SubmissionStatus.COMPLETED.value
    report = json.loads((directory / "report.json").read_text()) if graded else {}
    return Grading(entry["submission_id"], entry.get("error"), report, _files(task, directory / ARCHIVE))


def _files(task: EvalTask, archive: Path) -> dict[str, str]:
    """Return a digest of each file that the judge unpacks of an archive."""
    with tempfile.TemporaryDirectory(prefix="belljar-check-") as place:
        clean = Path(place) / "clean.tar"
        clean_archive(archive, clean, SubmissionFilter(task.submit_paths, task.submit_exclude))
        found = {}
        with clean.open("rb") as file:
            reader = TarReader(file, ArchiveLimits())
            for member in reader.members():
                digest = hashlib.sha256(member.target)
                for piece in reader.content():
                    digest.update(piece)
                found[member.name.decode()] = f"{member.kind.value} {member.executable} {digest.hexdigest()}"
    return found
