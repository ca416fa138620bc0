"""How quickly DNS questions are answered, beside dnsmasq."""

from collections import defaultdict
from dataclasses import replace
from functools import partial
from statistics import median, quantiles
from typing import NamedTuple

from bench.arena import Arena, System
from bench.fetching import MissingError
from bench.load import Work
from bench.messages import question
from bench.origin import ANSWER
from bench.peers import dnsmasq
from bench.timing import Effort, print_table

MANY = 32
_BELLJAR = "Belljar, with its audit log"


class Figures(NamedTuple):
    """One server in one round, or the medians of its rounds."""

    questions: float
    """In a second, with many clients."""

    p50: float
    p99: float
    """Seconds, with one client."""


def bench_dns(effort: Effort) -> None:
    """Ask all servers the same question, in turns."""
    with Arena() as arena:
        ours = arena.belljar()
        servers = {_BELLJAR: (ours, Work("dns", "127.0.0.1", 53, question(ANSWER).hex()))}
        try:
            for name, log in (("dnsmasq", False), ("dnsmasq, with its query log", True)):
                peer = arena.peer(name, partial(dnsmasq, log=log))
                servers[name] = peer, Work("dns", "127.0.0.1", peer.port, question(ANSWER).hex())
        except MissingError as error:
            print(f"\nMissing: dnsmasq. {error}")
        rounds: defaultdict[str, list[Figures]] = defaultdict(list)
        for _ in range(effort.rounds):
            for name, (system, work) in servers.items():
                rounds[name].append(_measure(arena, system, work, effort.seconds))
    figures = {name: Figures(*map(median, zip(*each, strict=True))) for name, each in rounds.items()}
    print_table(
        f"DNS questions over UDP ({MANY} clients), and time to the answer (one client)",
        ("server", "questions/s", "ratio to Belljar", "p50", "p99"),
        [
            (
                name,
                f"{f.questions:,.0f}",
                f"{f.questions / figures[_BELLJAR].questions:.2f}",
                f"{f.p50 * 1e6:.0f} µs",
                f"{f.p99 * 1e6:.0f} µs",
            )
            for name, f in figures.items()
        ],
    )


def _measure(arena: Arena, system: System, work: Work, seconds: float) -> Figures:
    one = arena.perform(system, replace(work, seconds=seconds))
    many = arena.perform(system, replace(work, seconds=seconds, clients=MANY))
    cuts = quantiles(one.times, n=100)
    return Figures(many.rate, cuts[49], cuts[98])
