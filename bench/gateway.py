"""What a gateway costs: throughput, new connections, processor time and memory, beside other proxies."""

from statistics import median, quantiles
from typing import NamedTuple

from bench.arena import Arena, System
from bench.fetching import MissingError
from bench.load import Done, Work
from bench.messages import client_hello
from bench.origin import ANSWER, IDLE, STREAM
from bench.peers import PROXIES
from bench.processes import cpu_seconds, memory
from bench.timing import Effort, met, print_table

MANY = 32
IDLE_CONNECTIONS = 1000


class Figures(NamedTuple):
    """One system in one round, or the medians of its rounds."""

    one_stream: float
    many_streams: float
    """Bytes in a second."""

    cpu_per_byte: float
    """Seconds of the system itself, with one connection."""

    connections: float
    """In a second, with many clients."""

    cpu_per_connection: float
    """Seconds of the system itself."""

    p50: float
    p99: float
    """Seconds from the first packet to the answer, with one client."""


class Memory(NamedTuple):
    """In bytes."""

    idle: int
    with_connections: int


def bench_gateway(effort: Effort) -> None:
    """Measure Belljar and all peers that can be had, in turns, and print how they compare."""
    with Arena() as arena:
        field = _Field(arena)
        for _ in range(effort.rounds):
            field.measure(effort.seconds)
    figures = {name: Figures(*map(median, zip(*rounds, strict=True))) for name, rounds in field.rounds.items()}
    _print_throughput(figures)
    _print_connections(figures)
    _print_memory(field.memories)
    for name, reason in field.missing.items():
        print(f"\nMissing: {name}. {reason}")
    _print_goals(figures)
    print("\nWhat each does with a connection:\n")
    for system in field.systems:
        print(f"- {system.name}: {system.does}")


class _Field:
    """All systems that are at work, and what was measured so far. A peer that fails leaves the field."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.systems = [arena.direct()]
        self.memories: dict[str, Memory] = {}
        self.rounds: dict[str, list[Figures]] = {"Direct": []}
        self.missing: dict[str, str] = {}
        self._enter(arena.belljar())
        for name, prepare in PROXIES.items():
            try:
                self._enter(arena.peer(name, prepare))
            except MissingError as error:
                self.missing[name] = str(error)

    def _enter(self, system: System) -> None:
        self._arena.perform(system, work_for(system, "answer", ANSWER, seconds=0.2))
        self.memories[system.name] = _measure_memory(self._arena, system)
        self.rounds[system.name] = []
        self.systems.append(system)

    def measure(self, seconds: float) -> None:
        """Measure each system once."""
        for system in list(self.systems):
            try:
                self.rounds[system.name].append(_measure(self._arena, system, seconds))
            except MissingError as error:
                if system.name not in PROXIES:
                    raise
                self.missing[system.name] = str(error)
                self.systems.remove(system)
                del self.memories[system.name], self.rounds[system.name]


def work_for(system: System, kind: str, name: str, *, clients: int = 1, seconds: float = 1.0) -> Work:
    """Return what clients of a system are to do with one of the origin's names."""
    hello, asked = client_hello(name).hex(), system.connect_to.format(name=name)
    return Work(kind, system.address_of(name), system.port, hello, asked, clients, seconds)


def _measure_memory(arena: Arena, system: System) -> Memory:
    before = memory(system.pid)
    with arena.holding(system, work_for(system, "idle", IDLE, clients=IDLE_CONNECTIONS)):
        return Memory(before, memory(system.pid))


def _measure(arena: Arena, system: System, seconds: float) -> Figures:
    def perform(kind: str, name: str, clients: int) -> tuple[Done, float]:
        used = cpu_seconds(system.pid)
        done = arena.perform(system, work_for(system, kind, name, clients=clients, seconds=seconds))
        return done, (cpu_seconds(system.pid) - used) / done.count

    stream, cpu_per_byte = perform("stream", STREAM, 1)
    streams, _ = perform("stream", STREAM, MANY)
    answers, _ = perform("answer", ANSWER, 1)
    many_answers, cpu_per_connection = perform("answer", ANSWER, MANY)
    cuts = quantiles(answers.times, n=100)
    return Figures(stream.rate, streams.rate, cpu_per_byte, many_answers.rate, cpu_per_connection, cuts[49], cuts[98])


def _print_throughput(figures: dict[str, Figures]) -> None:
    direct = figures["Direct"]
    print_table(
        "Throughput, with the server name inspected (ratio to a direct connection)",
        ("system", "one connection", "ratio", f"{MANY} connections", "ratio", "processor time, one connection"),
        [
            (
                name,
                _gigabits(f.one_stream),
                f"{f.one_stream / direct.one_stream:.2f}",
                _gigabits(f.many_streams),
                f"{f.many_streams / direct.many_streams:.2f}",
                f"{f.cpu_per_byte * 1e9:.2f} s/GB" if f is not direct else "",
            )
            for name, f in figures.items()
        ],
    )


def _print_connections(figures: dict[str, Figures]) -> None:
    direct = figures["Direct"]
    print_table(
        f"New connections ({MANY} clients), and time from the first packet to the origin's answer (one client)",
        ("system", "connections/s", "ratio", "processor time", "p50", "p99", "added p50", "added p99"),
        [
            (
                name,
                f"{f.connections:,.0f}",
                f"{f.connections / direct.connections:.2f}",
                f"{f.cpu_per_connection * 1e6:.0f} µs" if f is not direct else "",
                *map(_milliseconds, (f.p50, f.p99, f.p50 - direct.p50, f.p99 - direct.p99)),
            )
            for name, f in figures.items()
        ],
    )


def _print_memory(memories: dict[str, Memory]) -> None:
    print_table(
        "Memory (PSS of all its processes)",
        ("system", "idle", f"with {IDLE_CONNECTIONS:,} idle connections", "per connection"),
        [
            (
                name,
                f"{m.idle / 1e6:.1f} MB",
                f"{m.with_connections / 1e6:.1f} MB",
                f"{(m.with_connections - m.idle) / IDLE_CONNECTIONS / 1e3:.1f} kB",
            )
            for name, m in memories.items()
        ],
    )


def _print_goals(figures: dict[str, Figures]) -> None:
    """Print what was to be reached beside what was."""
    direct, ours = figures["Direct"], figures["Belljar"]
    peers = {name: f for name, f in figures.items() if name not in ("Direct", "Belljar")}
    goals = [("throughput of one connection / direct", "≥ 0.60", ours.one_stream / direct.one_stream, 0.60)]
    if peers:
        best = max(peers, key=lambda name: peers[name].one_stream)
        ratio = ours.one_stream / peers[best].one_stream
        goals.append((f"throughput of one connection / the best peer ({best})", "≥ 1.00", ratio, 1.00))
    for name, factor in (("squid", 1.3), ("Envoy", 1.2)):
        if name in peers:
            ratio = ours.connections / peers[name].connections
            goals.append((f"new connections per second / {name}", f"≥ {factor:.2f}", ratio, factor))
    rows = [(what, goal, f"{value:.2f}", met(value >= bound)) for what, goal, value, bound in goals]
    added = ours.p50 - direct.p50
    rows.append(("added time per new connection, p50", "≤ 0.50 ms", _milliseconds(added), met(added <= 0.5e-3)))
    print_table("Goals", ("what", "goal", "measured", ""), rows)


def _gigabits(bytes_per_second: float) -> str:
    return f"{bytes_per_second * 8 / 1e9:.1f} Gb/s"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
