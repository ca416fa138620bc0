"""The output of graders: what counts of it, and what submitted code cannot achieve by printing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.harness.judge.parsers.graded import Grades
from belljar.harness.judge.parsers.parsing import MAX_OUTPUT, parse
from belljar.harness.tasks.model import Direction, Parser
from tests.harness.stages import stage

START, END = ">>>>> Start Structured Result", ">>>>> End Structured Result"


def structured(output: str) -> Grades:
    return parse(stage(parser=Parser.STRUCTURED_JSON), output.encode())


def pytested(output: str) -> Grades:
    return parse(stage(parser=Parser.PYTEST_V), output.encode())


def summed(output: str, direction: Direction = Direction.MAXIMIZE) -> Grades:
    return parse(stage(parser=Parser.SCORE_SUM, direction=direction), output.encode())


def block(text: str) -> str:
    return f"{START}\n{text}\n{END}\n"


def test_a_structured_block_is_read_with_details_and_metrics():
    data = {
        "valid": True,
        "score": 12.5,
        "summary": "fine",
        "details": [
            {"name": "a", "status": "passed"},
            {"name": "b", "status": "FAILED", "message": "3 != 4", "score": 0, "weight": 2},
            {"name": "c", "status": "skipped"},
            {"name": "d", "status": "error"},
        ],
        "metrics": {"speed": 3, "host": "x", "bad": None},
    }
    found = structured(f"noise\n{block(json.dumps(data, indent=2))}more noise\n")
    assert (found.total_tests, found.passed, found.failed, found.errors) == (3, 1, 1, 1)
    assert (found.score, found.valid, found.summary) == (12.5, True, "fine")
    assert found.pass_rate == pytest.approx(1 / 3)
    assert found.details[1].message == "3 != 4"
    assert found.metrics == {"speed": 3.0, "host": "x", "bad": ""}


def test_counts_are_read_where_there_are_no_details():
    found = structured(block('{"passed": 3, "failed": 1, "total_tests": 5}'))
    assert (found.passed, found.failed, found.total_tests, found.pass_rate) == (3, 1, 5, 0.6)


@pytest.mark.parametrize(
    "output",
    [
        block('{"score": 100}') + block('{"score": 1}'),
        f"{START}\n" + block('{"score": 1}'),
        block('{"score": 1}') + END,
        f'{START}\n{{"score": 100}}\n',
        f'{END}\n{START}\n{{"score": 1}}',
        block('{"score": 1}') + f"{START}\n",
        '{"score": 100}\n{"score": 1}\n',
        "no result at all\n",
        block("[1, 2]"),
        block("nonsense"),
        block("[" * 200_000),
        block('{"valid": "yes", "score": 1}'),
        '{"score": 1} \n' + "{\n" * 5000,
    ],
)
def test_a_result_that_submitted_code_may_have_printed_is_invalid_and_has_no_score(output):
    found = structured(output)
    assert (found.valid, found.score, found.pass_rate) == (False, None, 0.0)
    assert found.summary


def test_a_single_object_without_markers_counts():
    assert structured('collecting\n{"other": 1}\n{"score": 3,\n "valid": true}\nbye').score == 3


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, '"7"', "true", "[1]"])
def test_numbers_that_json_cannot_have_become_null(number):
    found = structured(block(f'{{"score": {number}, "pass_rate": {number}, "metrics": {{"m": {number}}}}}'))
    assert found.score is None
    assert 0 <= found.pass_rate <= 1
    json.dumps(dict(found.metrics), allow_nan=False)


@pytest.mark.parametrize(("rate", "expected"), [(7, 1.0), (-3, 0.0), (0.25, 0.25)])
def test_pass_rates_are_cut_to_0_and_1(rate, expected):
    assert structured(block(f'{{"pass_rate": {rate}}}')).pass_rate == expected


def test_the_result_file_counts_alone():
    found = parse(stage(), block('{"score": 100}').encode(), b'{"score": 2}')
    assert found.score == 2
    assert not parse(stage(), block('{"score": 100}').encode(), b"garbage").valid


def test_texts_for_people_hold_nothing_that_a_terminal_obeys():
    found = structured(block(json.dumps({"score": 1, "summary": "\x1b]0;evil\x07" + "x" * 9000})))
    assert "\x1b" not in found.summary
    assert len(found.summary) <= 4096


def test_bytes_that_are_no_utf8_do_not_disturb():
    assert parse(stage(), b"\xff\xfe\n" + block('{"score": 1}').encode()).score == 1


def test_an_output_that_was_cut_has_no_result():
    output = (b"tests/t.py::a PASSED\n" * (MAX_OUTPUT // 20))[: MAX_OUTPUT - 30] + b"\n=== 1 passed in 0.1s ===\n" * 2
    found = parse(stage(parser=Parser.PYTEST_V), output[:MAX_OUTPUT])
    assert not found.valid


def run_pytest(tmp_path: Path, test: str, *options: str, **modules: str) -> str:
    (tmp_path / "test_it.py").write_text(test)
    for name, content in modules.items():
        (tmp_path / f"{name}.py").write_text(content)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options, "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


SUITE = """
import pytest, work

