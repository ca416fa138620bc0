"""Runs checks of the project and prints one plain summary: `python -m scripts.check [--tests|--gate|--long]`.

Without an option, it runs the static checks alone; with `--tests` those, and beside them all tests but the long ones;
with `--long` all long tests, and with `--gate` the few of them without which nothing lands (`scripts/gate.py`).
"""

import argparse
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from scripts.gate import GATE
from scripts.suite import ROOT, Outcome, Suite

BIN = ROOT / ".venv" / "bin"
CACHE = ROOT / ".cache"
RUN_LIMIT = 40 * 60
"""Seconds after which a run is ended. It is meant to take a quarter of that."""

STATIC = {
    "ruff": ["ruff", "check", "--quiet"],
    "format": ["ruff", "format", "--check", "--quiet"],
    "mypy": ["mypy"],
    "imports": ["lint-imports", "--no-cache"],
}
SELECTIONS = {"tests": ["-m", "not long"], "long": ["-m", "long"], "gate": list(GATE)}
SLOWEST = 10
"""How many of the tests that took longest are named in the end."""


class Result(NamedTuple):
    """How a static check went."""

    name: str
    passed: bool
    seconds: float


def main() -> int:
    """Run the checks and print how they went."""
    parser = argparse.ArgumentParser(prog="python -m scripts.check", description="Check the project.")
    choice = parser.add_mutually_exclusive_group()
    for name in SELECTIONS:
        choice.add_argument(f"--{name}", dest="suite", action="store_const", const=name)
    chosen: str | None = parser.parse_args().suite
    suite = Suite(CACHE, SELECTIONS[chosen], time.monotonic() + RUN_LIMIT) if chosen else None
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all that we run: that ends, and we report
    if suite:
        signal.signal(signal.SIGTERM, lambda *_: suite.stop())
    with ThreadPoolExecutor() as side_by_side:  # most of the static checks use one processor
        checks = STATIC if chosen in (None, "tests") else {}
        static = [side_by_side.submit(_check, name, command) for name, command in checks.items()]
        outcome = suite.run() if suite else None
        results = [check.result() for check in static]
    if suite and outcome:
        suite.retry(outcome)
    report(results, chosen, outcome)
    return 0 if all(result.passed for result in results) and (outcome is None or outcome.is_green) else 1


def _check(name: str, command: list[str]) -> Result:
    """Run a static check; print its output if it fails."""
    started = time.monotonic()
    words = [str(BIN / command[0]), *command[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"--- {name}\n{done.stdout}{done.stderr}".rstrip(), flush=True)
    return Result(name, done.returncode == 0, time.monotonic() - started)


def report(results: list[Result], chosen: str | None, outcome: Outcome | None) -> None:
    """Print the failures in full, a summary, and last what is flaky."""
    for test, text in outcome.failed.items() if outcome else ():
        print(f"\nFAILED {test}\n{text}")
    print("\nSummary")
    for result in results:
        print(f"  {result.name:<8} {'passed' if result.passed else 'FAILED':<7} {result.seconds:6.1f} s")
    if outcome is None:
        return
    print(f"  {chosen:<8} {'passed' if outcome.is_green else 'FAILED':<7} {outcome.seconds:6.1f} s")
    record = outcome.record
    for test in sorted(record.seconds, key=lambda test: -record.seconds[test])[:SLOWEST]:
        print(f"  {record.seconds[test]:6.1f} s  {test}")
    for test, reason in record.skipped.items():
        print(f"  skipped: {test}: {reason}")
    if outcome.problem:
        print(f"  FAILED: {outcome.problem}")
    passed, failed = len(record.passed) + len(outcome.flaky), len(outcome.failed)
    print(f"{passed} passed, {failed} failed, {len(outcome.flaky)} flaky, {len(record.skipped)} skipped")
    for test, path in outcome.flaky.items():
        print(f"  flaky: {test}: its first failure is in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
