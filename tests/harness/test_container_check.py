"""`belljar eval check` on container engines, with images that have a busybox and nothing else."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.engines import Directory, File, busybox, make_image
from tests.engines.images import Files
from tests.harness.benchmarks import write_benchmark
from tests.harness.evaluations import ROOT, counting
from tests.harness.test_container_runs import BENCHMARK, GRADE

TEST = b"a test that is longer than thirty-two bytes, and hidden\n"
IMAGES: dict[str, Any] = {
    "work__setup_cmds": ...,
    "work__image_tag": "0123456789ab",
    "judge__setup_cmds": ...,
    "judge__image_tag": "0123456789ab",
}


@pytest.fixture
def check(engine):
    """Checks a task as a user of an engine; returns the exit code and the states of the rows."""
    directory = Path(tempfile.mkdtemp(prefix="belljar-eval-", dir="/var/tmp"))
    directory.chmod(0o777)

    def run(task: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        write_benchmark(directory / "tasks", task, benchmark=BENCHMARK)
        solution = directory / "tasks/count.solution"
        solution.mkdir()
        (solution / "solve.sh").write_text("echo 4 >answer.txt\n")
        address = {"DOCKER_HOST": engine.url} if engine.kind == "docker" else {}
        environment = address | {"PYTHONPATH": str(ROOT / "src"), "XDG_CACHE_HOME": str(directory / "cache")}
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-m", "belljar"]
        places = [word for name in ("tasks", "state") for word in (f"--{name}", str(directory / name))]
        done = engine.run_as_user(*words, "eval", "check", "count", *places, "--backend", engine.kind, "--json")
        assert done.stdout, done.stderr
        rows = json.loads(done.stdout)["checks"]
        assert engine.api.call("GET", "/containers/json?all=true") == []
        return done.returncode, {row["check"]: row["state"] for row in rows if row["state"] != "ok"}, done.stdout

    yield run
    shutil.rmtree(directory)


def test_a_task_that_is_set_up_in_its_base_image_is_fit(check):
    code, states, printed = check(counting(judge__eval_cmd=GRADE))
    assert (code, states) == (0, {}), printed


@pytest.mark.parametrize(
    ("left", "states"), [({}, {}), ({"home/workspace/count/notes": File(TEST, 0o644)}, {"hidden": "broken"})]
)
def test_a_test_that_is_left_in_an_image_is_found(engine, check, left, states):
    cwd = "home/workspace/count"
    built: Files = {**busybox(), f"{cwd}/answer.txt": File(b"1\n", 0o666), cwd: Directory(0o777)}
    make_image(engine, "small.work.count:0123456789ab", {**built, **left})
    hidden = File(b"canary-of-the-tests\n", 0o644)
    tests: Files = {f"{cwd}/tests/hidden.txt": hidden, f"{cwd}/tests/cases.txt": File(TEST, 0o644)}
    make_image(engine, "small.judge.count:0123456789ab", {**built, **tests})
    code, found, printed = check(counting(**IMAGES, judge__eval_cmd=GRADE))
    assert (code, found) == (len(states), states), printed
