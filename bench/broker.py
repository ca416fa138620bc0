"""The broker: what it adds to a request, how many events it relays, and what an open stream costs, beside its peers."""

import http.client
import json
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from statistics import median
from typing import NamedTuple

from bench.fetching import MissingError
from bench.processes import cpu_seconds, memory
from bench.relaypeers import RELAYS
from bench.relays import Loopback, Relay
from bench.timing import Effort, met, print_table
from tests.broker.standin import Call

REQUESTS, EVENTS, STREAMS = 200, 5_000, 200
MOST_ADDED, TIMES_A_PEER = 2e-3, 5.0

_DELTA = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a few words"}}'
_EVENT = b"event: content_block_delta\ndata: " + _DELTA + b"\n\n"
_MESSAGES = [{"role": "user", "content": "hello"}]
_ASKED = json.dumps({"model": "m", "max_tokens": 16, "stream": True, "messages": _MESSAGES})
_BEGUN, _END = _EVENT + b"\r\n", b"\r\n0\r\n\r\n"
_FRAMING = re.compile(rb"\r\n[0-9A-Fa-f]+\r\n")
"""Between chunks. There is none in an event, whose lines end otherwise."""


class Figures(NamedTuple):
    """One relay in one round, or the medians of its rounds."""

    first_byte: float
    """Seconds, p50."""

    events: float
    """In a second, of one stream."""

    cpu_per_event: float
    """Seconds of the relay itself."""


class Memory(NamedTuple):
    """In bytes."""

    idle: int
    with_streams: int


def bench_broker(effort: Effort) -> None:
    """Measure the broker and all peers that can be had, in turns, and print how they compare."""
    with Loopback() as loopback:
        field = _Field(loopback)
        for _ in range(effort.rounds):
            field.measure()
    figures = {name: Figures(*map(median, zip(*rounds, strict=True))) for name, rounds in field.rounds.items()}
    _print_figures(figures, field.memories)
    _print_goals(figures)
    print()
    for relay in field.relays:
        print(f"- {relay.name}: {relay.does}.")
    for name, reason in field.missing.items():
        print(f"- Missing: {name}. {reason}")


class _Field:
    """All relays that are at work, and what was measured so far. A peer that fails leaves the field."""

    def __init__(self, loopback: Loopback) -> None:
        self._loopback = loopback
        self.relays = [loopback.direct(), *loopback.belljar()]
        self.missing: dict[str, str] = {}
        for name, (prepare, path) in RELAYS.items():
            try:
                self.relays.append(loopback.peer(name, prepare, path))
            except MissingError as error:
                self.missing[name] = str(error)
        self.memories: dict[str, Memory] = {}
        self.rounds: dict[str, list[Figures]] = {relay.name: [] for relay in self.relays}
        self._each(self._enter)

    def measure(self) -> None:
        """Measure each relay once."""
        self._each(lambda relay: self.rounds[relay.name].append(_measure(self._loopback, relay)))

    def _enter(self, relay: Relay) -> None:
        events_relayed(self._loopback, relay, 10)
        if relay.name in {"Belljar", *RELAYS}:  # the broker is one process, whichever way leads through it
            self.memories[relay.name] = _measure_memory(self._loopback, relay)

    def _each(self, work: Callable[[Relay], None]) -> None:
        for relay in list(self.relays):
            try:
                work(relay)
            except (MissingError, OSError, http.client.HTTPException) as error:
                if relay.name not in RELAYS:
                    raise
                self.missing[relay.name] = f"fails: {error}"
                self.relays.remove(relay)
                del self.rounds[relay.name]
                self.memories.pop(relay.name, None)


def events_relayed(loopback: Loopback, relay: Relay, count: int) -> float:
    """Have a stream of events relayed, and return how long that took. Raises MissingError if any are not."""

    async def page(call: Call) -> None:
        await call.stream()
        for _ in range(count):
            await call.chunk(_EVENT)
        await call.chunk(b"")

    with loopback.answering(page), closing(relay.connect()) as client:
        started = time.perf_counter()
        received = _received(_asked(client, relay), _END)
        took = time.perf_counter() - started
    relayed = _FRAMING.sub(b"", received).count(_EVENT)
    if relayed != count:
        raise MissingError(f"of {count} events it relays {relayed}")
    return took


