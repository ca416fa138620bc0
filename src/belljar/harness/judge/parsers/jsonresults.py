"""Read what a grader reports as JSON: from `$BELLJAR_RESULT`, or as a block of its output.

What can be forged
------------------
Submitted code usually runs in the grader's own process or as its child. Then it can print what the grader prints, read
the grader's environment, write the file that `$BELLJAR_RESULT` names, and end the process before the grader has
reported. Nothing that is read afterwards can tell such a report from a true one. What is guaranteed:

- The file has a name that no archive could foresee, and did not exist when the submission was unpacked.
- If the file is there, it counts alone, and nothing that was printed does.
- A second block in the output, or an incomplete one, makes the submission invalid: the grader prints exactly one, so
  a forger would have to keep it from printing its own.

A grader that must be safe from submitted code does not run it in its own sandbox (`isolate_submission`).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from belljar.errors import printable
from belljar.harness.judge.parsers.graded import (
    MAX_DETAILS,
    MAX_MESSAGE,
    MAX_METRICS,
    MAX_NAME,
    MAX_SUMMARY,
    Grades,
    finite,
    invalid,
)
from belljar.harness.judge.report import TestDetail

_START: Final = ">>>>> Start Structured Result"
_END: Final = ">>>>> End Structured Result"
_MARKER: Final = re.compile(rf"^({_START}|{_END})[ \t\r]*$", re.MULTILINE)
_OBJECT: Final = re.compile(r"^\{", re.MULTILINE)
_KEYS: Final = frozenset({"valid", "score", "summary", "details", "metrics", "pass_rate"})
_MAX_JSON: Final = 4 << 20
_MAX_FALSE_STARTS: Final = 200
"""Lines that begin with a brace and are no JSON; each costs time to find that out."""

_MAX_FALSE_CHARACTERS: Final = 4 << 20
"""Characters that all of them may have before they turn out to be none."""

_MAX_DIGITS: Final = 300
_PASSED: Final = frozenset({"PASSED", "PASS", "OK", "XFAIL", "XPASS", "SUCCESS"})
_SKIPPED: Final = frozenset({"SKIPPED", "SKIP"})
_ERRORS: Final = frozenset({"ERROR", "ERRORS"})


def read_result_file(content: bytes) -> Grades:
    """Read the file that `$BELLJAR_RESULT` names."""
    try:
        data = _loads(content.decode())
    except ValueError as error:
        return invalid(f"$BELLJAR_RESULT holds no JSON that can be read ({error})")
    return _grades(data)


def read_structured_output(text: str) -> Grades:
    """Read the one structured block of an output, or else the one JSON object that stands in it."""
    markers = list(_MARKER.finditer(text))
    if markers:
        if [match[1] for match in markers] != [_START, _END]:
            return invalid(
                "the output has several structured results, or an incomplete one: submitted code may have printed it"
            )
        found = text[markers[0].end() : markers[1].start()]
        try:
            return _grades(_loads(found))
        except ValueError as error:
            return invalid(f"the structured result is no JSON that can be read ({error})")
    candidates = _objects(text)
    if candidates is None or len(candidates) > 1:
        return invalid("the output has several JSON objects, and which one is the result cannot be known")
    if not candidates:
        return invalid("the output has no structured result: the grader failed before it could report one")
    return _grades(candidates[0])


def _objects(text: str) -> list[dict[str, Any]] | None:
    """Return the objects at the beginning of lines that may be results; None if there are too many to look at."""
    found: list[dict[str, Any]] = []
    position = false_starts = false_characters = 0
    while match := _OBJECT.search(text, position):
        try:
            data, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            end = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
            false_characters += end - match.start()
            position, false_starts = match.end(), false_starts + 1
            if false_starts > _MAX_FALSE_STARTS or false_characters > _MAX_FALSE_CHARACTERS:
                return None
            continue
        if isinstance(data, dict) and not _KEYS.isdisjoint(data):
            found.append(data)
        if len(found) > 1:
            return None
    return found


def _loads(text: str) -> Any:
    """Return what a text says. Raises ValueError."""
    if len(text) > _MAX_JSON:
        raise ValueError(f"it is larger than {_MAX_JSON >> 20} MB")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(digits: str) -> float | int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None


_DECODER: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=lambda text: finite(float(text)), parse_constant=lambda _: None
)


def _grades(data: Any) -> Grades:
    if not isinstance(data, dict):
        return invalid("the result is no JSON object")
    valid = data.get("valid", True)
    if not isinstance(valid, bool):
        return invalid('"valid" of the result is neither true nor false')
    details = _details(data.get("details"))
    if details:
        passed, failed, errors = _count(details)
    else:
        passed, failed, errors = (_whole(data.get(key)) for key in ("passed", "failed", "errors"))
    total = max(passed + failed + errors, 0 if details else _whole(data.get("total_tests")))
    rate = finite(data.get("pass_rate"))
    if rate is None:
        rate = passed / total if total else 0.0
    return Grades(
        total_tests=total,
        passed=passed,
        failed=failed,
        errors=errors,
        pass_rate=min(max(rate, 0.0), 1.0),
        score=finite(data.get("score")),
        valid=valid,
        summary=_text(data.get("summary"), MAX_SUMMARY),
        details=details,
        metrics=_metrics(data.get("metrics")),
    )


def _details(data: Any) -> tuple[TestDetail, ...]:
    entries = data if isinstance(data, list) else []
    return tuple(
        TestDetail(
            name=_text(entry.get("name"), MAX_NAME) or "unnamed",
            status=_status(entry.get("status")),
            message=_text(entry.get("message"), MAX_MESSAGE),
            score=finite(entry.get("score")),
            weight=finite(entry.get("weight")),
        )
        for entry in entries[:MAX_DETAILS]
        if isinstance(entry, dict)
    )


def _status(value: Any) -> str:
    status = _text(value, MAX_NAME).upper()
    for name, spellings in (("PASSED", _PASSED), ("SKIPPED", _SKIPPED), ("ERROR", _ERRORS)):
        if status in spellings:
            return name
    return "FAILED"


def _count(details: tuple[TestDetail, ...]) -> tuple[int, int, int]:
    found = [detail.status for detail in details]
    return found.count("PASSED"), found.count("FAILED"), found.count("ERROR")


def _metrics(data: Any) -> Mapping[str, float | str]:
    if not isinstance(data, dict):
        return {}
    entries = list(data.items())[:MAX_METRICS]
    return {
        _text(key, MAX_NAME): value if (value := finite(raw)) is not None else _text(raw, MAX_MESSAGE)
        for key, raw in entries
    }


def _whole(value: Any) -> int:
    number = finite(value)
    return int(min(max(number, 0), 1e9)) if number is not None else 0


def _text(value: Any, most: int) -> str:
    """Return a text for people: short, and without what a terminal would obey."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, bool | int | float) else ""
    lines = [printable(line) for line in text[:most].splitlines()]
    return "\n".join(lines)[:most]
