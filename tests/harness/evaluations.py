"""`belljar eval` as a user runs it, in the universe: its sandboxes are real, and nothing leaves the machine."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from belljar.harness.leftovers import sweep
from tests.harness.benchmarks import task_data, write_benchmark
from tests.universe import Universe, addresses

ROOT = Path(__file__).parents[2]
PATIENCE = 120

GRADE = r"""
python3 - <<'END'
import json, pathlib, subprocess
answer = pathlib.Path("answer.txt")
found = int(answer.read_text()) if answer.exists() else 0
checks = [{"name": f"at least {n}", "status": "PASSED" if found >= n else "FAILED"} for n in (1, 2, 3, 4)]
passed = sum(check["status"] == "PASSED" for check in checks)
print(">>>>> Start Structured Result")
print(json.dumps({"valid": True, "score": passed, "pass_rate": passed / 4, "details": checks}))
print(">>>>> End Structured Result")
END
"""
"""Grades `answer.txt`: a point for each number up to 4 that it reaches."""


def counting(**changes: Any) -> dict[str, Any]:
    """Return a task whose answer is a number, with changes as `task_data` takes them."""
    fields = {
        "task_id": "count",
        "cwd": "/home/workspace/count",
        "submit_paths": ["answer.txt"],
        "work__setup_cmds": ["echo 1 >answer.txt"],
        "work__cpu_limit": ...,
        "work__mem_limit": ...,
        "judge__setup_cmds": ["mkdir -p tests", "echo canary-of-the-tests >tests/hidden.txt"],
        "judge__eval_cmd": GRADE,
        "judge__parser": "structured_json",
    }
    return task_data(**{**fields, **changes})


class Evaluations:
    """Runs `belljar eval` in a directory of its own."""

    def __init__(self, universe: Universe, directory: Path) -> None:
        self.universe, self.directory = universe, directory
        self.tasks, self.results, self.state = (directory / name for name in ("tasks", "runs", "state"))
        self._runs = 0
        self._processes: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End what still runs, and remove what it leaves."""
        for process in self._processes:
            process.kill()
            process.communicate()
        sweep(self.state)

    def write(self, *tasks: dict[str, Any]) -> None:
        """Write the benchmark."""
        write_benchmark(self.tasks, *tasks)

    def start(self, *options: str, run_id: str = "", environment: Mapping[str, str] | None = None) -> "Evaluation":
        """Start `belljar eval run` on all tasks there are."""
        self._runs += 1
        run_id = run_id or f"run-{self._runs}"
        named = [word for path in sorted(self.tasks.glob("*.json")) for word in ("--task", path.stem)]
        places = ("--tasks", str(self.tasks), "--results", str(self.results), "--state", str(self.state))
        process = self.call("run", *named, *places, "--run-id", run_id, *options, environment=environment)
        return Evaluation(process, self.results / run_id)

    def run(self, *options: str, agent: str = "", **more: Any) -> "Evaluation":
        """Run `belljar eval run` to its end; `agent` is the shell text of the agent."""
        evaluation = self.start(*(("--agent-command", agent) if agent else ()), *options, **more)
        evaluation.wait()
        return evaluation

    def call(
        self, *words: str, environment: Mapping[str, str] | None = None, stdin: Any = None
    ) -> "subprocess.Popen[str]":
        """Start a command of `belljar eval`."""
        variables = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/home/somebody",
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_CACHE_HOME": str(self.directory / "cache"),
            "BELLJAR_RESOLVER": addresses.RESOLVER,
            **(environment or {}),
        }
        process: subprocess.Popen[str] = self.universe.gateway.call(
            subprocess.Popen,
            [sys.executable, "-m", "belljar", "eval", *words],
            env=variables,
            cwd=self.directory,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def leftovers(self) -> list[str]:
        """Return what is left of runs: directories, and processes that have to do with them."""
        found = [str(path) for path in self.state.glob("runs/*")]
        for status in Path("/proc").glob("[0-9]*/mountinfo"):
            try:
                mounts = status.read_text()
            except OSError:
                continue
            if f"{self.state}/" in mounts:
                found.append(f"process {status.parent.name}")
        return found


class Evaluation:
    """One run."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self.process, self.directory = process, directory
        self.code: int | None = None
        self.out = self.err = ""

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        self.out, self.err = self.process.communicate(timeout=PATIENCE)
        self.code = self.process.returncode
        return self.code

    def kill(self) -> None:
        """Kill it as it stands."""
        self.process.kill()
        self.process.communicate()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def file(self, name: str, task: str = "count") -> Path:
        """Return a file of a trial."""
        return self.directory / task / name

    def data(self, name: str, task: str = "count") -> Any:
        """Return the content of a JSON file of a trial."""
        return json.loads(self.file(name, task).read_text())

    def result(self, task: str = "count") -> Any:
        """Return the result of a trial."""
        assert self.code is not None, "it was not waited for"
        assert self.file("final_result.json", task).exists(), self.err
        return self.data("final_result.json", task)

    def output(self, task: str = "count") -> str:
        """Return what the agent wrote."""
        return self.file("agent_output.txt", task).read_text()


def inits_around(marker: str) -> Iterator[int]:
    """Yield the first process of each sandbox in which a command with some text runs, as seen from here."""
    ours = Path("/proc/self/ns/pid").readlink()
    spaces = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if marker.encode() in path.read_bytes() and (space := path.with_name("ns") / "pid").readlink() != ours:
                spaces.add(space.readlink())
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            if (path.with_name("ns") / "pid").readlink() in spaces and _is_first(path.read_text()):
                yield int(path.parent.name)


def _is_first(status: str) -> bool:
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return numbers.split()[-1] == "1"
