"""`belljar eval run` on container engines, with images that have a shell and nothing else."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.engines import BUSYBOX, Directory, Engine, File, busybox, make_image
from tests.engines.images import Files
from tests.harness.benchmarks import write_benchmark
from tests.harness.evaluations import ROOT, counting

BENCHMARK = f"name: small\nbase_images:\n  python: {{official_image: '{BUSYBOX}', extra_packages: []}}\n"
GRADE = """
found=$(cat answer.txt)
case $found in 4) rate=1.0;; 2) rate=0.5;; *) rate=0.25;; esac
[ "$(cat tests/hidden.txt)" = canary-of-the-tests ] || exit 1
echo "{\\"score\\": $found, \\"pass_rate\\": $rate, \\"valid\\": true}"
"""
AGENT = """
which python3 curl jq bash
ls; find / -name hidden.txt 2>/dev/null
echo 2 >answer.txt; belljar-submit || exit 1
echo 4 >answer.txt; sforge-submit || exit 1
nslookup leak.example.org && echo REACHED
true
"""


class ContainerRuns:
    """Runs `belljar eval run` as a user of an engine."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.engine, self.directory = engine, directory
        directory.chmod(0o777)

    def run(self, task, *options):
        write_benchmark(self.directory / "tasks", task, benchmark=BENCHMARK)
        address = {"DOCKER_HOST": self.engine.url} if self.engine.kind == "docker" else {}
        environment = address | {"PYTHONPATH": str(ROOT / "src"), "XDG_CACHE_HOME": str(self.directory / "cache")}
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-m", "belljar"]
        places = [word for name in ("tasks", "results", "state") for word in (f"--{name}", str(self.directory / name))]
        done = self.engine.run_as_user(
            *words, "eval", "run", "--task", "count", *places, "--backend", self.engine.kind, "--run-id", "r", *options
        )
        path = self.directory / "results" / "r" / "count"
        return done, json.loads((path / "final_result.json").read_text()), (path / "agent_output.txt")

    def containers(self):
        return self.engine.api.call("GET", "/containers/json?all=true")


@pytest.fixture
def runs(engine):
    directory = Path(tempfile.mkdtemp(prefix="belljar-eval-", dir="/var/tmp"))
    yield ContainerRuns(engine, directory)
    shutil.rmtree(directory)


def test_setup_runs_in_sealed_containers_where_only_the_base_image_is_there(runs):
    task = counting(judge__eval_cmd=GRADE)
    done, result, output = runs.run(task, "--agent-command", AGENT)
    assert (result["outcome"], result["score"]) == ("passed", 100.0), done.stderr
    assert (result["agent_submissions"], result["best_round"]) == (2, "agent-2")
    assert result["denials"] > 0
    said = output.read_text()
    assert "REACHED" not in said
    assert "hidden.txt" not in said
    assert not any(name in said for name in ("/python3", "/curl", "/jq", "/bash"))
    assert runs.containers() == []
    assert not list((runs.directory / "state").glob("runs/*"))


def test_images_that_were_built_for_the_task_need_no_setup(runs):
    cwd = "home/workspace/count"
    built: Files = {f"{cwd}/answer.txt": File(b"1\n", 0o666), cwd: Directory(0o777)}
    make_image(runs.engine, "small.work.count:0123456789ab", {**busybox(), **built})
    make_image(
        runs.engine,
        "small.judge.count:0123456789ab",
        {**busybox(), **built, f"{cwd}/tests/hidden.txt": File(b"canary-of-the-tests\n", 0o644)},
    )
    task = counting(
        work__setup_cmds=..., work__image_tag="0123456789ab",
        judge__setup_cmds=..., judge__image_tag="0123456789ab", judge__eval_cmd=GRADE,
    )  # fmt: skip
    done, result, output = runs.run(task, "--agent-command", AGENT)
    assert (result["outcome"], result["score"]) == ("passed", 100.0), done.stderr
    assert "hidden.txt" not in output.read_text()
    assert runs.containers() == []


def test_an_image_that_is_missing_is_named(runs):
    task = counting(
        work__setup_cmds=..., work__image_tag="ba9876543210", judge__setup_cmds=["true"], judge__eval_cmd=GRADE
    )
    done, result, _ = runs.run(task, "--agent", "nop")
    assert done.returncode == 3
    assert (result["outcome"], result["score"]) == ("environment_error", None)
    assert "has no image small.work.count:ba9876543210" in result["detail"]
