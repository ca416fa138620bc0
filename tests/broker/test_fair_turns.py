"""One sandbox does its worst to the broker, and others are served all the same. `make bench` measures how soon.

What is compared is the processor time that the broker takes until it has served a neighbour: unlike the time on the
clock, it is the same on a busy machine.
"""

import asyncio
import gc
import json
import os
import signal
import socket
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, suppress
from contextvars import copy_context
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from belljar.broker.asking.bodies import BodyQuestion
from belljar.broker.asking.judgeprocess import JudgeProcesses
from belljar.broker.dialects import ApiDialect
from belljar.broker.http.connection import Connection
from belljar.broker.http.fairloop import FairLoop, give_way, owned_by
from belljar.broker.http.room import Room
from belljar.turns import SLICE, Owner
from tests.broker.running import Running, answer_of, service
from tests.broker.standin import Call, StandIn
from tests.gateway.serving import eventually

POST = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.belljar.internal\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = CHUNKED.replace(b"/v1/messages", b"/v1/files")
CHUNKS = b"1\r\nx\r\n" * 10_000
CONNECTIONS = 16
MAX_SECONDS = 1.0
"""Of processor time. To parse all that the connections hold takes more than ten."""


def cpu_seconds(broker: Running) -> float:
    """Return the processor time that all threads of a broker have used."""
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fill(connection: socket.socket, opening: bytes) -> None:
    """Send as much as the kernel holds."""
    connection.setblocking(False)
    with suppress(BlockingIOError):
        connection.send(opening)
        while True:
            connection.send(CHUNKS)


@pytest.fixture(autouse=True)
def _pages(provider: StandIn) -> Iterator[None]:
    yield
    provider.pages.clear()
    provider.raw.clear()
    provider.seen.clear()


@pytest.mark.parametrize(
    ("opening", "refuse_tools"),
    [(CHUNKED, False), (REFUSED, False), (CHUNKED, True)],
    ids=["passed on", "refused", "judged"],
)
def test_a_neighbour_does_not_wait_for_a_backlog(
    broker: Running, provider: StandIn, opening: bytes, refuse_tools: bool
):
    used = service(provider.url)
    neighbour = broker.client(used, "neighbour")
    neighbour.request("GET", "/v1/models")
    assert answer_of(neighbour).status == 200
    with ExitStack() as hogs:
        for _ in range(CONNECTIONS):
            fill(hogs.enter_context(broker.connect(used, "hog", refuse_tools=refuse_tools)), opening)
        before = cpu_seconds(broker)
        neighbour.request("GET", "/v1/models")
        assert answer_of(neighbour).status == 200
        assert cpu_seconds(broker) - before < MAX_SECONDS
    neighbour.close()


def test_what_a_cut_connection_has_sent_is_dropped(broker: Running, provider: StandIn):
    """The gateway closes a sandbox's connections when a policy no longer allows them."""
    used = service(provider.url)
    descriptors = Path(f"/proc/{broker.process.pid}/fd")
    assert broker.ask(used, "GET", "/v1/models").status == 200
    idle = len(list(descriptors.iterdir()))
    with ExitStack() as hogs:
        for _ in range(CONNECTIONS):
            fill(hogs.enter_context(broker.connect(used, "cut", refuse_tools=True)), CHUNKED)
        before = cpu_seconds(broker)
    eventually(lambda: len(list(descriptors.iterdir())) <= idle)
    assert cpu_seconds(broker) - before < MAX_SECONDS


def many_numbers() -> bytes:
    return b'{"model": "m", "messages": [' + b",".join([b"9" * 4299] * 7000) + b"]}"


def many_values() -> bytes:
    return b'{"model": "m", "messages": [' + b",".join([b'{"role": "user", "content": []}'] * 100_000) + b"]}"


def long_name() -> bytes:
    """Return options with a name in which a pattern would find many beginnings, and no end."""
    return json.dumps({"model": "m", "messages": [], "thinking": {"file_" * 6_000 + "\n": 1}}).encode()


@pytest.mark.parametrize(("body", "status"), [(many_numbers, 400), (many_values, 200), (long_name, 403)])
def test_a_neighbour_does_not_wait_for_a_large_body(
    broker: Running, provider: StandIn, body: Callable[[], bytes], status: int
):
    """It is read by another process: the broker itself does little for it."""
    used, content = service(provider.url), body()
    before = cpu_seconds(broker)
    for _ in range(4):
        assert broker.ask(used, body=content, sandbox="large", refuse_tools=True).status == status
    assert cpu_seconds(broker) - before < MAX_SECONDS


def test_a_judge_that_ends_fails_one_request(broker: Running, provider: StandIn):
    used, content = service(provider.url), many_values()
    assert broker.ask(used, body=content, refuse_tools=True).status == 200
    children = Path(f"/proc/{broker.process.pid}/task/{broker.process.pid}/children")
    judge = int(children.read_text().split()[0])
    os.kill(judge, signal.SIGKILL)
    answers = [broker.ask(used, body=content, refuse_tools=True).status for _ in range(2)]
    assert answers == [503, 200]


