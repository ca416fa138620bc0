"""The tasks of examples/benchmark and of `eval init`: solved they score full marks, untouched they do not.

Their commands run here as they are but for the working directory, which is a temporary one. They are ours, and they
reach for no network.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.harness.agents.custom import load_agent
from belljar.harness.tasks.loading import load_tasks
from belljar.harness.tasks.model import Direction, EvalTask, Parser
from belljar.harness.tasks.skeleton import write_skeleton

BENCHMARK = Path(__file__).parents[2] / "examples/benchmark"
TASKS = {task.id: task for task in load_tasks(BENCHMARK)}
SUBMIT = """\
#!/bin/sh
"$PYTHON" -c 'import sys; from pathlib import Path; from tests.harness.test_examples import *
print(f"score: {grade(TASKS[sys.argv[1]], Path(sys.argv[2]), Path.cwd()):g}")' "$TASK" "$(mktemp -d)"
"""


def run(task: EvalTask, commands: str, place: Path) -> str:
    """Run commands of a task with another working directory; return what they print."""
    script = commands.replace(str(task.cwd), str(place))
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["/bin/sh", "-c", script], cwd=place, capture_output=True, text=True, timeout=100, check=False
    )
    return done.stdout + done.stderr


def grade(task: EvalTask, judge: Path, work: Path) -> float:
    """Return the score of the submitted files of a working directory, in a directory for the judge."""
    run(task, "\n".join(task.judge.setup_cmds), judge)
    for path in work.iterdir() if task.submit_paths == (".",) else map(work.joinpath, task.submit_paths):
        if path.name not in ("conftest.py", "sitecustomize.py", *task.submit_exclude) and path.is_file():
            shutil.copy(path, judge)
    output = run(task, task.judge.eval_cmd, judge)
    if task.judge.parser is Parser.STRUCTURED_JSON:
        return float(json.loads(output.split("Structured Result")[1].rpartition(">>>>>")[0])["score"])
    if task.judge.parser is Parser.SCORE_SUM:
        return float(output.rpartition("TOTAL_SCORE ")[2])
    return float(len(re.findall(r"^tests/\S+::\w+ PASSED", output, re.MULTILINE)))


def best_score(task: EvalTask) -> float:
    """Return the score of the reference solution, as the output of its grader has it."""
    return {"word-count": 8, "short-tour": 22328.3, "roman-numerals": 6, "hello": 3}[task.id]


@pytest.fixture(params=[*TASKS, "hello"])
def task(request, tmp_path):
    if request.param in TASKS:
        return TASKS[request.param]
    write_skeleton(tmp_path / "skeleton")
    return load_tasks(tmp_path / "skeleton")[0]


def test_the_reference_solution_scores_full_marks(task, tmp_path):
    work = tmp_path / "work"
    run(task, "\n".join(task.work.setup_cmds), work)
    run(task, f"{task.solution}/solve.sh", work)
    assert grade(task, tmp_path / "judge", work) == pytest.approx(best_score(task))


def test_work_that_nobody_has_done_does_not(task, tmp_path):
    work = tmp_path / "work"
    run(task, "\n".join(task.work.setup_cmds), work)
    score = grade(task, tmp_path / "judge", work)
    if task.judge.direction is Direction.MINIMIZE:
        assert score > 2 * best_score(task)
    else:
        assert score < best_score(task) / 2


def test_no_test_is_where_the_agent_works(task, tmp_path):
    work = tmp_path / "work"
    run(task, "\n".join(task.work.setup_cmds), work)
    assert not [path for path in work.rglob("*") if "test" in path.name or "grade" in path.name]


def test_the_rescaled_score_of_the_tour_is_full_marks_for_the_solution_and_nothing_for_the_start():
    rescale = TASKS["short-tour"].judge.rescale
    assert rescale is not None
    assert rescale.parameters["expert"] > best_score(TASKS["short-tour"])
    assert rescale.parameters["baseline"] < 93287


def test_roman_numerals_are_graded_without_pytest_as_well(tmp_path):
    task, work, judge = TASKS["roman-numerals"], tmp_path / "work", tmp_path / "judge"
    run(task, "\n".join(task.judge.setup_cmds), judge)
    run(task, f"{task.solution}/solve.sh", judge)
    output = run(task, "python3 tests/run.py", judge)
    assert len(re.findall(r"^tests/test_roman.py::test_\w+ PASSED$", output, re.MULTILINE)) == 6
    assert "=== 0 failed, 6 passed in 0.00s ===" in output
    assert not work.exists()


@pytest.mark.parametrize("name", TASKS)
def test_the_scripted_agent_improves_over_three_submissions(name, tmp_path):
    task, work, bin_ = TASKS[name], tmp_path / name, tmp_path / "bin"
    run(task, "\n".join(task.work.setup_cmds), work)
    bin_.mkdir()
    (bin_ / "belljar-submit").write_text(SUBMIT)
    (bin_ / "belljar-submit").chmod(0o755)
    agent = load_agent(BENCHMARK / "agent.yaml")
    assert "\nnetwork\n" in agent.command
    command = agent.command.replace("\nnetwork\n", "\n")  # which only a sandbox may hold
    environment = {
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TASK": name,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(BENCHMARK.parents[1]),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=work, env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    scores = [float(line.removeprefix("score: ")) for line in done.stdout.splitlines() if line.startswith("score: ")]
    assert len(scores) == 3, done.stdout + done.stderr
    best = sorted(scores, reverse=task.judge.direction is Direction.MINIMIZE)
    assert scores == best
    assert scores[0] != scores[1] != scores[2]
    assert done.stdout.count("agent: hidden tests: ") == 1
