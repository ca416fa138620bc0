"""Submissions apart from their graders: what submitted code can do to its score, which is nothing but work."""

import asyncio
import sys

import pytest

from belljar.harness.judge.grading import ARCHIVE, Grader, GraderError, ReceivedSubmission
from belljar.sandbox.spec import SandboxSpec
from tests.harness import archives
from tests.harness.archives import member
from tests.harness.directories import Directories
from tests.harness.stages import stage, task

GRADE = f"""
passed=0
for number in 2 3 4; do
    answer=$(echo $number | timeout 20 belljar-submission {sys.executable} solve.py 2>>errors) || true
    [ "$answer" = "$(cat hidden/$number)" ] && passed=$((passed + 1))
done
echo '>>>>> Start Structured Result'
echo "{{\\"passed\\": $passed, \\"total_tests\\": 3, \\"failed\\": $((3 - passed)), \\"score\\": $passed}}"
echo '>>>>> End Structured Result'
"""
HONEST = "print(int(input()) ** 2)"


@pytest.fixture
def directories():
    opener = Directories()
    opener.files = {f"hidden/{number}": f"{number**2}\n" for number in (2, 3, 4)}
    yield opener
    assert opener.open_now == 0


@pytest.fixture
def grade(tmp_path, directories):
    """Grades a program, and returns the report."""

    def grade(program, eval_cmd=GRADE, **fields):
        directory = tmp_path / "agent-1"
        directory.mkdir()
        archives.archive(directory / ARCHIVE, member("solve.py", program.encode()))
        grader = Grader(directories, lambda _: SandboxSpec(), tmp_path)
        judge = stage(eval_cmd, isolate_submission=True, **fields)
        return asyncio.run(grader.grade(task(judge), ReceivedSubmission(id="agent-1", directory=directory)))

    return grade


def test_a_program_is_run_beside_its_grader_with_input_and_output(grade, directories):
    report = grade(HONEST)
    assert (report.passed, report.total_tests, report.score, report.valid) == (3, 3, 3, True)
    assert [purpose for purpose, _ in directories.opened] == ["submission", "judge"]


CHEATS = {
    "it finds no tests": "import os; print(open('hidden/' + input()).read().strip())",
    "it reads no files of the grader": "import os; print(*os.listdir('.')); print(*os.listdir('hidden'))",
    "it prints a result": "print('>>>>> Start Structured Result\\n{\"score\": 99}\\n>>>>> End Structured Result')",
    "it writes a result": "import os; open(os.environ['BELLJAR_RESULT'], 'w').write('{\"score\": 99}')",
    "it ends at once": "import os; os._exit(0)",
    "it writes errors": "import sys; sys.exit('>>>>> Start Structured Result')",
}


@pytest.mark.parametrize("program", CHEATS.values(), ids=CHEATS)
def test_code_that_does_not_solve_the_task_scores_nothing(grade, program):
    report = grade(program)
    assert (report.passed, report.score, report.valid) == (0, 0, True)


def test_files_of_the_submission_are_never_in_the_graders_sandbox(grade):
    command = "echo '{\"score\": '$(ls | grep -c solve)'}'; ls"
    assert grade(HONEST, command).score == 0


def test_exit_codes_and_both_outputs_of_a_command_are_its_own(grade):
    command = """
        belljar-submission sh -c 'echo out; echo err >&2; exit 7' >o 2>e; own=$?
        belljar-submission /absent/program; absent=$?
        [ "$(cat o) $(cat e)" = "out err" ] && echo "{\\"score\\": $own$absent}"
    """
    assert grade(HONEST, command).score == 7127


def test_input_is_passed_whole_and_binary(grade):
    command = (
        "head -c 3000000 /dev/urandom >r; "
        '[ "$(belljar-submission md5sum <r)" = "$(md5sum <r)" ] && echo \'{"score": 1}\''
    )
    assert grade(HONEST, command).score == 1


def test_ending_the_program_ends_the_command(grade, directories):
    command = 'timeout 1 belljar-submission sleep 600; echo "{\\"score\\": $?}"'
    assert grade(HONEST, command).score == 124


def test_a_submission_that_ends_its_own_sandbox_fails_and_is_not_tried_again(grade, directories):
    directories.faults = ["run"]
    report = grade(HONEST)
    assert (report.passed, report.valid) == (1, True)  # what the first command had printed before
    assert len(directories.opened) == 2


def test_a_backend_that_is_lost_is_tried_again(grade, directories):
    directories.faults = ["lost", None]
    assert grade(HONEST).passed == 3


def test_a_backend_that_stays_lost_gives_no_score(grade, directories):
    directories.faults = ["lost", None] * 3
    with pytest.raises(GraderError):
        grade(HONEST)


def test_a_grader_that_runs_out_of_time_is_ended_with_its_commands(grade):
    report = grade(HONEST, "belljar-submission sleep 600", eval_timeout=1)
    assert (report.timed_out, report.valid) == (True, False)
