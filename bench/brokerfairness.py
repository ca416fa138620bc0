"""What a sandbox notices of a neighbour that does its worst to the broker that both use."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf
from statistics import median, quantiles

from bench.brokerhogs import KINDS
from bench.processes import LOAD_CPU, on_cpu
from bench.relays import Loopback, Relay
from bench.timing import Effort, met, print_table

RATIO = 5.0
_PATH = "/v1/models"
_BEFORE_OTHERS = -10
_HEAD_START = 1.0
"""Seconds until there is a backlog."""


def bench_broker_fairness(effort: Effort) -> None:
    """Measure a neighbour's requests alone and beside each hog, in turns."""
    rounds: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with Loopback() as loopback, _beside_load():
        relay, _ = loopback.belljar()
        os.setpriority(os.PRIO_PROCESS, relay.pid, _BEFORE_OTHERS)
        _p99(relay, effort.seconds)
        for _ in range(effort.rounds):
            for kind in KINDS:
                idle = _p99(relay, effort.seconds)
                with _greedy(loopback, kind):
                    rounds[kind].append((idle, _p99(relay, effort.seconds)))
    rows = []
    for kind, pairs in rounds.items():
        idle, beside = (median(each) for each in zip(*pairs, strict=True))
        ratio = beside / idle
        rows.append((kind, f"{idle * 1e3:.2f} ms → {beside * 1e3:.2f} ms", f"{ratio:.1f}", met(ratio <= RATIO)))
    print_table(
        f"Broker: a neighbour's GET {_PATH}, p99, beside sandboxes that do their worst (goal: ratio ≤ {RATIO:.0f})",
        ("what the others do", "small request", "ratio", ""),
        rows,
    )


@contextmanager
def _beside_load() -> Iterator[None]:
    """Share a core with the hogs, and go before them: what is measured is the broker, which has the other core."""
    cores, niceness = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    threads = [int(name) for name in os.listdir("/proc/self/task")]  # noqa: PTH208 - numbers, without making paths
    for thread in threads:
        os.sched_setaffinity(thread, {LOAD_CPU})
        os.setpriority(os.PRIO_PROCESS, thread, _BEFORE_OTHERS)
    try:
        yield
    finally:
        for thread in threads:
            os.sched_setaffinity(thread, cores)
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


@contextmanager
def _greedy(loopback: Loopback, kind: str) -> Iterator[None]:
    """Have a hog at work for the length of a block."""
    command = on_cpu(LOAD_CPU, sys.executable, "-m", "bench.brokerhogs", kind, *map(str, loopback.broker_files))
    process = loopback.place.call(
        lambda: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ})
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(_HEAD_START)
        yield
        process.kill()


def _p99(relay: Relay, seconds: float) -> float:
    times = []
    ends = time.perf_counter() + seconds
    with closing(relay.connect()) as client:
        client.timeout = 60
        while time.perf_counter() < ends:
            started = time.perf_counter()
            try:
                client.request("GET", _PATH)
                client.getresponse().read()
            except OSError:
                return inf
            times.append(time.perf_counter() - started)
    return quantiles(times, n=100)[98] if len(times) > 1 else times[0]
