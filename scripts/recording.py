"""A pytest plugin that records a run, so that its results are known even if it is killed.

`pytest -p scripts.recording --record DIRECTORY` writes two kinds of files:

- `results.ndjson`, by the process that reports: the number of tests, then a line for each phase of each test.
- `running/PID`, by each process that runs tests: the test it is running, and nothing in between. If the test exceeds
  its time limit, the stacks of all threads follow and the process exits; pytest-xdist replaces it and reports a crash.

The limit is enforced by faulthandler's watchdog, a thread in C. A signal handler (the default of pytest-timeout) cannot
interrupt a call that blocks in C, and a test may swallow what it raises or hang again as it cleans up.
"""

import faulthandler
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import TextIO

import pytest

TEST_LIMIT = 120.0
"""Seconds that a test may take, with its set-up and clean-up."""

MAX_OUTPUT = 20_000
"""How many characters are kept of each thing that a failed test has printed or logged: the last ones."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("recording")
    group.addoption("--record", type=Path, metavar="DIRECTORY", required=True, help="where to record the run")
    group.addoption("--limit", type=float, default=TEST_LIMIT, metavar="SECONDS", help="how long a test may take")


def pytest_configure(config: pytest.Config) -> None:
    """Start to record: the running test in every process, and results where they are reported."""
    directory: Path = config.getoption("--record")
    running = directory / "running"
    running.mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(Watchdog(running / str(os.getpid()), config.getoption("--limit")))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(directory / "results.ndjson"))


class Watchdog:
    """Records which test is running, and ends the process if it takes too long."""

    def __init__(self, path: Path, limit: float) -> None:
        self._file: TextIO = path.open("w")
        self._limit = limit

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch a test."""
        self._file.write(f"{item.nodeid}\n")
        self._file.flush()
        self._arm()
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._file.seek(0)
            self._file.truncate()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Arm again after a failure: pytest's own faulthandler plugin has just disarmed, and the clean-up may hang."""
        self._arm()

    def _arm(self) -> None:
        faulthandler.dump_traceback_later(self._limit, exit=True, file=self._file)


class Results:
    """Records how many tests there are, and how each phase of each of them ended."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("w")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record the tests of a run in one process."""
        if session.items:
            self._write({"collected": [item.nodeid for item in session.items]})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Record the tests of a parallel run; each worker has collected the same."""
        self._write({"collected": ids})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a module that could not be imported."""
        if report.failed:
            self._write({"test": report.nodeid, "outcome": "failed", "seconds": 0, "text": report.longreprtext})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a phase of a test."""
        line = {"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "seconds": report.duration}
        if report.skipped and isinstance(report.longrepr, tuple):
            line["text"] = report.longrepr[2]
        elif report.failed:
            output = (f"{title:-^80}\n{_end_of(content)}" for title, content in report.sections if content)
            line["text"] = "\n".join([report.longreprtext, *output])
        self._write(line)

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _end_of(output: str) -> str:
    left_out = len(output) - MAX_OUTPUT
    return f"({left_out} characters left out)\n{output[left_out:]}" if left_out > 0 else output