def test_an_answer_of_small_events_does_not_delay_a_neighbour(broker: Running, provider: StandIn):
    """Each is searched for the usage that the broker has asked for."""

    async def endless(call: Call) -> None:
        await call.stream()
        while True:
            await call.chunk(b'data: {"usage"\n\n' * 1000)

    provider.pages["/v1/chat/completions"] = endless
    hog = broker.client(service(provider.url, "openai"), "events")
    hog.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "stream": True}))
    response = hog.getresponse()
    assert response.read(1) == b"d"
    used = service(provider.url)
    before = cpu_seconds(broker)
    assert broker.ask(used, "GET", "/v1/models", sandbox="neighbour").status == 200
    assert cpu_seconds(broker) - before < MAX_SECONDS
    hog.close()
    response.close()


def test_a_connection_that_is_cut_leaves_nothing_to_collect():
    """The collector stops the loop: for a thousand connections, and all that they hold, a quarter of a second."""

    async def run() -> weakref.ref[Connection]:
        ours, theirs = socket.socketpair()
        _, connection = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(lambda _: asyncio.sleep(60), stalled_seconds=60), ours
        )
        await asyncio.sleep(0)
        connection.transport.abort()
        theirs.close()
        return weakref.ref(connection)

    gc.disable()
    try:
        assert asyncio.run(run())() is None
    finally:
        gc.enable()


class TestFairLoop:
    """Owners take turns, each for a slice of the processor's time."""

    def test_many_tasks_of_one_owner_have_one_turn(self):
        calls = {"hog": 0, "neighbour": 0}
        at_each_step = list[int]()

        async def hog() -> None:
            while calls["neighbour"] < 10:
                spin(SLICE)
                calls["hog"] += 1
                await asyncio.sleep(0)

        async def neighbour() -> None:
            while calls["neighbour"] < 10:
                calls["neighbour"] += 1
                at_each_step.append(calls["hog"])
                await asyncio.sleep(0)

        serve(*[("hog", hog)] * 50, ("neighbour", neighbour))
        assert max(later - earlier for earlier, later in pairwise(at_each_step)) <= 2

    def test_a_long_step_gives_way(self):
        steps = list[str]()

        async def long() -> None:
            for _ in range(20):
                spin(SLICE)
                steps.append("long")
                await give_way()

        async def short() -> None:
            steps.append("short")

        serve(("long", long), ("short", short))
        assert steps.index("short") <= 2
        assert len(steps) == 21

    def test_a_busy_sandbox_does_not_keep_the_judge_from_others(self):
        """To send the child a piece of a body does not wait for all that the sandbox has to do."""
        tasks, is_judged, calls = 200, False, list[int]()
        content = json.dumps({"model": "m", "messages": [{"content": "x" * 1_000_000}]}).encode()

        async def hog() -> None:
            while not is_judged:
                spin(SLICE)
                calls.append(1)
                await asyncio.sleep(0)

        async def judged() -> None:
            nonlocal is_judged
            judging = JudgeProcesses()
            try:
                for _ in range(2):  # the first one has the child forked
                    calls.clear()
                    with Room().keep("hog") as kept:
                        for start in range(0, len(content), 64 << 10):
                            kept.add(content[start : start + (64 << 10)])
                        question = BodyQuestion(ApiDialect.ANTHROPIC, refuses=True, counts=False)
                        facts = await judging.read_facts("hog", question, kept)
                    assert facts.model == "m"
            finally:
                is_judged = True
                judging.close()
                await asyncio.sleep(0)

        serve(*[("hog", hog)] * tasks, ("hog", judged))
        assert len(calls) < tasks * 8, "each of its pieces takes the sandbox a round of all of its tasks"

    def test_spaces_after_a_body_are_removed_in_several_turns(self):
        calls = list[str]()

        async def hog() -> None:
            with Room().keep("hog") as kept:
                kept.add(b"{}")
                for _ in range(200):
                    kept.add(b" " * (64 << 10))
                await kept.end_with(b"!}")
                assert (len(kept), kept.whole()) == (3, b"{!}")
            calls.append("hog")

        async def neighbour() -> None:
            while "hog" not in calls:
                calls.append("neighbour")
                await asyncio.sleep(0)

        serve(("hog", hog), ("neighbour", neighbour))
        assert len(calls) > 10

    def test_a_sandbox_keeps_its_debts(self):
        indebted = Owner()
        indebted.charge(SLICE * 4)
        order = list[str]()

        async def step(name: str) -> None:
            for _ in range(3):
                order.append(name)
                await asyncio.sleep(0)

        serve(("indebted", lambda: step("indebted")), ("new", lambda: step("new")), owners={"indebted": indebted})
        assert order[:3] == ["new"] * 3


def spin(seconds: float) -> None:
    """Use the processor for so long."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


Work = Callable[[], Coroutine[Any, Any, None]]


def serve(*work: tuple[str, Work], owners: Mapping[str, Owner] = {}) -> None:
    """Run tasks on a fair loop, each for the owner that it names."""
    accounts = dict(owners)

    async def run() -> None:
        tasks = []
        for name, task in work:
            context = copy_context()
            context.run(owned_by, accounts.setdefault(name, Owner()))
            tasks.append(asyncio.get_running_loop().create_task(task(), context=context))
        await asyncio.gather(*tasks)

    with asyncio.Runner(loop_factory=FairLoop) as runner:
        runner.run(run())
