"""What a sandbox notices of a neighbour that does its worst: both are served by one worker process, on one core."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from math import inf
from statistics import median, quantiles
from typing import NamedTuple, Self

from belljar.gateway.limits import Limits
from belljar.gateway.settings import Settings
from belljar.gateway.upstream.hostfiles import Server
from belljar.gateway.workers.supervisor import Workers
from belljar.policy import ResolvedPolicy, Syntax, read_policy, resolve
from bench.arena import Arena, System
from bench.fetching import MissingError
from bench.load import Work
from bench.messages import client_hello, question
from bench.origin import ANSWER, STREAM
from bench.ourselves import ORIGIN_PORT
from bench.processes import GATEWAY_CPU, LOAD_CPU, on_cpu
from bench.timing import Effort, met, print_table
from tests.universe import addresses
from tests.universe.hogs import hogging
from tests.universe.sandboxes import Sandbox

RATIO = 5.0
POLICY_SECONDS = 0.25

_NEIGHBOUR, _HOG = "neighbour", "hog"
_CHANGES = 20
_GRANTS = f"""\
mode: block-all
egress:
  allowed_domains: ["{ANSWER}:{ORIGIN_PORT}", "{STREAM}:{ORIGIN_PORT}", "plain.test:{addresses.SILENT}"]
"""
_ALLOW_ALL = "mode: allow-all"


class Hog(NamedTuple):
    """What the greedy one does, and to whom."""

    target: str
    port: int
    host: str = ""


HOGS = {
    "requests for encryption": Hog("plain.test", addresses.SILENT),
    "one-byte chunks": Hog("plain.test", addresses.SILENT, f"plain.test:{addresses.SILENT}"),
    "one-byte records": Hog(addresses.EVIL, addresses.HTTPS),
    "one-byte segments": Hog(addresses.EVIL, addresses.HTTPS),
    "questions": Hog("127.0.0.1", addresses.DNS, ANSWER),
    "connections": Hog("plain.test", addresses.SILENT),
    "datagrams": Hog("plain.test", addresses.DISCARD),
    "denied datagrams": Hog(addresses.EVIL, addresses.HTTPS),
    "downloads": Hog(STREAM, ORIGIN_PORT, client_hello(STREAM).hex()),
}


class Figures(NamedTuple):
    """What the neighbour sees, in seconds."""

    request: float
    question: float
    """The 99th percentiles."""

    change: float
    """The slowest of some changes of its policy."""


def bench_fairness(effort: Effort) -> None:
    """Measure a neighbour's requests, questions and changes of policy, alone and beside each hog, in turns."""
    rounds: defaultdict[str, list[tuple[Figures, Figures]]] = defaultdict(list)
    with Arena() as arena, _Neighbours(arena) as neighbours:
        for _ in range(effort.rounds):
            for kind, hog in HOGS.items():
                idle = neighbours.measure(effort.seconds)
                with neighbours.greedy(kind, hog):
                    rounds[kind].append((idle, neighbours.measure(effort.seconds)))
    rows = []
    for kind, pairs in rounds.items():
        idle, beside = (Figures(*map(median, zip(*each, strict=True))) for each in zip(*pairs, strict=True))
        request, asked = beside.request / idle.request, beside.question / idle.question
        good = request <= RATIO and asked <= RATIO and beside.change <= POLICY_SECONDS
        rows.append(
            (
                kind,
                f"{_ms(idle.request)} → {_ms(beside.request)}",
                f"{request:.1f}",
                f"{_ms(idle.question)} → {_ms(beside.question)}",
                f"{asked:.1f}",
                _ms(beside.change),
                met(good),
            )
        )
    print_table(
        f"A neighbour's p99 beside one sandbox that does its worst (goal: ratios ≤ {RATIO:.0f}, policy ≤ 250 ms)",
        ("what the other one does", "small request", "ratio", "DNS question", "ratio", "change of policy", ""),
        rows,
    )


class _Neighbours:
    """Two sandboxes, or three, of one worker."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._generation = 1

    def __enter__(self) -> Self:
        universe = self._arena.universe
        settings = Settings(resolvers=(Server(ip_address(addresses.RESOLVER), 53),))
        self._workers = universe.gateway.call(lambda: Workers(1, settings))
        self._neighbour = self._open(_NEIGHBOUR, _GRANTS)
        (worker,) = self._workers.pids()
        assert worker is not None
        os.sched_setaffinity(worker, {GATEWAY_CPU})
        place = self._neighbour
        self._system = System("neighbour", "", place, lambda name: place.look_up(name)[0], ORIGIN_PORT)
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shut_down()
        self._neighbour.close()

    def _open(self, name: str, policy: str) -> Sandbox:
        sandbox = self._arena.universe.sandbox()
        limits = Limits(dns_per_second=10**9) if name == _NEIGHBOUR else None
        self._workers.open(name, self._policy(policy), sandbox.listeners, limits)
        return sandbox

    def _policy(self, text: str) -> ResolvedPolicy:
        self._generation += 1
        host = [ip_address(addresses.GATEWAY), ip_address(addresses.GATEWAY_V6)]
        policy = read_policy(text, Syntax.YAML).policy
        return resolve(policy, generation=self._generation, host_addresses=host)

    @contextmanager
    def greedy(self, kind: str, hog: Hog) -> Iterator[None]:
        """Have a hog at work for the length of a block."""
        has_udp = kind == "datagrams"
        sandbox = self._open(_HOG, _ALLOW_ALL if has_udp else _GRANTS)
        address = sandbox.look_up(hog.target)[0] if hog.target.endswith(".test") else hog.target
        # What is measured is the gateway: on the core that both share, the hog leaves the neighbour's client alone.
        before = ["nice", "-n", "19", *on_cpu(LOAD_CPU)]
        with hogging(sandbox, kind, address, hog.port, hog.host, before):
            time.sleep(0.2)  # until there is a backlog
            yield
        self._workers.close(_HOG)
        sandbox.close()

    def measure(self, seconds: float) -> Figures:
        """Make requests, ask questions and change the policy."""
        answer = Work("answer", self._system.address_of(ANSWER), ORIGIN_PORT, client_hello(ANSWER).hex())
        asking = Work("dns", "127.0.0.1", addresses.DNS, question(ANSWER).hex())
        request, asked = (self._p99(replace(work, seconds=seconds)) for work in (answer, asking))
        return Figures(request, asked, max(self._change() for _ in range(_CHANGES)))

    def _p99(self, work: Work) -> float:
        try:
            return quantiles(self._arena.perform(self._system, work).times, n=100)[98]
        except MissingError:  # somebody has waited for nothing
            return inf

    def _change(self) -> float:
        policy = self._policy(_GRANTS)
        began = time.perf_counter()
        self._workers.change_policy(_NEIGHBOUR, policy)
        return time.perf_counter() - began


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
