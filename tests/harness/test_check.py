"""`belljar eval check`: what it finds in tasks that work, and in tasks that are broken in one way each."""

import json
from pathlib import Path
from typing import Any

import pytest

from belljar.harness.tasks.skeleton import write_skeleton
from tests.harness.evaluations import GRADE, counting

EXAMPLES = Path(__file__).parents[2] / "examples/benchmark"
SOLUTION = "#!/bin/sh\n# Writes the answer that is the highest of all.\necho 4 >answer.txt\n"
GRADER = f"cat >tests/grade.sh <<'OUTER'\n{GRADE}\nOUTER\n"
LONG = "echo a-test-that-is-longer-than-thirty-two-bytes"
HIDDEN = [f"mkdir -p tests; {LONG} >tests/cases.txt"]


@pytest.fixture
def check(evaluations):
    """Checks a task; returns the exit code and the rows by their names."""

    def run(task: str, *options: str, tasks: Path = evaluations.tasks) -> tuple[int, dict[str, Any]]:
        places = ("--tasks", str(tasks), "--state", str(evaluations.state))
        process = evaluations.call("check", task, *places, "--json", *options)
        out, err = process.communicate(timeout=120)
        assert out, err
        rows = {row["check"]: row for row in json.loads(out)["checks"]}
        assert list(rows) == ["loads", "setup", "hidden", "untouched", "solution", "repeatable"]
        assert evaluations.leftovers() == []
        return process.returncode, rows

    return run


def states(rows: dict[str, Any]) -> dict[str, str]:
    """Return the rows that are not ok."""
    return {name: row["state"] for name, row in rows.items() if row["state"] != "ok"}


def solve(evaluations: Any, script: str = SOLUTION) -> None:
    """Write a reference solution for the task `count`."""
    directory = evaluations.tasks / "count.solution"
    directory.mkdir()
    (directory / "solve.sh").write_text(script)


@pytest.mark.parametrize("task", ["word-count", "short-tour", "roman-numerals"])
def test_the_examples_are_fit_to_be_evaluated(check, task):
    code, rows = check(task, tasks=EXAMPLES)
    assert (code, states(rows)) == (0, {})
    assert "100.0 of 100, by belljar-submit and as the final state" in rows["solution"]["evidence"]
    assert rows["repeatable"]["evidence"].startswith("4 gradings")


def test_the_benchmark_to_begin_with_is_fit_to_be_evaluated(evaluations, check):
    write_skeleton(evaluations.tasks)
    assert states(check("hello")[1]) == {}


def test_a_task_that_is_fit_has_evidence_in_every_row_and_needs_no_remedy(evaluations, check):
    evaluations.write(counting(judge__setup_cmds=HIDDEN))
    solve(evaluations)
    code, rows = check("count")
    assert (code, states(rows)) == (0, {})
    assert all(row["evidence"] and not row["remedy"] for row in rows.values())
    assert "25.0 of 100" in rows["untouched"]["evidence"]
    assert "only the judge has: 1" in rows["hidden"]["evidence"]


def test_a_file_that_is_not_a_task_is_broken_and_nothing_else_is_checked(evaluations, check):
    evaluations.write(counting(judge__parser="pytest"))
    code, rows = check("count")
    assert (code, states(rows)["loads"]) == (1, "broken")
    assert "did you mean" in rows["loads"]["evidence"]
    assert set(states(rows).values()) == {"broken", "not checked"}


def test_a_task_of_images_alone_is_broken_on_a_backend_that_runs_none(evaluations, check):
    evaluations.write(counting(work__setup_cmds=..., work__image_tag="0123456789ab"))
    code, rows = check("count")
    assert (code, states(rows)["loads"]) == (1, "broken")
    assert "--backend docker" in rows["loads"]["evidence"]


@pytest.mark.parametrize("stage", ["work", "judge"])
def test_a_setup_that_needs_the_network_is_broken(evaluations, check, stage):
    evaluations.write(counting(**{f"{stage}__setup_cmds": ["curl -fsS -m 5 http://plain.test/ -o page.html"]}))
    code, rows = check("count")
    assert (code, states(rows)["setup"]) == (1, "broken")
    assert f"{stage}.setup_cmds exited with" in rows["setup"]["evidence"]
    assert "without a network" in rows["setup"]["evidence"]
    assert "base image" in rows["setup"]["remedy"]
    assert states(rows)["solution"] == "not checked"


