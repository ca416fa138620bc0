"""Streams that are many, slow, endless, or left."""

import asyncio
import os
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from belljar.broker import preamble
from belljar.broker.asking.judgeprocess import JudgeQueue
from belljar.broker.http.bytestream import ByteStream, StalledError
from belljar.broker.http.exchange import Exchange
from belljar.broker.http.room import Room
from belljar.broker.limits import BrokerLimits, for_this_process
from belljar.broker.refusals import RefusedRequest
from belljar.broker.serving import BrokerServing
from tests.broker.running import Running, drain, service
from tests.broker.standin import Call, StandIn

POST = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.belljar.internal\r\n"
ASK = POST + b"Content-Length: 2\r\n\r\n{}"


def memory_of(running: Running) -> int:
    """Return how many bytes a broker has in memory."""
    return int(Path(f"/proc/{running.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def endless(call: Call) -> None:
    await call.stream()
    while True:
        await call.chunk(b"data: " + b"x" * 60_000 + b"\n\n")


async def waiting(call: Call) -> None:
    await call.stream()
    await call.chunk(b"data: begun\n\n")
    await call.reader.read(1)


@pytest.fixture(scope="module", autouse=True)
def _loaded(broker: Running, provider: StandIn):
    """Ask once before any memory is measured: the broker loads most of its code for its first request."""
    assert broker.ask(service(provider.url), body="{}").status == 200


@pytest.fixture(autouse=True)
def _pages(provider: StandIn):
    yield
    provider.pages.clear()


def begun(connection: socket.socket) -> None:
    received = b""
    while b"data: begun" not in received:
        data = connection.recv(65536)
        assert data, received
        received += data


def test_a_client_that_leaves_takes_its_request_with_it(broker: Running, provider: StandIn):
    provider.pages["/v1/messages"] = waiting
    connection = broker.connect(service(provider.url), "leaver")
    connection.sendall(ASK)
    begun(connection)
    ended = provider.ended
    connection.close()
    assert provider.wait(lambda: provider.ended > ended)
    assert broker.event(sandbox="leaver")["refused"] == "cut.off"


def test_a_client_that_leaves_before_the_answer_does_so_too(broker: Running, provider: StandIn):
    async def silent(call: Call) -> None:
        await call.reader.read(1)

    provider.pages["/v1/messages"] = silent
    seen, ended = len(provider.seen), provider.ended
    connection = broker.connect(service(provider.url), "early leaver")
    connection.sendall(ASK)
    assert provider.wait(lambda: len(provider.seen) > seen)
    connection.close()
    assert provider.wait(lambda: provider.ended > ended)
    event = broker.event(sandbox="early leaver")
    assert (event["status"], event["refused"]) == (499, "client.gone")


def test_half_a_request_reaches_nobody_who_would_act_on_it(broker: Running, provider: StandIn):
    before = len(provider.seen)
    with broker.connect(service(provider.url), "half") as connection:
        connection.sendall(POST + b"Content-Length: 100\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        assert drain(connection) == b""
    assert broker.event(sandbox="half")["refused"] == "client.gone"
    assert len(provider.seen) == before
    assert broker.ask(service(provider.url), body="{}").status == 200


def test_a_client_that_never_reads_holds_little(broker: Running, provider: StandIn):
    provider.pages["/v1/messages"] = endless
    used = service(provider.url)
    before = memory_of(broker)
    stuck = [broker.connect(used, "never reads") for _ in range(20)]
    for connection in stuck:
        connection.sendall(ASK)
        assert connection.recv(1) == b"H"
    del provider.pages["/v1/messages"]
    for _ in range(20):  # neighbours are served meanwhile
        assert broker.ask(used, body="{}").status == 200
    assert memory_of(broker) - before < 40 << 20
    for connection in stuck:
        connection.close()


def test_an_endless_answer_is_passed_on_in_bounded_memory(broker: Running, provider: StandIn):
    provider.pages["/v1/messages"] = endless
    before = memory_of(broker)
    with broker.connect(service(provider.url)) as connection:
        connection.sendall(ASK)
        received = 0
        while received < 40 << 20:
            received += len(connection.recv(1 << 20))
    assert memory_of(broker) - before < 20 << 20


@pytest.mark.parametrize("framing", [b"Content-Length: 1073741824", b"Transfer-Encoding: chunked"])
def test_a_body_that_is_too_large_is_refused_early(broker: Running, provider: StandIn, framing: bytes):
    before, seen = memory_of(broker), len(provider.raw)
    sent = 0
    with broker.connect(service(provider.url), refuse_tools=True) as connection:
        connection.sendall(POST + framing + b"\r\n\r\n")
        block = b"x" * (1 << 20)
        try:
            while sent < 1 << 30:
                connection.sendall((b"100000\r\n" + block + b"\r\n") if b"chunked" in framing else block)
                sent += len(block)
        except OSError:
            pass
        answer = drain(connection)
    assert sent < 64 << 20
    assert not answer or answer.startswith(b"HTTP/1.1 413")
    assert len(provider.raw) == seen
    assert memory_of(broker) - before < 120 << 20
    assert broker.ask(service(provider.url), body="{}", refuse_tools=True).status == 200


def test_a_sandbox_has_a_part_of_the_room():
    room = Room()
    part = b"x" * (64 << 20)
    with room.keep("greedy") as kept:
        for _ in range(4):
            kept.add(part)
        with pytest.raises(RefusedRequest), room.keep("greedy") as another:
            another.add(b"x")
        with room.keep("neighbour") as theirs:
            theirs.add(part)
    with room.keep("greedy") as kept:
        kept.add(part)


@pytest.mark.long
def test_what_was_sent_is_not_kept_while_the_answer_lasts(broker: Running, provider: StandIn):
    provider.pages["/v1/messages"] = waiting
    used, before = service(provider.url), memory_of(broker)
    body = b'{"messages": [{"role": "user", "content": "' + b"m" * (30 << 20) + b'"}]}'
    head = POST + b"Content-Length: %d\r\n\r\n" % len(body)
    with ExitStack() as streams:
        for _ in range(9):  # more than there is room for
            stream = streams.enter_context(broker.connect(used, "large", refuse_tools=True))
            stream.sendall(head + body)
            begun(stream)
        assert memory_of(broker) - before < 200 << 20
    provider.seen.clear()
    provider.raw.clear()


def test_a_body_that_is_too_large_is_told_of(broker: Running, provider: StandIn):
    answer = broker.raw(service(provider.url), POST + b"Content-Length: 99999999\r\n\r\n", refuse_tools=True)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"request_too_large" in answer


def test_a_large_body_that_need_not_be_judged_is_not_kept(broker: Running, provider: StandIn):
    async def swallowing(call: Call) -> None:
        await call.answer(b"{}")

    before = memory_of(broker)
    provider.pages["/v1/messages"] = swallowing
    size = 60 << 20
    answer = broker.ask(service(provider.url), body=b"x" * size)
    assert answer.status == 200
    assert len(provider.seen[-1].body) == size
    provider.seen.clear()
    provider.raw.clear()
    assert memory_of(broker) - before < 20 << 20


def test_who_takes_nothing_is_given_up():
    async def sending() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            stream = ByteStream()
            await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)
            with pytest.raises(StalledError):
                await stream.send(b"x" * (8 << 20), 0.05)
            with pytest.raises(StalledError):
                await stream.send(b"x", 0.05)

    asyncio.run(sending())


def test_who_waits_to_be_told_to_go_on_is_told(broker: Running, provider: StandIn):
    with broker.connect(service(provider.url)) as connection:
        connection.sendall(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(25).startswith(b"HTTP/1.1 100")
        connection.sendall(b"{}")
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert provider.seen[-1].header("expect") is None


def test_who_says_nothing_is_not_waited_for_with_a_neighbour(broker: Running, provider: StandIn):
    silent = [broker.connect(service(provider.url), "silent") for _ in range(100)]
    halves = [broker.connect(service(provider.url), "silent") for _ in range(100)]
    for half in halves:
        half.sendall(ASK[:40])
    assert broker.ask(service(provider.url), body="{}").status == 200
    for connection in silent + halves:
        connection.close()


def test_who_says_nothing_takes_no_room_from_a_neighbour(tmp_path: Path):
    """Connections beyond a sandbox's own are not counted among those of all."""
    path, used = str(tmp_path / "socket"), service("https://x.invalid")

    class Answering:
        async def handle(self, _: Any, exchange: Exchange) -> None:
            await exchange.answer(204, [("content-length", "0")])
            await exchange.finish()

    async def connect(sandbox: str, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(preamble.write(sandbox, used, refuse_tools=False) + request)
        return reader, writer

    async def serving() -> None:
        limits = BrokerLimits(connections=4, connections_each=2)
        server = BrokerServing(cast(Any, Answering()), limits)
        listening = await asyncio.get_running_loop().create_unix_server(server.from_sandboxes, path)
        first = [await connect("greedy", ASK) for _ in range(2)]
        assert [await reader.read(12) for reader, _ in first] == [b"HTTP/1.1 204"] * 2
        silent = [await connect("greedy", b"") for _ in range(100)]
        refused = await connect("greedy", ASK)
        assert (await refused[0].read(12)) in {b"HTTP/1.1 503", b""}
        neighbours = [await connect("neighbour", ASK) for _ in range(2)]
        assert [await reader.read(12) for reader, _ in neighbours] == [b"HTTP/1.1 204"] * 2
        for _, writer in [*first, *silent, *neighbours, refused]:
            writer.close()
        listening.close()

    asyncio.run(serving())


def test_a_sandbox_has_one_place_in_the_queue():
    queue, served = JudgeQueue(), list[str]()

    async def wait(sandbox: str) -> None:
        release = await queue.acquire(sandbox)
        served.append(sandbox)
        await asyncio.sleep(0)
        release()

    async def waiting_for_all() -> None:
        await asyncio.gather(*(wait(each) for each in ["greedy"] * 5 + ["neighbour"]))

    asyncio.run(waiting_for_all())
    assert served.index("neighbour") == 1
    assert len(served) == 6


def test_few_files_are_shared_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    assert for_this_process()[:2] == (480, 120)


@pytest.mark.long
def test_a_thousand_streams_at_once(broker: Running, provider: StandIn):
    _many(broker, provider, 1000)


def test_many_streams_at_once(broker: Running, provider: StandIn):
    _many(broker, provider, 200)


def _many(broker: Running, provider: StandIn, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    provider.pages["/v1/messages"] = waiting
    used, before = service(provider.url), memory_of(broker)
    ended = provider.ended
    streams = [broker.connect(used, "many") for _ in range(count)]
    try:
        for stream in streams:
            stream.sendall(ASK)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(begun, streams))
        assert (memory_of(broker) - before) / count < 300_000
    finally:
        for stream in streams:
            stream.close()
    assert provider.wait(lambda: provider.ended >= ended + count, 30)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
def test_beyond_the_limit_there_is_a_clear_answer(broker: Running, provider: StandIn):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    used = service(provider.url)
    held = [broker.connect(used, "greedy") for _ in range(1024)]
    for connection in held:
        connection.sendall(ASK)
        assert connection.recv(12) == b"HTTP/1.1 200"
    refused = broker.ask(used, body="{}", sandbox="greedy")
    assert (refused.status, refused.json["error"]["type"]) == (503, "overloaded_error")
    assert broker.ask(used, body="{}", sandbox="neighbour").status == 200
    for connection in held:
        connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
