"""Read the output of graders that report line by line: pytest's with `-v`, and `CASE` lines.

Submitted code can print such lines too (`jsonresults` says what that means). So of two results of one test the worse
counts, of two totals the worse, and so do failures that only the lines or only the totals have; an output that stops
before pytest's last line is no result.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from belljar.errors import printable
from belljar.harness.judge.parsers.graded import MAX_DETAILS, MAX_NAME, Grades, finite, invalid
from belljar.harness.judge.report import TestDetail
from belljar.harness.tasks.model import Direction

_MAX_LINE: Final = 4096
_MAX_HYPHENS: Final = 20
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b[@-Z\\^_]|\r(?!\n)")
_PERCENT: Final = re.compile(r"\s*\d{1,3}%\]")
_WORKER: Final = re.compile(r"^\[gw\d{1,4}\]\s*(?:\[\s*\d{1,3}%\]\s*)?")
_RESULTS: Final = {
    "PASSED": "PASSED",
    "XFAIL": "PASSED",
    "XPASS": "PASSED",
    "SKIPPED": "SKIPPED",
    "FAILED": "FAILED",
    "ERROR": "ERROR",
}
_WORSE: Final = ("PASSED", "SKIPPED", "FAILED", "ERROR")
_LAST_LINE: Final = re.compile(r"^=*\s*((?:\d{1,9} [a-z]+(?:, )?)+|no tests ran)\s+in [\d.]+s\b[^=]*=*$")
_COUNT: Final = re.compile(r"(\d{1,9}) ([a-z]+)")
_CASE: Final = re.compile(r"^CASE (\S+) (OK|TLE|RE|WA|CE) score=(\S+)\s*$")
_TOTAL: Final = re.compile(r"^TOTAL_SCORE (\S+)\s*$")
_UNKNOWN: Final = (TestDetail(name="unknown", status="ERROR"),)


def read_pytest_output(text: str, direction: Direction) -> Grades:
    """Read what `pytest -v` has printed."""
    results: dict[str, str] = {}
    last_lines: list[dict[str, int]] = []
    totals: list[float | None] = []
    for line in _lines(text):
        if found := _test_line(line, results):
            name, status = found
            results[name] = max(results.get(name, status), status, key=_WORSE.index)
        elif match := _LAST_LINE.match(line):
            last_lines.append({kind: int(number) for number, kind in _COUNT.findall(match[1])})
        elif match := _TOTAL.match(line):
            totals.append(_number(match[1]))
    if not results and not last_lines:
        return invalid("pytest has reported no test", _UNKNOWN)
    details = _details(results.items())
    if not last_lines:
        return invalid("pytest did not come to its end: its last line is missing", details)
    stated = [_stated(last) for last in last_lines]
    by_lines = [list(results.values()).count(status) for status in ("PASSED", "FAILED", "ERROR")]
    failed = max(failed for _, failed, _ in (by_lines, *stated))
    errors = max(errors for _, _, errors in (by_lines, *stated))
    total = max(failed + errors, *map(sum, (by_lines, *stated)))
    # Fewer lines than pytest has counted are no contradiction: with -s, what a test prints breaks its line.
    passed = min(total - failed - errors, *(passed for passed, _, _ in stated))
    errors = total - failed - passed
    return Grades(
        total_tests=total,
        passed=passed,
        failed=failed,
        errors=errors,
        pass_rate=passed / total if total else 0.0,
        score=_worst(totals, direction),
        details=details,
    )


def read_score_output(text: str, direction: Direction) -> Grades:
    """Read `CASE <id> <verdict> score=<number>` lines, and a `TOTAL_SCORE` that replaces their sum."""
    cases: dict[str, tuple[bool, str, float | None]] = {}
    totals: list[float | None] = []
    for line in _lines(text):
        if match := _CASE.match(line):
            name, verdict, score = match[1], match[2], _number(match[3])
            if before := cases.get(name):
                verdict = before[1] if not before[0] else verdict
                score = _worst([before[2], score], direction)
            cases[name] = (verdict == "OK", verdict, score)
        elif match := _TOTAL.match(line):
            totals.append(_number(match[1]))
    if not cases and not totals:
        return invalid("the grader has reported no case and no score", _UNKNOWN)
    passed = sum(is_passed for is_passed, _, _ in cases.values())
    scores = [score for _, _, score in cases.values()]
    summed = None if None in scores else finite(sum(score for score in scores if score is not None))
    return Grades(
        total_tests=len(cases),
        passed=passed,
        failed=len(cases) - passed,
        pass_rate=passed / len(cases) if cases else 0.0,
        score=_worst(totals, direction) if totals else summed,
        details=tuple(
            TestDetail(
                name=printable(name[:MAX_NAME]),
                status="PASSED" if is_passed else "FAILED",
                message="" if is_passed else verdict,
                score=score,
            )
            for name, (is_passed, verdict, score) in list(cases.items())[:MAX_DETAILS]
        ),
    )


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield _ESCAPE.sub("", line[:_MAX_LINE]).rstrip()


def _test_line(line: str, known: Collection[str]) -> tuple[str, str] | None:
    """Return the test that a line is about, and its result. Takes linear time whatever the line is."""
    if "::" not in line:
        return None
    worker = _WORKER.match(line)
    first, _, rest = line[worker.end() if worker else 0 :].partition(" ")
    if first in _RESULTS and "::" in rest:  # pytest-xdist's lines, and those of the short summary
        return _test_name(rest) if worker else _summarized(rest, known), _RESULTS[first]
    line = _without_percent(line)
    name, _, status = line.rpartition(" ")
    if status in _RESULTS and "::" in name:
        return _test_name(name), _RESULTS[status]
    for status in ("SKIPPED", "XFAIL", "XPASS"):  # with a reason behind it
        name, found, _ = line.partition(f" {status} (")
        if found and "::" in name:
            return _test_name(name), _RESULTS[status]
    return None


def _summarized(text: str, known: Collection[str]) -> str:
    """Return the name in a line of the short summary, which is followed by a message; both may contain hyphens."""
    parts = text.split(" - ", _MAX_HYPHENS)
    names = [_test_name(" - ".join(parts[:count])) for count in range(1, len(parts) + 1)]
    return next((name for name in names if name in known), names[0])


def _test_name(text: str) -> str:
    return printable(_without_percent(text).strip()[:MAX_NAME])


def _without_percent(text: str) -> str:
    """Return a line without pytest's progress at its end. A search by one pattern takes quadratic time for blanks."""
    text = text.rstrip()
    before, bracket, percent = text.rpartition("[")
    is_progress = bracket and before[-1:].isspace() and _PERCENT.fullmatch(percent)
    return before.rstrip() if is_progress else text


def _stated(counts: dict[str, int]) -> list[int]:
    passed = sum(counts.get(kind, 0) for kind in ("passed", "xfailed", "xpassed"))
    return [passed, counts.get("failed", 0), counts.get("error", 0) + counts.get("errors", 0)]


def _details(results: Iterable[tuple[str, str]]) -> tuple[TestDetail, ...]:
    return tuple(TestDetail(name=name, status=status) for name, status in list(results)[:MAX_DETAILS])


def _number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None


def _worst(scores: list[float | None], direction: Direction) -> float | None:
    """Return the worst of several scores; None, which is no score at all, is worse than any."""
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return None
    return min(known) if direction is Direction.MAXIMIZE else max(known)