def _measure(loopback: Loopback, relay: Relay) -> Figures:
    first_byte = _first_byte(loopback, relay)
    used = cpu_seconds(relay.pid)
    took = events_relayed(loopback, relay, EVENTS)
    return Figures(first_byte, EVENTS / took, (cpu_seconds(relay.pid) - used) / EVENTS)


def _first_byte(loopback: Loopback, relay: Relay) -> float:
    """Return the time to the first byte of a streamed answer, on a connection that is kept open."""

    async def page(call: Call) -> None:
        await call.stream()
        await call.chunk(_EVENT)
        await call.chunk(b"")

    times = []
    with loopback.answering(page), closing(relay.connect()) as client:
        for _ in range(REQUESTS):
            started = time.perf_counter()
            client.request("POST", relay.path, _ASKED, {"content-type": "application/json"})
            response = client.getresponse()
            response.read(1)
            times.append(time.perf_counter() - started)
            response.read()
    return median(times)


def _measure_memory(loopback: Loopback, relay: Relay) -> Memory:
    async def page(call: Call) -> None:
        await call.stream()
        await call.chunk(_EVENT)
        await call.reader.read(1)

    before = memory(relay.pid)
    with loopback.answering(page), ExitStack() as stack:
        clients = [stack.enter_context(closing(relay.connect())) for _ in range(STREAMS)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda client: _received(_asked(client, relay), _BEGUN), clients))
        return Memory(before, memory(relay.pid))


def _asked(client: http.client.HTTPConnection, relay: Relay) -> socket.socket:
    """Ask, and return where the answer will be: read as it comes, it costs the client little."""
    client.request("POST", relay.path, _ASKED, {"content-type": "application/json"})
    return client.sock


def _received(sock: socket.socket, end: bytes) -> bytes:
    """Return an answer up to certain bytes, or to the end of the connection. Raises MissingError if it is a refusal."""
    tail = sock.recv(1 << 16)
    if not tail.startswith(b"HTTP/1.1 200 "):
        raise MissingError(f"answers {tail[:200]!r}")
    parts = [tail]
    while not tail.endswith(end) and (data := sock.recv(1 << 16)):
        parts.append(data)
        tail = tail[-len(end) :] + data
    return b"".join(parts)


def _print_figures(figures: dict[str, Figures], memories: dict[str, Memory]) -> None:
    direct = figures["Direct"]
    head = ("relay", "first byte, p50", "added", "events/s, one stream", "processor time of an event")
    rows = []
    for name, f in figures.items():
        row = [name, _milliseconds(f.first_byte), _milliseconds(f.first_byte - direct.first_byte), f"{f.events:,.0f}"]
        row.append(f"{f.cpu_per_event * 1e6:.0f} µs" if f is not direct else "")
        row += [f"{size / 1e6:.0f} MB" for size in memories.get(name, ())] or ["", ""]
        rows.append(tuple(row))
    print_table(
        "Broker: a provider on loopback, over TLS", (*head, "memory at rest", f"with {STREAMS} open streams"), rows
    )


def _print_goals(figures: dict[str, Figures]) -> None:
    """Print what was to be reached beside what was."""
    ours, rows = figures["Belljar"], []
    added = ours.first_byte - figures["Direct"].first_byte
    goal = f"≤ {_milliseconds(MOST_ADDED)}"
    rows.append(("added to the first byte, p50", goal, _milliseconds(added), met(added <= MOST_ADDED)))
    if peers := [name for name in figures if name in RELAYS]:
        best = max(peers, key=lambda name: figures[name].events)
        ratio = ours.events / figures[best].events
        what = f"events per second / the better peer ({best})"
        rows.append((what, f"≥ {TIMES_A_PEER:.1f}", f"{ratio:.1f}", met(ratio >= TIMES_A_PEER)))
        thriftiest = min(peers, key=lambda name: figures[name].cpu_per_event)
        times = figures[thriftiest].cpu_per_event / ours.cpu_per_event
        rows.append((f"processor time of an event, {thriftiest}'s / ours", "", f"{times:.1f}", ""))
    print_table("Broker: goals", ("what", "goal", "measured", ""), rows)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
