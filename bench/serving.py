"""The control plane: `belljar serve` with sandboxes of the local backend, asked over its unix socket."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from belljar.client import Client, Egress, NetworkPolicy, Sandbox
from belljar.client.sync.sandbox import Running
from bench import inside
from bench.followers import Followers
from bench.processes import family, memory
from bench.timing import met, print_table
from tests.control.machines import Machine
from tests.universe import Universe
from tests.universe.addresses import ECHO

CLAIMS, AT_ONCE, MANY = 30, 100, 200
CUTS = 30
UPDATES, GRANTED, CONTESTED = 1000, 180, 20
FOLLOWERS, FLOODING, DENIALS_EACH, DENIALS_PER_SECOND = 50, 10, 500, 100

_GOAL_SECONDS = 0.05
_DENIED_SECONDS = 0.005
_PATIENCE = 20.0
_WITNESS = 7007
_INSIDE = ("/usr/bin/python3", "-c", Path(inside.__file__).read_text())
_NOTHING = NetworkPolicy("block-all")
_ECHO = f"plain.test:{ECHO}"

Row = tuple[str, str, str, str]


def bench_serving() -> None:
    """Measure one server, from when it is empty until it has many sandboxes."""
    with (
        Universe() as universe,
        TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory,
        serving(universe, Path(directory)) as machine,
        Client(machine.state) as client,
    ):
        rows = [
            *_bench_claims(client),
            *_bench_cuts(client),
            *_bench_updates(client, universe),
            *_bench_events(client, machine),
            *_bench_many(client, machine),
        ]
    print_table("Control plane: `belljar serve`, local backend", ("what", "measured", "goal", ""), rows)


@contextmanager
def serving(universe: Universe, directory: Path) -> Iterator[Machine]:
    """Have a server on a machine of its own."""
    machine = Machine(universe, directory / "state")
    try:
        machine.start()
        try:
            yield machine
        finally:
            machine.clean_up()  # or its sandboxes would live on
    finally:
        machine.kill()


def _bench_claims(client: Client) -> Iterator[Row]:
    answers, outputs = [], []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        with client.claim() as sandbox:
            answers.append(time.perf_counter() - started)
            with sandbox.stream(["echo", "hello"]) as running:
                next(iter(running))
                outputs.append(time.perf_counter() - started)
    yield _timed("Claim to its answer, p50", median(answers))
    yield _timed("Claim to first output of a command, p50", median(outputs), _GOAL_SECONDS)


def _bench_cuts(client: Client) -> Iterator[Row]:
    """From a PUT being sent to its answer, and to the flow's end as seen inside: the later one is `enforced`."""
    open_policy = _granting(_ECHO)
    answers, enforced = [], []
    with (
        client.claim(network=open_policy) as sandbox,
        sandbox.stream([*_INSIDE, "watch", *_ECHO.split(":")]) as running,
    ):
        told = _lines(running)
        for _ in range(CUTS):
            _expect(next(told), "open")
            started = time.monotonic()
            sandbox.update_network_policy(_NOTHING)
            answered = time.monotonic()
            answers.append(answered - started)
            enforced.append(max(answered, float(next(told))) - started)
            sandbox.update_network_policy(open_policy)
    yield _timed("PUT network to its answer, p50", median(answers))
    yield _timed("PUT network to enforced, a live flow cut, p50", median(enforced), _GOAL_SECONDS)


def _bench_updates(client: Client, universe: Universe) -> Iterator[Row]:
    """Half of the updates deny a name that is insisted on.

    What was sent to it after such an update was answered, and arrived before the next one was sent, should not have.
    """
    contested = f"other.test:{_WITNESS}"
    policies = (_granting(_ECHO), _granting(_ECHO, contested))
    words = (*_ECHO.split(":"), str(GRANTED), *contested.split(":"), str(CONTESTED))
    updates: list[tuple[int, int]] = []
    with (
        _witness(universe) as arrived,
        client.claim(network=policies[1]) as sandbox,
        sandbox.stream([*_INSIDE, "talk", *words]) as running,
    ):
        told = _lines(running)
        _expect(next(told), "ready")
        for number in range(UPDATES):
            begun = time.monotonic_ns()
            sandbox.update_network_policy(policies[number % 2])
            answered = time.monotonic_ns()
            updates.append((begun, answered))
            if number % 2 == 0:
                time.sleep(_DENIED_SECONDS)
        sandbox.exec("kill -TERM -1")
        end = json.loads(next(told))
    samples = [(answered - begun) / 1e9 for begun, answered in updates]
    closed = [(denied[1], granted[0]) for denied, granted in zip(updates[::2], updates[1::2], strict=True)]
    leaked = sum(after <= sent and came <= before for after, before in closed for sent, came in arrived)
    what = f"{UPDATES:,} updates while {GRANTED + CONTESTED} flows run"
    yield _timed(f"{what}: PUT to its answer, p50", median(samples))
    yield _timed(f"{what}: PUT to its answer, p99", _p99(samples))
    yield (f"{what}: lost, of {GRANTED} granted ones", str(end["lost"]), "0", met(end["lost"] == 0))
    tried = f"{end['sent']:,} messages sent, of which {len(arrived):,} arrived"
    yield (f"{what}: bytes passed to a name while denied ({tried})", str(leaked * inside.STAMP), "0", met(leaked == 0))


