"""Submissions that are graded: what counts, what a submission cannot plant, and what a broken judge leads to."""

import asyncio
import json
import sys
import tarfile

import pytest

from belljar.harness.judge.grading import ARCHIVE, Grader, GraderError, ReceivedSubmission
from belljar.harness.tasks.model import Parser, Rescale
from belljar.sandbox.spec import SandboxSpec
from tests.harness import archives
from tests.harness.archives import link, member
from tests.harness.directories import Directories
from tests.harness.stages import stage, task

PYTEST = f"{sys.executable} -m pytest -v -p no:cacheprovider checks"
CHECKS = {"checks/test_it.py": "import sum\ndef test_it(): assert sum.add(1, 2) == 3\n"}


@pytest.fixture
def directories():
    opener = Directories()
    yield opener
    assert opener.open_now == 0


@pytest.fixture
def grade(tmp_path, directories):
    """Grades an archive of these members, and returns the report."""

    def grade(judge, *members, **fields):
        directory = tmp_path / "agent-1"
        directory.mkdir()
        archives.archive(directory / ARCHIVE, *members)
        grader = Grader(directories, lambda _: SandboxSpec(), tmp_path)
        received = ReceivedSubmission(id="agent-1", directory=directory, submitted_at="2026-01-01T00:00:00Z")
        return asyncio.run(grader.grade(task(judge, **fields), received))

    return grade


