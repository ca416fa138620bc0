"""How long a command in a sandbox takes, beside other sandboxes; what an idle one costs, and two hundred of them."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.crowd import Crowd
from bench.fetching import MissingError
from bench.sandboxes import PATH, SANDBOXES, Sandboxed
from bench.timing import interleaved, print_table
from tests.universe import Place, Universe
from tests.universe.addresses import RESOLVER

ROUNDS = 30
MANY = 200
BELLJAR = [str(Path(sys.executable).parent / "belljar"), "run", "--"]

_OURS = "belljar run"
_GOAL = 0.5
_ASKING = ["sh", "-c", "getent hosts denied.test || true"]
_IDLE = ["sh", "-c", "echo ready; exec sleep infinity"]


def bench_running() -> None:
    """Run everything where there is no way out."""
    # Not below /tmp: that is the sandbox's own, inside.
    with Universe() as universe, TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory:
        home = Path(directory)
        (home / "project").mkdir()
        _bench_commands(universe.gateway, home)
        _bench_idle(universe.gateway, home)


def _bench_commands(place: Place, home: Path) -> None:
    does = "sealed network, policy and gateway, system call filter, view of the files"
    ready = {_OURS: Sandboxed("", does, [*BELLJAR, "true"])}
    ready[f"{_OURS}, with a question"] = Sandboxed("", "the same, and a DNS question", [*BELLJAR, *_ASKING])
    missing = {}
    for name, prepare in SANDBOXES.items():
        try:
            ready[name] = prepare(home)
            _run(place, home, ready[name])
        except MissingError as error:
            ready.pop(name, None)
            missing[name] = str(error)
    times = interleaved({name: partial(_run, place, home, one) for name, one in ready.items()}, rounds=ROUNDS, calls=1)
    print_table(
        f"`true` in a sandbox, wall time of {ROUNDS} runs (goal: at most {_GOAL} of srt's and of docker's)",
        ("sandbox", "median", "p95", "Belljar's part of that"),
        [
            (name, f"{t.median * 1e3:.0f} ms", f"{t.p95 * 1e3:.0f} ms", f"{times[_OURS].median / t.median:.2f}")
            for name, t in times.items()
        ],
    )
    print()
    for name, one in ready.items():
        print(f"- {name}: {one.does}{one.version and f' (version {one.version})'}.")
    for name, reason in missing.items():
        print(f"- Missing: {name}. {reason}")


def _run(place: Place, home: Path, sandboxed: Sandboxed) -> None:
    """Run a command to its end. Raises MissingError if it fails."""
    done = place.call(
        subprocess.run,
        sandboxed.command,
        cwd=home / "project",
        env=environment(home) | sandboxed.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise MissingError(f"it fails: {said or f'exit status {done.returncode}'}")


def environment(home: Path) -> dict[str, str]:
    """Return the variables that everything is run with."""
    return {"PATH": PATH, "HOME": str(home), "BELLJAR_RESOLVER": RESOLVER}


def _bench_idle(place: Place, home: Path) -> None:
    rows = []
    for size in (1, MANY):
        with Crowd(place, [*BELLJAR, *_IDLE], home / "project", environment(home)) as crowd:
            started = crowd.start(size)
            memory = crowd.memory() / size
            stopped = crowd.stop()
            left = ", ".join(crowd.left_behind()) or "nothing"
        rows.append((str(size), f"{memory / 1e6:.1f} MB", f"{started:.1f} s", f"{stopped:.1f} s", left))
    print_table(
        "Idle sandboxes at once",
        ("sandboxes", "memory of each (PSS)", "until the last one runs", "until the last one is gone", "left behind"),
        rows,
    )
