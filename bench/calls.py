"""How many Python functions the gateway calls for a new connection: a cost that hardly depends on the machine.

The gateway runs under a profiler, and clients make connections through it. What is counted are entries into functions
and resumptions of coroutines. Turns of the loop are among them, and there are more of those on a machine that is busy.
"""

import pstats
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.arena import Arena
from bench.gateway import MANY, work_for
from bench.origin import ANSWER
from bench.timing import Effort, met, print_table

_MOST = 300


def bench_calls(effort: Effort) -> None:
    """Count, and print the result beside the goal."""
    calls = _calls_per_connection(effort.seconds)
    row = ("Python calls per new connection", f"≤ {_MOST}", f"{calls:.0f}", met(calls <= _MOST))
    print_table("Calls", ("what", "goal", "counted", ""), [row])


def _calls_per_connection(seconds: float) -> float:
    with TemporaryDirectory(prefix="bench-") as directory:
        profile = Path(directory) / "profile"
        with Arena() as arena:
            system = arena.belljar(profile)
            done = arena.perform(system, work_for(system, "answer", ANSWER, clients=MANY, seconds=seconds))
        return _python_calls(profile) / done.count


def _python_calls(profile: Path) -> int:
    """Count the calls of functions that are written in Python: the others have no file."""
    stats = pstats.Stats(str(profile)).stats  # type: ignore[attr-defined]
    return sum(calls for (file, _, _), (_, calls, *_) in stats.items() if file != "~")