def python(name: str, content: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(f"{name}.py", content.encode())


def test_a_submission_is_graded_where_the_tests_are_and_its_evidence_is_kept(grade, directories, tmp_path):
    directories.files = CHECKS
    rescale = Rescale(kind="linear", parameters={"lower": 0, "upper": 1})
    report = grade(stage(PYTEST, Parser.PYTEST_V, rescale=rescale), python("sum", "def add(a, b): return a + b"))
    assert (report.passed, report.total_tests, report.pass_rate, report.valid) == (1, 1, 1.0, True)
    assert (report.submission_id, report.exit_code, report.timed_out) == ("agent-1", 0, False)
    assert [purpose for purpose, _ in directories.opened] == ["judge"]
    kept = tmp_path / "agent-1"
    assert sorted(path.name for path in kept.iterdir()) == [
        "allowed_files.txt",
        "eval.sh",
        "report.json",
        "submission.tar.gz",
        "test_errors.txt",
        "test_output.txt",
    ]
    assert json.loads((kept / "report.json").read_text())["pass_rate"] == 1.0
    assert (kept / "allowed_files.txt").read_text() == "sum.py\n"
    assert "1 passed" in (kept / "test_output.txt").read_text()


def test_a_wrong_submission_fails(grade, directories):
    directories.files = CHECKS
    report = grade(stage(PYTEST, Parser.PYTEST_V), python("sum", "def add(a, b): return a"))
    assert (report.passed, report.failed, report.exit_code) == (0, 1, 1)


TURN_ALL_INTO_SUCCESS = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""


@pytest.mark.parametrize(
    "planted",
    [
        python("conftest", TURN_ALL_INTO_SUCCESS),
        member("checks/conftest.py", TURN_ALL_INTO_SUCCESS.encode()),
        python("sitecustomize", "import os; os._exit(0)"),
        python("usercustomize", "import os; os._exit(0)"),
        member("pytest.ini", b"[pytest]\naddopts = --collect-only"),
        member("tox.ini", b"[pytest]\naddopts = -p evil"),
        python("pytest", "print('checks/test_it.py::test_it PASSED\\n=== 1 passed in 0.1s ===')"),
        member("evil.pth", b"import os; os._exit(0)"),
    ],
)
def test_files_that_take_over_the_test_runner_have_no_effect(grade, directories, planted):
    directories.files = CHECKS
    report = grade(stage(PYTEST, Parser.PYTEST_V), python("sum", "def add(a, b): return a"), planted)
    assert (report.passed, report.failed, report.pass_rate) == (0, 1, 0.0)
    assert len(report.left_out) == 1


def test_a_planted_conftest_would_have_worked(grade, directories):
    """Without this, the test above would prove nothing."""
    directories.files = CHECKS
    wanted = ("sum.py", "conftest.py")
    planted = (python("sum", "def add(a, b): return a"), python("conftest", TURN_ALL_INTO_SUCCESS))
    assert grade(stage(PYTEST, Parser.PYTEST_V), *planted, submit_paths=wanted).passed == 1


def test_planted_rewards_have_no_effect(grade):
    planted = [member(name, b'{"score": 100}') for name in ("result.json", "report.json", "reward.json", "reward.txt")]
    report = grade(stage("echo '{\"score\": 1}'"), *planted)
    assert report.score == 1


def test_hidden_tests_are_not_replaced_by_a_submission(grade, directories):
    directories.files = {"tests/test_it.py": "def test_it(): assert False"}
    report = grade(
        stage(PYTEST.replace("checks", "tests"), Parser.PYTEST_V),
        member("tests/test_it.py", b"def test_it(): pass"),
        link("same", "tests"),
    )
    assert report.failed == 1
    assert [entry.partition(":")[0] for entry in report.left_out] == ["tests/test_it.py", "same"]


def test_the_result_file_counts_alone(grade):
    command = 'echo \'{"score": 99}\'; echo \'{"score": 2, "valid": true}\' > "$BELLJAR_RESULT"'
    assert grade(stage(command, isolate_submission=True), python("a", "")).score == 2


def test_submitted_code_beside_the_grader_is_told_of_no_result_file(grade):
    """Whatever eval_cmd runs inherits its variables, and has its rights."""
    command = 'sh work.sh; echo \'{"score": 1, "pass_rate": 0.5}\''
    looks = member("work.sh", b'[ -z "$BELLJAR_RESULT" ] || echo \'{"score": 99}\'')
    assert grade(stage(command), looks).score == 1


def test_what_is_written_to_standard_error_is_no_result(grade):
    forges = member("work.sh", b'echo \'{"score": 99, "pass_rate": 1}\' >&2; exit 3')
    report = grade(stage("sh work.sh"), forges)
    assert (report.score, report.valid) == (None, False)


def test_full_marks_from_a_grader_that_failed_are_none(grade):
    report = grade(stage("sh work.sh"), member("work.sh", b'echo \'{"score": 99, "pass_rate": 1}\'; exit 3'))
    assert (report.score, report.valid) == (None, False)
    assert "exited with 3" in report.summary


@pytest.mark.parametrize("how", ["mkdir", "mkfifo", "ln -s /etc/passwd", "echo nonsense >"])
def test_a_result_file_that_is_none_is_no_score(grade, how):
    command = f'echo \'{{"score": 99}}\'; {how} "$BELLJAR_RESULT"'
    report = grade(stage(command, isolate_submission=True), python("a", ""))
    assert (report.score, report.valid) == (None, False)


def test_eval_cmd_is_bash_text_and_runs_in_the_working_directory(grade, directories):
    command = "[[ -f a.py ]] && printf '{\"score\": %d}' $((6 * 7))"
    assert grade(stage(command), python("a", "")).score == 42


def test_an_evaluation_that_takes_too_long_is_stopped_and_invalid(grade):
    report = grade(stage("echo '{\"score\": 9}'; sleep 600", eval_timeout=0.3), python("a", ""))
    assert (report.timed_out, report.valid, report.score, report.pass_rate) == (True, False, None, 0.0)


@pytest.mark.parametrize("fault", ["open", "put", "lost", "run", "step"])
def test_a_sandbox_that_dies_midway_is_replaced(grade, directories, tmp_path, fault):
    directories.faults = [fault, fault]
    assert grade(stage("echo '{\"score\": 5}'"), python("a", "")).score == 5
    assert len(directories.opened) == 3
    assert all((tmp_path / "agent-1" / f"try-{n}" / "error.txt").read_text() for n in (1, 2))
    assert not (tmp_path / "agent-1" / "try-3").exists()


@pytest.mark.parametrize("fault", ["open", "put", "lost", "run"])
def test_a_judge_that_keeps_failing_gives_an_error_and_never_a_zero(grade, directories, tmp_path, fault):
    directories.faults = [fault] * 3
    with pytest.raises(GraderError, match="3 tries"):
        grade(stage("echo '{\"score\": 5}'"), python("a", ""))
    assert not (tmp_path / "agent-1" / "report.json").exists()


def test_the_clean_archive_is_gone_afterwards(grade, directories, tmp_path):
    directories.faults = ["open"] * 3
    with pytest.raises(GraderError):
        grade(stage("true"), python("a", ""))
    assert not (tmp_path / "agent-1" / "clean.tar").exists()