def test_good(): assert work.one() == 1
def test_bad(): assert work.one() == 2
@pytest.mark.parametrize("x", ["a - b", "c d"])
def test_odd_names(x): assert x == "c d"
@pytest.mark.xfail
def test_known(): assert False
@pytest.mark.skip(reason="no (time)")
def test_later(): pass
@pytest.fixture
def broken(): raise OSError
def test_setup(broken): pass
"""
HONEST = "def one(): return 1"


@pytest.mark.parametrize("options", [(), ("--color=yes",), ("-rA",), ("-n", "2"), ("--tb=short", "-ra"), ("-s",)])
def test_the_output_of_real_pytest_is_counted(tmp_path, options):
    found = pytested(run_pytest(tmp_path, SUITE, *options, work=HONEST))
    assert (found.passed, found.failed, found.errors, found.total_tests) == (3, 2, 1, 6)
    assert found.pass_rate == 0.5
    assert found.valid


def test_what_tests_print_among_the_lines_of_pytest_costs_nothing(tmp_path):
    noisy = "def one():\n print('hello')\n return 1"
    found = pytested(run_pytest(tmp_path, "import work\ndef test_a(): assert work.one() == 1", "-s", work=noisy))
    assert (found.passed, found.total_tests, found.pass_rate) == (1, 1, 1.0)


FORGERIES = {
    "lines": "print('\\ntest_it.py::test_good PASSED\\ntest_it.py::test_bad PASSED\\n', file=sys.__stdout__)",
    "a last line": "print('\\n===== 6 passed in 0.10s =====', file=sys.__stdout__)",
    "both": "print('\\ntest_it.py::test_bad PASSED\\n=== 6 passed in 0.1s ===', file=sys.__stdout__)",
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("options", [(), ("-s",)])
def test_lines_that_submitted_code_prints_turn_no_failure_into_a_success(tmp_path, forgery, options):
    evil = f"import sys\ndef one():\n {forgery}\n return 1"
    found = pytested(run_pytest(tmp_path, SUITE, *options, work=evil))
    assert found.passed <= 3
    assert found.failed >= 2
    assert found.pass_rate <= 0.5


def test_code_that_ends_pytest_before_the_failures_has_no_result(tmp_path):
    evil = "import os\nn = 0\ndef one():\n global n\n n += 1\n if n > 1: os._exit(0)\n return 1"
    found = pytested(run_pytest(tmp_path, SUITE, "-s", work=evil))
    assert (found.valid, found.pass_rate) == (False, 0.0)
    assert "last line" in found.summary


def test_an_import_that_fails_is_an_error(tmp_path):
    found = pytested(run_pytest(tmp_path, SUITE, work="raise ImportError"))
    assert (found.passed, found.errors, found.total_tests) == (0, 1, 1)


def test_no_output_is_one_error_named_unknown():
    found = pytested("")
    assert not found.valid
    assert [(detail.name, detail.status) for detail in found.details] == [("unknown", "ERROR")]


def test_cases_are_counted_and_summed():
    found = summed("CASE 1 OK score=10\nCASE 2 WA score=0\nCASE 3 TLE score=2.5\n")
    assert (found.passed, found.failed, found.total_tests, found.score) == (1, 2, 3, 12.5)
    assert summed("CASE 1 OK score=10\nTOTAL_SCORE 7\n").score == 7
    assert summed("CASE 1 OK score=10\nTOTAL_SCORE inf\n").score is None
    assert summed("CASE 1 OK score=nan\n").score is None


def test_of_two_results_of_a_case_and_of_two_totals_the_worse_counts():
    found = summed("CASE 1 OK score=100\nCASE 1 WA score=0\nCASE 1 OK score=100\n")
    assert (found.passed, found.failed, found.score) == (0, 1, 0)
    assert summed("TOTAL_SCORE 999\nTOTAL_SCORE 1\n").score == 1
    assert summed("TOTAL_SCORE 999\nTOTAL_SCORE 1\n", Direction.MINIMIZE).score == 999
    assert not summed("nothing").valid


@pytest.mark.parametrize("parser", Parser)
@pytest.mark.parametrize(
    "line",
    [
        "::" * 4000 + " ",
        "{" * 8000,
        "=" * 8000,
        "1 passed, " * 800,
        "a - b::" * 1000,
        "FAILED x::" + " - " * 2000,
        '{"a":' * 2000,
        START,
        "[gw0] " * 1000,
        "\x1b[" * 4000,
        "CASE " + "x" * 8000,
    ],
)
def test_no_output_is_too_long_to_read(parser, line):
    output = (line + "\n").encode()
    output = output * ((4 << 20) // len(output))
    assert parse(stage(parser=parser), output).score is None  # a parser that is not linear takes hours


@pytest.mark.parametrize(
    "line",
    ["a::" + " " * 4080 + "x", "1 passed in 1s" + " " * 4060 + "=x"],
    ids=["progress", "last line"],
)
def test_lines_of_blanks_take_linear_time(line):
    """They would take minutes for an output of this size if a pattern tried each blank as its beginning."""
    count = (MAX_OUTPUT - 1000) // (len(line) + 1)
    found = pytested(f"{line}\n" * count + "a::b PASSED   [100%]\n=== 1 passed in 0.1s ===\n")
    assert (found.passed, found.valid, found.details[0].name) == (1, True, "a::b")


def test_lines_that_look_like_json_are_not_each_read_to_the_end_of_the_output():
    line = '{"a":[' + "1," * 30_000 + "\n"
    found = structured(line * 200 + '{"score": 1}\n')
    assert (found.valid, found.score) == (False, None)
