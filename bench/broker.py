"""The broker: what it adds to a request, how many events it relays, and what an open stream costs."""

import http.client
import os
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trustme

from bench.timing import Effort, print_table
from tests.broker.running import Running, service
from tests.broker.standin import Call, StandIn

REQUESTS, EVENTS, STREAMS = 200, 20_000, 200
_DELTA = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a few words"}}'
_EVENT = b"event: content_block_delta\ndata: " + _DELTA + b"\n\n"
_ASK = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.belljar.internal\r\nContent-Length: 2\r\n\r\n{}"


def bench_broker(effort: Effort) -> None:
    """Measure a broker before a provider on loopback, over TLS."""
    with TemporaryDirectory(prefix="bench-") as directory, _provider(Path(directory)) as (provider, context):
        broker = Running(Path(directory), {"SSL_CERT_FILE": f"{directory}/ca.pem", "HTTPS_PROXY": ""})
        try:
            rows = [
                *_bench_latency(broker, provider, context, effort),
                *_bench_events(broker, provider),
                *_bench_streams(broker, provider),
            ]
        finally:
            broker.stop()
    print_table("Broker: a provider on loopback, over TLS", ("what", "measured"), rows)


@contextmanager
def _provider(directory: Path) -> Iterator[tuple[StandIn, ssl.SSLContext]]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with StandIn(context) as provider:
        yield provider, ssl.create_default_context(cafile=directory / "ca.pem")


def _bench_latency(
    broker: Running, provider: StandIn, context: ssl.SSLContext, effort: Effort
) -> Iterator[tuple[str, str]]:
    direct = http.client.HTTPSConnection("localhost", provider.port, context=context)
    plain, judged = broker.client(service(provider.url)), broker.client(service(provider.url), refuse_tools=True)
    times: dict[str, list[float]] = {"direct": [], "through": [], "judged": []}
    for _ in range(effort.rounds):
        for name, client in (("direct", direct), ("through", plain), ("judged", judged)):
            times[name] += [_first_byte(client) for _ in range(REQUESTS)]
    for client in (direct, plain, judged):
        client.close()
    alone, through, read = (median(times[name]) * 1000 for name in ("direct", "through", "judged"))
    yield "time to the first byte, direct (p50)", f"{alone:.2f} ms"
    yield "added by the broker (p50)", f"{through - alone:.2f} ms"
    yield "added where requests are judged (p50)", f"{read - alone:.2f} ms"


def _first_byte(client: http.client.HTTPConnection) -> float:
    started = time.perf_counter()
    client.request("POST", "/v1/messages", '{"model": "m", "messages": [{"role": "user", "content": "hello"}]}')
    response = client.getresponse()
    response.read(1)
    took = time.perf_counter() - started
    response.read()
    return took


def _bench_events(broker: Running, provider: StandIn) -> Iterator[tuple[str, str]]:
    async def page(call: Call) -> None:
        await call.stream()
        for _ in range(EVENTS):
            await call.chunk(_EVENT)
        await call.chunk(b"")

    provider.pages["/v1/messages"] = page
    before, started = _processor_seconds(broker), time.perf_counter()
    answer = broker.ask(service(provider.url), body="{}")
    took, used = time.perf_counter() - started, _processor_seconds(broker) - before
    provider.pages.clear()
    assert answer.body.count(_EVENT) == EVENTS
    yield "events relayed, one stream", f"{EVENTS / took:,.0f}/s"
    yield "processor time of an event", f"{used / EVENTS * 1e6:.0f} µs"


def _bench_streams(broker: Running, provider: StandIn) -> Iterator[tuple[str, str]]:
    async def page(call: Call) -> None:
        await call.stream()
        await call.chunk(_EVENT)
        await call.reader.read(1)

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    provider.pages["/v1/messages"] = page
    before = _memory(broker)
    streams = [broker.connect(service(provider.url), "bench") for _ in range(STREAMS)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_begin, streams))
    used = _memory(broker)
    for stream in streams:
        stream.close()
    provider.pages.clear()
    yield "memory at rest", f"{before / 1e6:.0f} MB"
    yield f"memory with {STREAMS} open streams", f"{used / 1e6:.0f} MB"


def _begin(stream: socket.socket) -> None:
    stream.sendall(_ASK)
    received = b""
    while _EVENT not in received:
        received += stream.recv(65536)


def _processor_seconds(broker: Running) -> float:
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(broker: Running) -> int:
    return int(Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
