"""How long an evaluation takes beside what it evaluates: trials of an agent that does nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.timing import met, print_table
from tests.engines import BUSYBOX, busybox, make_image, start_docker
from tests.universe import Universe

ROUNDS = 10
MANY = 100
GOALS = {"local": 1.5, "docker": 4.0}
ROOT = Path(__file__).resolve().parent.parent
BELLJAR = str(Path(sys.executable).parent / "belljar")
TASK = {
    "task_id": "nothing",
    "name": "Nothing to do",
    "base_image": "any",
    "platform": "linux/amd64",
    "cwd": "/home/workspace/nothing",
    "submit_paths": ["."],
    "internet": False,
    "work": {"setup_cmds": ["echo 1 >work.txt"], "agent_query": "Do nothing."},
    "judge": {
        "setup_cmds": ["echo 1 >tests.txt"],
        "eval_cmd": """cmp -s work.txt tests.txt && echo '{"score": 1, "pass_rate": 1.0, "valid": true}'""",
        "parser": "structured_json",
    },
}


def bench_evaluations() -> None:
    """Measure single trials, and many at a time, where there is no way out."""
    with Universe() as universe, TemporaryDirectory(prefix="bench-eval-", dir="/var/tmp") as directory:
        bench = _Bench(universe, Path(directory))
        rows = []
        for backend, goal in GOALS.items():
            times = sorted(_times(bench, backend))
            median = times[len(times) // 2]
            rows.append((backend, f"{median:.2f} s", f"{times[-1]:.2f} s", f"{goal:g} s: {met(median <= goal)}"))
        print_table(
            f"A trial of `nop`, with one judge, from start to result ({ROUNDS} runs)",
            ("backend", "median", "slowest", "goal"),
            rows,
        )
        seconds = bench.many()
        left = bench.leftovers()
        print_table(
            f"{MANY} trials of `nop` at a time on the local backend",
            ("whole run", "for each trial", "left behind (goal: nothing)"),
            [(f"{seconds:.1f} s", f"{seconds / MANY * 1e3:.0f} ms", ", ".join(left) or "nothing")],
        )


def _times(bench: "_Bench", backend: str) -> list[float]:
    """Return how long each run took, but for the first, which makes the kit and may start programs."""
    if backend == "local":
        return [bench.run("nothing") for _ in range(ROUNDS + 1)][1:]
    with start_docker() as engine:
        make_image(engine, BUSYBOX, busybox())
        bench.environment["DOCKER_HOST"] = engine.url
        return [bench.run("nothing", "--backend", backend) for _ in range(ROUNDS + 1)][1:]


class _Bench:
    def __init__(self, universe: Universe, directory: Path) -> None:
        self._universe, self._directory = universe, directory
        self._state, self._count = directory / "state", 0
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
        (directory / "tasks").mkdir()
        base = f"name: bench\nbase_images:\n  any: {{official_image: '{BUSYBOX}', extra_packages: []}}\n"
        (directory / "tasks" / "BENCHMARK.yaml").write_text(base)
        for name in ("nothing", *(f"nothing-{number}" for number in range(MANY))):
            (directory / "tasks" / f"{name}.json").write_text(json.dumps({**TASK, "task_id": name}))

    def run(self, *options: str) -> float:
        """Run trials to their end, and return how long that took. Raises RuntimeError if one is not scored."""
        self._count += 1
        named = [word for name in options if name.startswith("nothing") for word in ("--task", name)]
        rest = [word for word in options if not word.startswith("nothing")]
        places = ("--tasks", "tasks", "--results", "runs", "--state", str(self._state), "--run-id", str(self._count))
        started = time.perf_counter()
        done = self._universe.gateway.call(
            subprocess.run,
            [BELLJAR, "eval", "run", *named, "--agent", "nop", *places, *rest],
            cwd=self._directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit code {done.returncode}")
        return time.perf_counter() - started

    def many(self) -> float:
        """Run many trials at a time."""
        return self.run(*(f"nothing-{number}" for number in range(MANY)), "--max-workers", str(MANY))

    def leftovers(self) -> list[str]:
        """Return what runs have left behind: directories, control groups and processes."""
        found = [str(path) for path in self._state.glob("runs/*")]
        for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
            try:
                if f"{self._state}/" in mounts.read_text():
                    found.append(f"process {mounts.parent.name}")
            except OSError:
                continue
        return found
