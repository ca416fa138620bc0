"""What gets through to a container and how fast, beside other ways to keep one from the network."""

from statistics import median
from typing import NamedTuple

from bench.arena import System
from bench.containernetworks import ContainerArena
from bench.fetching import MissingError
from bench.gateway import MANY, work_for
from bench.origin import ANSWER, STREAM
from bench.timing import Effort, print_table


class Traffic(NamedTuple):
    """What was measured of one network, round by round."""

    streams: list[float]
    """Gigabits in a second, of one connection."""

    connections: list[float]
    """In a second, with many clients."""


def bench_traffic(effort: Effort) -> None:
    """Measure all networks in turns, and print how they compare. Raises MissingError if Docker cannot be had."""
    with ContainerArena() as arena:
        field = _Field(arena)
        for _ in range(effort.rounds):
            field.measure(effort.seconds)
    _print(field.traffic)
    print()
    for system in field.systems:
        print(f"- {system.name}: {system.does}.")
    for name, reason in field.missing.items():
        print(f"- Missing: {name}. {reason}")


class _Field:
    """All networks, and what was measured so far. One that fails leaves the field, but for the bridge."""

    def __init__(self, arena: ContainerArena) -> None:
        self._arena = arena
        self.systems = [arena.bridge()]
        self.missing: dict[str, str] = {}
        for make in (arena.sealed, arena.perimeter, arena.internal_squid, arena.chain):
            try:
                self.systems.append(make())
            except MissingError as error:
                self.missing[make.__name__.replace("_", " ")] = str(error)
        self.traffic = {system.name: Traffic([], []) for system in self.systems}

    def measure(self, seconds: float) -> None:
        """Measure each network once."""
        bridge, *others = self.systems
        self._measure(bridge, seconds)
        for system in others:
            try:
                self._measure(system, seconds)
            except MissingError as error:
                self.missing[system.name] = str(error)
                self.systems.remove(system)
                del self.traffic[system.name]

    def _measure(self, system: System, seconds: float) -> None:
        stream = self._arena.perform(system, work_for(system, "stream", STREAM, seconds=seconds))
        work = work_for(system, "answer", ANSWER, clients=MANY, seconds=seconds)
        self.traffic[system.name].connections.append(self._arena.perform(system, work).rate)
        self.traffic[system.name].streams.append(stream.rate * 8 / 1e9)


def _print(traffic: dict[str, Traffic]) -> None:
    bridge = next(iter(traffic.values()))
    print_table(
        f"From inside a container: one connection, and new connections of {MANY} clients (ratio to Docker's bridge)",
        ("network", "throughput", "from, to", "ratio", "connections/s", "from, to", "ratio"),
        [
            (
                name,
                f"{median(streams):.1f} Gb/s",
                f"{min(streams):.1f}, {max(streams):.1f}",
                f"{median(streams) / median(bridge.streams):.2f}",
                f"{median(connections):,.0f}",
                f"{min(connections):,.0f}, {max(connections):,.0f}",
                f"{median(connections) / median(bridge.connections):.2f}",
            )
            for name, (streams, connections) in traffic.items()
        ],
    )