def test_a_setup_that_only_tries_the_network_is_a_warning(evaluations, check, universe):
    evaluations.write(counting(work__setup_cmds=["curl -s -m 5 http://plain.test/ || true", "echo 1 >answer.txt"]))
    solve(evaluations)
    universe.wire.contacts()
    code, rows = check("count")
    assert (code, states(rows)) == (0, {"setup": "warning"})
    assert "plain.test" in rows["setup"]["evidence"]
    assert universe.wire.contacts() == set()


@pytest.mark.parametrize(
    ("left", "evidence"),
    [
        (HIDDEN, "tests/cases.txt is a test"),
        ([f"{LONG} >/tmp/notes"], "what the judge has as tests/cases.txt is in the work sandbox: /tmp/notes"),
        ([f'{LONG} >"$HOME/.cache"'], "what the judge has as tests/cases.txt is in the work sandbox"),
        ([f"{LONG} >'a name\\ with a newline\n'"], "what the judge has as tests/cases.txt is in the work sandbox"),
        (
            ["mkdir -p /tmp/old/tests", "echo x >/tmp/old/tests/cases.txt"],
            "the same path as the judge's tests/cases.txt: /tmp/old/tests/cases.txt",
        ),
        (["cat >notes.sh <<'END'", *SOLUTION.splitlines(), "END"], "the solution's count.solution/solve.sh is in"),
    ],
)
def test_a_test_or_solution_that_the_agent_can_read_is_broken(evaluations, check, left, evidence):
    evaluations.write(counting(work__setup_cmds=["echo 1 >answer.txt", *left], judge__setup_cmds=HIDDEN))
    solve(evaluations)
    code, rows = check("count")
    assert (code, states(rows)) == (1, {"hidden": "broken"})
    assert evidence in rows["hidden"]["evidence"]
    assert "work.setup_cmds" in rows["hidden"]["remedy"]


def test_a_grader_that_the_agent_can_read_is_broken_though_other_tests_are_hidden(evaluations, check):
    grader = ["mkdir -p tests", *GRADER.splitlines()]
    both = {"work__setup_cmds": ["echo 1 >answer.txt", *grader], "judge__setup_cmds": [*grader, *HIDDEN]}
    evaluations.write(counting(**both, judge__eval_cmd="sh tests/grade.sh"))
    code, rows = check("count")
    assert (code, states(rows)["hidden"]) == (1, "broken")
    assert "tests/grade.sh is a test" in rows["hidden"]["evidence"]


def test_files_that_are_public_on_purpose_and_tiny_ones_are_not_leaks(evaluations, check):
    public = [f"{LONG}-and-public >SPEC.md", "echo tiny >tiny.txt"]
    setup = {"work__setup_cmds": ["echo 1 >answer.txt", *public], "judge__setup_cmds": [*public, *HIDDEN]}
    setup["judge__setup_cmds"].append("echo tiny >tests/tiny.txt")
    evaluations.write(counting(**setup))
    assert check("count")[1]["hidden"]["state"] == "ok"


def test_public_tests_among_hidden_ones_are_a_warning(evaluations, check):
    public = f"mkdir -p tests; {LONG}-and-public >tests/public.txt"
    setup = {"work__setup_cmds": ["echo 1 >answer.txt", public], "judge__setup_cmds": [public, *HIDDEN]}
    evaluations.write(counting(**setup))
    code, rows = check("count")
    assert (code, rows["hidden"]["state"]) == (0, "warning")
    assert "tests/public.txt" in rows["hidden"]["evidence"]


@pytest.mark.parametrize(("commits", "state"), [(1, "ok"), (2, "warning")])
def test_a_repository_with_a_history_is_a_warning(evaluations, check, commits, state):
    git = "git -c user.name=a -c user.email=a@b.test"
    setup = ["echo 1 >answer.txt", "git init -q .", "git add ."]
    setup += [f"{git} commit -q --allow-empty -m {number}" for number in range(commits)]
    evaluations.write(counting(work__setup_cmds=setup))
    code, rows = check("count")
    assert (code, rows["hidden"]["state"]) == (0, state)
    assert ("2 commits" in rows["hidden"]["evidence"]) is (state == "warning")


