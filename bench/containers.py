"""What sealing costs a container: the time until it is gone again, step by step, on each engine."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.arena import ROOT
from bench.containertraffic import bench_traffic
from bench.fetching import MissingError
from bench.running import environment
from bench.sealing import HELPER_STEPS, STEPS, Life
from bench.timing import Effort, interleaved, met, print_table
from bench.timing import Figures as Times
from tests import privileges
from tests.engines import BUSYBOX, Engine, busybox, make_image, start_docker, start_podman, start_rootless_podman, users

GOALS = {"helper": 0.5, "entering": 0.1}
"""Seconds that sealing may add, by how it is done."""

_ENGINES = {"Docker": start_docker, "Podman": start_podman, "Podman, rootless": start_rootless_podman}
_BELLJAR = [
    str(Path(sys.executable).parent / "belljar"),
    "run",
    "--backend",
    "docker",
    "--image",
    BUSYBOX,
    "--",
    "true",
]
_DOCKER = ["docker", "run", "--rm"]
_NO_ENTERING = ["setpriv", "--bounding-set=-sys_admin"]
"""What has root do without the right to enter namespaces, and need a helper like everybody."""

_LIVES = """
A container's life is its creation, its start, `true` in it, and its removal, through the engine's API. The one that is
not sealed has the configuration of the sealed one (no network, no capabilities, the same system call filter, mounts
and limits), and `true` is its first process. In the sealed one, `true` is a command: nothing of the image runs before.
Root enters a container's network namespace; others, and a root without CAP_SYS_ADMIN, have a helper."""


class Sealing(NamedTuple):
    """How containers of an engine were sealed, and their lives."""

    engine: str
    way: str
    plain: list[Life]
    sealed: list[Life]

    def added(self) -> float:
        """Return the seconds that sealing adds to a life."""
        pairs = zip(self.plain, self.sealed, strict=True)
        return median(_whole(sealed) - _whole(plain) for plain, sealed in pairs)


def bench_containers(effort: Effort) -> None:
    """Start engines that reach nothing, and measure."""
    if reason := privileges.missing_for_engines():
        print(f"\nMissing: containers. It {reason}.")
        return
    _bench_lives(effort.rounds + 2)
    try:
        bench_traffic(effort)
    except MissingError as error:
        print(f"\nMissing: networks of containers. {str(error).partition(chr(10))[0]}")


def _bench_lives(rounds: int) -> None:
    measured: list[Sealing] = []
    times: dict[str, Times] = {}
    missing: dict[str, str] = {}
    # Not below /tmp: that is the container's own, inside.
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as name:
        directory = Path(name)
        users.give(directory)
        for engine_name, start in _ENGINES.items():
            try:
                with start() as engine:
                    make_image(engine, BUSYBOX, busybox())
                    measured += _lives(engine_name, engine, directory, rounds)
                    times |= _commands(engine, directory, rounds) if engine.kind == "docker" else {}
            except (AssertionError, MissingError) as error:
                missing[engine_name] = str(error).partition("\n")[0]
    _print_lives(measured, rounds)
    _print_steps(measured)
    if times:
        _print_commands(times, rounds)
    for engine_name, reason in missing.items():
        print(f"\nMissing: {engine_name}. {reason}")


def _lives(name: str, engine: Engine, directory: Path, rounds: int) -> list[Sealing]:
    program = [sys.executable, "-m", "bench.sealing", engine.kind, str(engine.socket), str(directory), str(rounds)]
    if engine.rootless:
        ways = {"helper": engine.as_user(*program, workdir=ROOT)}
    elif engine.kind == "podman":
        ways = {"helper": [*_NO_ENTERING, *program], "entering": program}
    else:
        ways = {"helper": engine.as_user(*program, workdir=ROOT), "entering": program}
    return [Sealing(name, way, **json.loads(_output(engine, command))) for way, command in ways.items()]


def _commands(engine: Engine, directory: Path, rounds: int) -> dict[str, Times]:
    """Time what somebody would type, in an empty directory."""
    theirs, ours = engine.home / "project", directory / "project"
    for project in (theirs, ours):
        project.mkdir()
    users.give(theirs)
    cache = f"XDG_CACHE_HOME={directory}/cache"  # root's own is the machine's
    commands = {
        "docker run": engine.as_user(*_DOCKER, BUSYBOX, "true", workdir=theirs),
        "docker run --network none": engine.as_user(*_DOCKER, "--network", "none", BUSYBOX, "true", workdir=theirs),
        "belljar run --backend docker, by helper": engine.as_user(*_BELLJAR, workdir=theirs),
        "belljar run --backend docker, by entering": ["env", f"--chdir={ours}", cache, *_BELLJAR],
    }
    calls: dict[str, Callable[[], object]] = {name: partial(_output, engine, argv) for name, argv in commands.items()}
    for call in calls.values():
        call()
    return interleaved(calls, rounds=rounds, calls=1)


def _output(engine: Engine, command: Sequence[str]) -> str:
    """Run a command where the engine is, and return what it prints. Raises MissingError."""
    variables = {**environment(engine.home), **engine.environment, "DOCKER_HOST": engine.url}
    done = engine.namespace.run(
        lambda: subprocess.run(
            command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    )
    if done.returncode != 0:
        raise MissingError(f"it fails: {done.stderr.strip().rpartition(chr(10))[2]}")
    return done.stdout


def _print_lives(measured: list[Sealing], rounds: int) -> None:
    limits = ", ".join(f"{seconds * 1e3:.0f} ms by {way}" for way, seconds in GOALS.items())
    print_table(
        f"What sealing adds to a container's life, {rounds} lives each (goal: at most {limits})",
        ("engine", "sealed by", "not sealed", "sealed", "added", "goal"),
        [
            (
                one.engine,
                one.way,
                _spread([_whole(life) for life in one.plain]),
                _spread([_whole(life) for life in one.sealed]),
                _milliseconds(one.added()),
                met(one.added() <= GOALS[one.way]),
            )
            for one in measured
        ],
    )
    print(_LIVES)


def _print_steps(measured: list[Sealing]) -> None:
    print_table(
        "Where that time goes (not sealed → sealed)",
        ("step", *(f"{one.engine}, {one.way}" for one in measured)),
        [(step, *(_step(one, step) for one in measured)) for step in (*STEPS, *HELPER_STEPS)],
    )


def _step(one: Sealing, step: str) -> str:
    both = [[life[step] for life in lives if step in life] for lives in (one.plain, one.sealed)]
    return " → ".join(_milliseconds(median(times)) for times in both if times)


def _print_commands(times: dict[str, Times], rounds: int) -> None:
    print_table(
        f"`true` in a container, wall time of {rounds} runs",
        ("command", "best", "median", "p95", "added to docker run"),
        [
            (name, *map(_milliseconds, (t.best, t.median, t.p95, t.median - times["docker run"].median)))
            for name, t in times.items()
        ],
    )


def _whole(life: Life) -> float:
    return sum(life[step] for step in STEPS)


def _spread(times: list[float]) -> str:
    return f"{median(times) * 1e3:.0f} ms ({min(times) * 1e3:.0f} to {max(times) * 1e3:.0f})"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"
