"""Runs tests in parallel, then those that failed once more, each alone, so that no single bad moment decides.

A test that fails beside others and passes alone is *flaky*: the run passes, but lists it and keeps its first failure.
With more than `MAX_FLAKY` flaky tests the run fails all the same.
Whatever pytest starts has ended before anything else is run (`scripts.contain`), and nothing outlasts the deadline.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from scripts.contain import STOPPED, TIMED_OUT

ROOT = Path(__file__).resolve().parent.parent
WORKERS = min(2 * (os.cpu_count() or 1), 4)
"""More than there are processors: many tests wait for programs that they start."""

MAX_FLAKY = 8
MAX_RETRIES = 20
"""Each retry takes some seconds, and a run with more failures than this has one cause in common."""

_OPTIONS = ("-q", "--no-summary", "-o", "faulthandler_timeout=0")
"""Print progress alone, since failures are printed at the end, from the record; and leave the time limit to
`scripts.recording`: faulthandler has a single timer, and pytest's own use of it would replace ours."""

_RAN, _FAILED, _INTERRUPTED = 0, 1, 2
"""Exit codes of pytest: after a whole run, and after one that was interrupted, by Ctrl-C for example."""


@dataclass
class Record:
    """What `scripts.recording` wrote about a run of pytest."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Each failed test, with its tracebacks and output."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Each skipped test, with the reason."""
    seconds: dict[str, float] = field(default_factory=dict)
    uncollected: list[str] = field(default_factory=list)
    """The files whose tests are not known, as they could not be imported."""

    running: list[str] = field(default_factory=list)
    """The tests that a process was running when it was ended."""


def read_record(directory: Path) -> Record:
    """Read a record; tests that were collected and did not end have failed."""
    record, collected = Record(), set[str]()
    for line in map(json.loads, _lines(directory / "results.ndjson")):
        if "collected" in line:
            collected.update(line["collected"])
            continue
        test = line["test"]
        record.seconds[test] = record.seconds.get(test, 0) + line["seconds"]
        if "phase" not in line:
            record.uncollected.append(test)
        if line["outcome"] == "failed":
            record.failed[test] = "\n".join(filter(None, [record.failed.get(test), line["text"]]))
        elif line["outcome"] == "skipped":
            record.skipped[test] = line.get("text", "")
        elif line["phase"] == "call":
            record.passed.add(test)
    stacks = [path.read_text(errors="replace").partition("\n") for path in directory.glob("running/*")]
    for test, _, stack in stacks:
        if test:
            record.running.append(test)
            record.failed[test] = (
                "\n".join(filter(None, [stack.rstrip(), record.failed.get(test)])) or "It did not end."
            )
    for test in collected - record.passed - record.skipped.keys() - record.failed.keys():
        record.failed[test] = "It was not run."
    record.passed -= record.failed.keys()
    return record


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file; a process that is killed may leave half a line at the end."""
    return path.read_text().splitlines()[: path.read_text().count("\n")] if path.exists() else []


@dataclass
class Outcome:
    """How a suite went."""

    record: Record
    seconds: float
    failed: dict[str, str] = field(default_factory=dict)
    """Each test that failed again, or was not tried again, with what there is to read about it."""
    flaky: dict[str, Path] = field(default_factory=dict)
    """Each test that passed alone, with the file that has its first failure."""
    problem: str | None = None
    """Why the run failed other than by a test."""

    @property
    def is_green(self) -> bool:
        """Whether the run passed."""
        return self.problem is None and not self.failed


class Suite:
    """A selection of tests, to be run in parallel and then, as far as they fail, alone."""

    def __init__(
        self, cache: Path, selection: Sequence[str], deadline: float, *, root: Path = ROOT, options: Sequence[str] = ()
    ) -> None:
        """Select tests below `root`, which is pytest's root directory; keep records and first failures in `cache`."""
        self._cache, self._selection, self._deadline = cache, selection, deadline
        self._root, self._options = root, options
        self._lifeline: IO[bytes] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End what runs, and run nothing more. For a signal handler."""
        self._is_stopped = True
        if self._lifeline is not None:
            self._lifeline.close()

    def run(self) -> Outcome:
        """Run all tests in parallel, without retries."""
        started = time.monotonic()
        code, record = self._run_pytest("record", "-n", str(WORKERS), "--dist", "worksteal", *self._selection)
        return Outcome(record, time.monotonic() - started, record.failed, problem=_problem(code, record))

    def retry(self, outcome: Outcome) -> None:
        """Run each failed test once more, alone, and separate flaky tests from those that fail again."""
        if outcome.problem is not None:
            return
        started, first = time.monotonic(), outcome.failed
        again, flaky = dict[str, str](), dict[str, Path]()
        for test in list(first)[:MAX_RETRIES]:
            if self._is_stopped:
                break
            print(f"retrying alone: {test}", flush=True)
            code, alone = self._run_pytest("retry", f"{self._root}/{test}")
            problem = _problem(code, alone)
            if code in (TIMED_OUT, STOPPED, _INTERRUPTED):
                outcome.problem = problem
                break
            if problem is None and alone.passed:
                flaky[test] = self._keep(test, first[test])
            else:
                failure = "\n".join(alone.failed.values()) or problem or "Alone, it was skipped."
                again[test] = _both(first[test], failure)
        others = [test for test in first if test not in again and test not in flaky]
        outcome.failed = again | {test: f"{first[test]}\n\nIt was not retried." for test in others}
        outcome.flaky = flaky
        if outcome.problem is None and len(flaky) > MAX_FLAKY:
            outcome.problem = f"{len(flaky)} tests are flaky, and at most {MAX_FLAKY} may be"
        outcome.seconds += time.monotonic() - started

    def _run_pytest(self, name: str, *arguments: str) -> tuple[int, Record]:
        record = self._cache / name
        shutil.rmtree(record, ignore_errors=True)
        record.mkdir(parents=True)
        contain = [sys.executable, "-m", "scripts.contain", str(max(0, self._deadline - time.monotonic()))]
        pytest = [sys.executable, "-m", "pytest", "-p", "scripts.recording", f"--record={record}", *_OPTIONS]
        words = [*contain, *pytest, *self._options, *arguments]
        with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE) as process:
            self._lifeline = process.stdin
            if self._is_stopped:
                self.stop()
            code = process.wait()
        return code, read_record(record)

    def _keep(self, test: str, text: str) -> Path:
        """Keep the first failure of a flaky test."""
        path = self._cache / "flaky" / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', test)[-150:]}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{test}\n\n{text}\n")
        return path


def _problem(code: int, record: Record) -> str | None:
    """Return why not all tests have run, or None if they have."""
    running = ", ".join(record.running) or "no test"
    if code == TIMED_OUT:
        return f"the run exceeded its time limit while it ran {running}"
    if code > 128:
        return f"the run was ended by a signal while it ran {running}"
    if record.uncollected:
        return f"tests could not be collected from {', '.join(record.uncollected)}"
    if code != (_FAILED if record.failed else _RAN):  # Python itself exits with 1 if pytest or one of its plugins fails
        return f"pytest ended with exit code {code}: see its output above"
    return None


def _both(first: str, again: str) -> str:
    """Return the failure alone, and the first one if that was another."""
    last_lines = {text.rstrip().rpartition("\n")[2] for text in (first, again)}
    return again if len(last_lines) == 1 else f"{again}\n\nThe first time, beside other tests:\n{first}"
