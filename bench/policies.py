"""What it takes to put a large policy in force on a real server, beside what it takes to read and compile it once.

Time on a core is told besides, the server's and its workers': on a busy machine it is the steadier figure.
"""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from belljar.policy import Syntax, compile_policy, read_policy
from bench.processes import family
from bench.serving import serving
from bench.timing import met, print_table
from tests.control.machines import Machine
from tests.universe import Universe

ENTRIES, ROUNDS = 100_000, 7
GOAL_RATIO = 1.5


def bench_large_policies() -> None:
    """Set policies of many entries, one after the other, and read the same in this process in turns."""
    texts = [json.dumps(document(number)) for number in range(ROUNDS)]
    puts, alone = [], []
    with (
        Universe() as universe,
        TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory,
        serving(universe, Path(directory)) as machine,
    ):
        sandbox = machine.call("POST", "/sandboxes", {})["id"]
        for text in texts:
            puts.append(_timed(partial(_put, machine, sandbox, text), partial(_on_cores, machine)))
            alone.append(_timed(partial(_read_and_compile, text), time.process_time))
    ratio = median(elapsed for elapsed, _ in puts) / median(elapsed for elapsed, _ in alone)
    verdict = f"at most {GOAL_RATIO}: {met(ratio <= GOAL_RATIO)}"
    print_table(
        f"Policies of {ENTRIES:,} entries: `belljar serve`, local backend",
        ("what", "median", "on a core", "ratio", "goal"),
        [
            ("Read and compiled once, in one process", *_shown(alone), "1", ""),
            ("PUT network until it is in force", *_shown(puts), f"{ratio:.2f}", verdict),
        ],
    )


def document(number: int) -> dict[str, object]:
    """Return a policy, a tenth of its entries wildcards; no two numbers have an entry in common."""
    domains = [
        f"*.zone{n}.set{number}.example.org" if n % 10 == 0 else f"host{n}.set{number}.example.org"
        for n in range(ENTRIES)
    ]
    return {"mode": "block-all", "egress": {"allowed_domains": domains}}


def _put(machine: Machine, sandbox: str, text: str) -> None:
    with machine.client() as client:
        headers = {"content-type": "application/json"}
        answer = client.put(f"/sandboxes/{sandbox}/network", content=text.encode(), headers=headers)
    is_in_force = answer.raise_for_status().json()["in_force"]
    while not is_in_force:  # on a busy machine, the sandbox is closed until it is
        time.sleep(0.01)
        is_in_force = machine.call("GET", f"/sandboxes/{sandbox}")["network"]["in_force"]


def _read_and_compile(text: str) -> object:
    return compile_policy(read_policy(text, Syntax.JSON).policy)


def _on_cores(machine: Machine) -> float:
    """Return the time on a core of the server and its workers, threads that have ended included."""
    assert machine.process is not None
    stats = (Path(f"/proc/{process}/stat").read_text() for process in family(machine.process.pid))
    times = (text.rpartition(")")[2].split()[11:13] for text in stats)
    return sum(int(ticks) for both in times for ticks in both) / os.sysconf("SC_CLK_TCK")


def _timed(work: Callable[[], object], on_cores: Callable[[], float]) -> tuple[float, float]:
    before, started = on_cores(), time.perf_counter()
    work()
    return time.perf_counter() - started, on_cores() - before


def _shown(samples: list[tuple[float, float]]) -> tuple[str, str]:
    elapsed, on_cores = (median(each) for each in zip(*samples, strict=True))
    return f"{elapsed * 1e3:.0f} ms", f"{on_cores * 1e3:.0f} ms"