def test_untouched_work_that_passes_is_broken(evaluations, check):
    evaluations.write(counting(work__setup_cmds=["echo 4 >answer.txt"]))
    code, rows = check("count")
    assert (code, states(rows)["untouched"]) == (1, "broken")
    assert "full marks" in rows["untouched"]["evidence"]


def test_work_that_is_not_there_untouched_is_graded_all_the_same(evaluations, check):
    evaluations.write(counting(work__setup_cmds=["true"]))
    solve(evaluations)
    code, rows = check("count")
    assert (code, states(rows)) == (0, {})
    assert "0.0 of 100" in rows["untouched"]["evidence"]
    assert rows["repeatable"]["evidence"].startswith("2 gradings")


def test_a_task_without_a_solution_is_not_checked_for_one(evaluations, check):
    evaluations.write(counting())
    code, rows = check("count")
    assert (code, states(rows)) == (0, {"solution": "not checked"})
    assert "count.solution/solve.sh" in rows["solution"]["evidence"]


@pytest.mark.parametrize(
    ("script", "evidence"),
    [
        ("echo 3 >answer.txt", "75.0 of 100 (not passed: at least 4)"),
        ("echo oh dear >&2; exit 9", "oh dear"),
        ("echo 4 >answer.txt; mkdir tests; echo 4 >elsewhere.txt; rm answer.txt", "there is nothing to submit"),
        ("echo 4 >answer.txt; (while :; do date >>log.txt; done) &", "is not the final state: log.txt"),
    ],
)
def test_a_solution_that_fails_is_broken(evaluations, check, script, evidence):
    evaluations.write(counting(submit_paths=["answer.txt", "log.txt"]))
    solve(evaluations, f"#!/bin/sh\n{script}\n")
    code, rows = check("count")
    assert (code, rows["solution"]["state"]) == (1, "broken")
    assert evidence in rows["solution"]["evidence"]


def test_work_that_the_judge_leaves_out_of_a_submission_is_named(evaluations, check):
    evaluations.write(counting(submit_paths=["."], judge__eval_cmd=GRADE.replace("answer.txt", "conftest.py")))
    solve(evaluations, "#!/bin/sh\necho 4 >conftest.py\n")
    code, rows = check("count")
    assert (code, rows["solution"]["state"]) == (1, "broken")
    assert "conftest.py" in rows["solution"]["evidence"]


def test_an_evaluation_that_takes_too_long_is_broken(evaluations, check):
    evaluations.write(counting(judge__eval_cmd="sleep 60", judge__eval_timeout=1))
    code, rows = check("count")
    assert (code, rows["untouched"]["state"]) == (1, "broken")
    assert "judge.eval_timeout" in rows["untouched"]["remedy"]


def test_grades_that_change_from_one_time_to_the_next_are_broken(evaluations, check):
    chance = """python3 -c 'import json, os; print(json.dumps({"score": int.from_bytes(os.urandom(6))}))'"""
    evaluations.write(counting(judge__eval_cmd=chance))
    code, rows = check("count")
    assert (code, rows["repeatable"]["state"]) == (1, "broken")
    assert "score is" in rows["repeatable"]["evidence"]


def test_people_get_a_table_with_the_remedy_below_its_row(evaluations):
    evaluations.write(counting(work__setup_cmds=["echo 4 >answer.txt"]))
    process = evaluations.call("check", "count", "--tasks", str(evaluations.tasks), "--state", str(evaluations.state))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    lines = out.splitlines()
    assert lines[0].split() == ["CHECK", "STATE", "EVIDENCE"]
    [row] = [number for number, line in enumerate(lines) if line.startswith("untouched")]
    assert lines[row].split()[1] == "broken"
    assert lines[row + 1].lstrip().startswith("remedy: make the tests demand")
    assert "count: setup" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [(("nowhere",), "there is no task"), (("count", "--backend", "k8s"), "Kubernetes is not supported yet")],
)
def test_what_is_no_task_or_no_backend_is_an_error(evaluations, words, message):
    evaluations.write(counting())
    process = evaluations.call("check", *words, "--tasks", str(evaluations.tasks), "--state", str(evaluations.state))
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (125, "")
    assert message in err