@contextmanager
def _witness(universe: Universe) -> Iterator[list[tuple[int, int]]]:
    """Have somebody in the internet note when each message was sent and when it arrived."""
    arrived: list[tuple[int, int]] = []
    started: list[Callable[[], object]] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                sent = int.from_bytes(await reader.readexactly(inside.STAMP))
                arrived.append((sent, time.monotonic_ns()))
        except (OSError, EOFError):
            writer.close()

    async def serve() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(note, "0.0.0.0", _WITNESS, backlog=1024)
        started.append(lambda: loop.call_soon_threadsafe(stopped.set))
        await stopped.wait()
        server.close()

    serving = universe.internet.start(lambda: asyncio.run(serve()))
    while not started and not serving.done():
        time.sleep(0.01)
    try:
        yield arrived
    finally:
        for stop in started:
            stop()
        serving.result()


def _bench_events(client: Client, machine: Machine) -> Iterator[Row]:
    """The denials come from several sandboxes, because of one alone the gateway tells no more than 100 a second."""
    expected = FLOODING * DENIALS_EACH * FOLLOWERS
    command = [*_INSIDE, "flood", str(DENIALS_EACH), str(DENIALS_PER_SECOND)]
    with ExitStack() as stack:
        jars = [stack.enter_context(client.claim()) for _ in range(FLOODING)]
        followers = stack.enter_context(Followers(machine.state / "belljar.sock", FOLLOWERS))
        with ThreadPoolExecutor(FLOODING) as threads:
            for result in threads.map(lambda jar: jar.exec(command), jars):
                _expect(result.stderr, "")
        followers.wait(expected, _PATIENCE)
    delays, seconds = followers.delays, followers.last - followers.first
    what = f"Denials to {FOLLOWERS} followers"
    yield (f"{what}: rate of denials", f"{len(delays) / FOLLOWERS / seconds:,.0f}/s", "", "")
    yield (f"{what}: delivered", f"{len(delays) / seconds:,.0f}/s", "", "")
    missing = expected - len(delays)
    yield (f"{what}: missing of {expected:,}", f"{missing:,}", "0", met(missing == 0))
    yield _timed(f"{what}: delay, p50", median(delays))
    yield _timed(f"{what}: delay, p99", _p99(delays))


def _bench_many(client: Client, machine: Machine) -> Iterator[Row]:
    def claim(_: int) -> tuple[Sandbox, float]:
        started = time.perf_counter()
        sandbox = client.claim()
        return sandbox, time.perf_counter() - started

    assert machine.process is not None
    before = _memory(machine.process.pid)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        started = time.perf_counter()
        claimed = list(threads.map(claim, range(AT_ONCE)))
        seconds = time.perf_counter() - started
        samples = [each for _, each in claimed]
        claimed += threads.map(claim, range(MANY - AT_ONCE))
        after = _memory(machine.process.pid)
        list(threads.map(lambda each: each[0].delete(), claimed))
    yield (f"{AT_ONCE} claimed at once: rate", f"{AT_ONCE / seconds:.0f}/s", "", "")
    yield _timed(f"{AT_ONCE} claimed at once: p50", median(samples))
    yield _timed(f"{AT_ONCE} claimed at once: p99", _p99(samples))
    what = f"Memory (PSS) with {MANY} sandboxes"
    yield (f"{what}: server and its workers", f"{after[0] / 1e6:.0f} MB ({before[0] / 1e6:.0f} MB with none)", "", "")
    yield (f"{what}: processes of each sandbox", f"{after[1] / MANY / 1e6:.2f} MB", "", "")


def _memory(server: int) -> tuple[int, int]:
    """Return what the server and its workers use, and what its sandboxes do."""
    given_up = time.monotonic() + _PATIENCE
    while time.monotonic() < given_up:
        with suppress(OSError):  # somebody who has helped to make a sandbox ends just now
            jars = [process for process in family(server) if Path(f"/proc/{process}/comm").read_text() == "bwrap\n"]
            sandboxes = sum(map(memory, jars))
            return memory(server) - sandboxes, sandboxes
    raise RuntimeError("the server's processes do not settle")


def _granting(*domains: str) -> NetworkPolicy:
    return NetworkPolicy("block-all", Egress(allowed_domains=domains))


def _lines(running: Running) -> Iterator[str]:
    text = ""
    for output in running:
        *lines, text = (text + output.text).split("\n")
        yield from lines


def _expect(told: str, expected: str) -> None:
    if told != expected:
        raise RuntimeError(f"the program inside said: {told}")


def _p99(samples: list[float]) -> float:
    return quantiles(samples, n=100)[-1]


def _timed(what: str, seconds: float, goal: float | None = None) -> Row:
    if goal is None:
        return (what, f"{seconds * 1e3:.1f} ms", "", "")
    return (what, f"{seconds * 1e3:.1f} ms", f"at most {goal * 1e3:.0f} ms", met(seconds <= goal))
