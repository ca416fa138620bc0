"""Runs checks of the project and prints one plain summary.

Static checks alone, or with `--tests` the tests as well; or with `--long` nothing but the tests that take long.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
REPORT = ROOT / ".cache" / "tests.xml"

STATIC = {
    "ruff": ["ruff", "check", "--quiet"],
    "format": ["ruff", "format", "--check", "--quiet"],
    "mypy": ["mypy"],
    "imports": ["lint-imports", "--no-cache"],
}
WORKERS = min(2 * (os.cpu_count() or 1), 4)  # more than there are processors: many wait for container engines
TESTS = ["pytest", "-q", "-n", str(WORKERS), "--dist", "worksteal", f"--junitxml={REPORT}", "-m"]
TESTS_OF = {"--tests": "not long", "--long": "long"}
SLOWEST = 10
"""How many of the tests that took longest are named in the end."""


class Result(NamedTuple):
    name: str
    passed: bool
    seconds: float


class Counts(NamedTuple):
    passed: int
    failed: int
    skipped: list[str]
    seconds: dict[str, float]
    """How long each test took, with what it set up and cleaned up."""


def run(name: str, command: list[str], *, show: bool = False) -> Result:
    """Run a check; what it prints is shown if it fails."""
    started = time.monotonic()
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=not show, text=True, check=False
    )
    if done.returncode and not show:
        print(f"--- {name}\n{done.stdout}{done.stderr}".rstrip(), flush=True)
    return Result(name, done.returncode == 0, time.monotonic() - started)


def read_report() -> Counts:
    """Count the tests of the last run; each skipped one comes with its reason."""
    passed, failed, skipped = 0, 0, []
    seconds = dict[str, float]()
    for case in ET.parse(REPORT).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        seconds[name] = float(case.get("time", 0))
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif (skip := case.find("skipped")) is not None:
            skipped.append(f"{name}: {skip.get('message')}")
        else:
            passed += 1
    return Counts(passed, failed, skipped, seconds)


def main() -> int:
    """Run the checks and say how they went."""
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.unlink(missing_ok=True)
    with ThreadPoolExecutor() as side_by_side:  # most of the static checks use one processor
        checks = STATIC if "--long" not in sys.argv else {}
        static = [side_by_side.submit(run, name, command) for name, command in checks.items()]
        which = next((which for option, which in TESTS_OF.items() if option in sys.argv), None)
        tests = [run("tests", [*TESTS, which], show=True)] if which else []
    results = [*(check.result() for check in static), *tests]
    print("\nSummary")
    for result in results:
        print(f"  {result.name:<8} {'passed' if result.passed else 'FAILED':<7} {result.seconds:6.1f} s")
    if REPORT.exists():
        counts = read_report()
        for name in sorted(counts.seconds, key=lambda name: -counts.seconds[name])[:SLOWEST]:
            print(f"  {counts.seconds[name]:6.1f} s  {name}")
        for reason in counts.skipped:
            print(f"  skipped: {reason}")
        print(f"{counts.passed} passed, {counts.failed} failed, {len(counts.skipped)} skipped")
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
