"""Limits: what is beyond them is refused and counted, and nobody else notices. So does nobody notice a misfortune."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import dns.rcode
import pytest

from belljar.gateway.tcp import transparent
from tests.gateway.connections import reset
from tests.gateway.serving import eventually
from tests.universe import Sandbox, Universe, addresses
from tests.universe.clients import fetch
from tests.universe.zone import Manner, at
from tests.wire.hellos import browser_hello

POLICY = """
mode: block-all
egress:
  allowed_domains: [plain.test, "plain.test:7", "plain.test:19", "plain.test:22", "plain.test:6001", "plain.test:8099",
                    "*.wild.test", "*.silent.test", dead.test]
"""
HEADS = 8099
DENIED = addresses.EVIL
HELLO = browser_hello(b"plain.test")


@pytest.fixture
def other(serving, universe):
    """Another sandbox; whatever happens, it goes on."""
    with serving.sandbox(POLICY) as (sandbox, _jar), sandbox.connect("plain.test", addresses.ECHO) as open_flow:
        open_flow.sendall(b"before")
        assert open_flow.recv(99) == b"before"
        yield sandbox
        open_flow.sendall(b"after")
        assert open_flow.recv(99) == b"after"
        echoes(sandbox)


def echoes(sandbox: Sandbox) -> None:
    """Check that a new connection works."""
    with sandbox.connect("plain.test", addresses.ECHO) as client:
        client.sendall(b"hello")
        assert client.recv(99) == b"hello"


def is_reset(client: socket.socket) -> bool:
    try:
        return client.recv(1) is None
    except ConnectionResetError:
        return True


def is_refused(sandbox: Sandbox, host: str, port: int) -> bool:
    """Tell whether a new connection is reset; that may be seen when it is made, or later."""
    try:
        with sandbox.connect(host, port) as client:
            return is_reset(client)
    except ConnectionResetError:
        return True


@contextmanager
def many(sandbox: Sandbox, count: int, host: str, port: int) -> Iterator[list[socket.socket]]:
    """Make so many connections, or as many as are not refused."""
    address = sandbox.look_up(host)[0] if host.endswith(".test") else host
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            with suppress(ConnectionResetError):
                clients.append(stack.enter_context(sandbox.connect(address, port)))
        yield clients


@contextmanager
def serving_heads(universe: Universe, *pieces: bytes) -> Iterator[None]:
    """Have a server in the internet say something to whoever asks, piece by piece for as long as it is listened to."""

    def say(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65536)
            for piece in pieces:
                client.sendall(piece)
                client.settimeout(0.02)
                with suppress(TimeoutError):
                    client.recv(1)
            client.settimeout(None)
            client.recv(1)

    def listen() -> None:
        with suppress(OSError):
            while True:
                Thread(target=say, args=(listener.accept()[0],), daemon=True).start()

    where = (addresses.PUBLIC, HEADS)
    with universe.in_internet(lambda: socket.create_server(where)) as listener:
        accepting = Thread(target=listen, daemon=True)
        accepting.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def what_comes_back(sandbox: Sandbox) -> bytes:
    """Return all that the server of heads has said when the connection ends, in whatever way."""
    said = b""
    with sandbox.connect("plain.test", HEADS) as client, suppress(ConnectionResetError):
        client.sendall(b"GET / HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n" % HEADS)
        while more := client.recv(65536):
            said += more
    return said


class TestHeadsOfServers:
    @pytest.mark.parametrize(
        "said",
        [
            b"HTTP/1.1 200 OK\r\nx:" + b" " * 120_000 + b"\0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nx:" + b" a" * 60_000 + b"\0\r\n\r\n",
            b"HTTP/1.1 100\n\n" * 40_000,
        ],
        ids=["blanks", "words", "interim"],
    )
    def test_no_head_keeps_anybody_waiting(self, serving, other, universe, said):
        with serving.sandbox(POLICY) as (sandbox, jar), serving_heads(universe, said):
            assert len(what_comes_back(sandbox)) < len(said)
            echoes(other)
            serving.wait_until_idle(jar)

    def test_a_head_with_many_blanks_arrives(self, serving, universe):
        said = b"HTTP/1.1 200 OK\r\nx:" + b" " * 60_000 + b"y\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
        with serving.sandbox(POLICY) as (sandbox, _jar), serving_heads(universe, said):
            assert what_comes_back(sandbox) == said

    def test_a_part_of_a_head_counts_as_what_is_held(self, serving, other, universe):
        with (
            serving.sandbox(POLICY, buffered_bytes=40_000) as (sandbox, jar),
            serving_heads(universe, b"HTTP/1.1 200 OK\r\nx:" + b"y" * 30_000),
        ):
            assert len(what_comes_back(sandbox)) < 30_000
            assert serving.count(jar, "belljar_limits_reached_total", limit="buffered_bytes") == 1
            serving.wait_until_idle(jar)
            assert jar.buffers.held == 0

    def test_a_head_that_comes_byte_by_byte_has_so_much_time_as_a_whole(self, serving, other, universe):
        with (
            serving.sandbox(POLICY, first_bytes_seconds=0.1) as (sandbox, jar),
            serving_heads(universe, b"HTTP/1.1 200 OK\r\nx:", *[b"y"] * 100_000),
        ):
            assert len(what_comes_back(sandbox)) < 100_000
            serving.wait_until_idle(jar)


class TestLimits:
    def test_connections(self, serving, other):
        with serving.sandbox(POLICY, connections=3) as (sandbox, jar):
            with many(sandbox, 3, "plain.test", addresses.ECHO) as clients:
                assert is_refused(sandbox, "plain.test", addresses.ECHO)
                assert serving.count(jar, "belljar_limits_reached_total", limit="connections") == 1
                for client in clients:
                    client.sendall(b"x")
                    assert client.recv(1) == b"x"
            serving.wait_until_idle(jar)
            echoes(sandbox)

    def test_clients_that_are_being_turned_away_count_as_well(self, serving, other):
        with serving.sandbox(POLICY, connections=3) as (sandbox, jar):
            with many(sandbox, 3, DENIED, addresses.HTTP):
                assert is_refused(sandbox, "plain.test", addresses.ECHO)
            serving.wait_until_idle(jar)
            echoes(sandbox)

    def test_handshakes(self, serving, other):
        with serving.sandbox(POLICY, handshakes=2) as (sandbox, jar):
            with many(sandbox, 2, DENIED, addresses.HTTPS):
                eventually(lambda: jar.handshakes == 2)
                assert is_refused(sandbox, addresses.PUBLIC, addresses.HTTPS)
                assert serving.count(jar, "belljar_limits_reached_total", limit="handshakes") == 1
            serving.wait_until_idle(jar)
            echoes(sandbox)

    @pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHo"], ids=["nothing", "TLS", "HTTP"])
    def test_who_has_to_say_whom_it_wants_has_so_much_time(self, serving, other, universe, said):
        with (
            serving.sandbox(POLICY, first_bytes_seconds=0.1) as (sandbox, jar),
            sandbox.connect(DENIED, addresses.HTTPS) as client,
        ):
            client.sendall(said)
            assert is_reset(client)
            assert [denial.reason for denial in jar.observer.denials()] == ["not_allowed_address"]

    def test_half_a_sentence_has_so_much_time_but_silence_is_no_sentence(self, serving, other, universe):
        with (
            serving.sandbox(POLICY, first_bytes_seconds=0.1) as (sandbox, _jar),
            sandbox.connect("plain.test", addresses.ECHO) as silent,
            sandbox.connect("plain.test", addresses.ECHO) as typing,
            sandbox.connect("plain.test", addresses.ECHO) as halfway,
        ):
            typing.sendall(b"PI")
            assert typing.recv(2) == b"PI"
            halfway.sendall(HELLO[:20])
            assert is_reset(halfway)
            for client in (silent, typing):
                client.sendall(b"NG\n")
                assert client.recv(3) == b"NG\n"

    def test_one_byte_at_a_time_does_not_win_time(self, serving, other, universe):
        with (
            serving.sandbox(POLICY, first_bytes_seconds=0.2) as (sandbox, _jar),
            sandbox.connect("plain.test", addresses.HTTPS) as client,
        ):
            client.settimeout(0.02)
            for byte in HELLO:
                try:
                    client.sendall(bytes([byte]))
                    assert client.recv(1) != b""
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                raise AssertionError("it was never told to hurry up")

    def test_dns_rate(self, serving, other):
        with serving.sandbox(POLICY, dns_per_second=1) as (sandbox, jar):
            codes = {sandbox.resolve("plain.test").rcode() for _ in range(5)}
            assert dns.rcode.SERVFAIL in codes
            assert serving.count(jar, "belljar_limits_reached_total", limit="dns_per_second") >= 3
            assert other.resolve("plain.test").rcode() == dns.rcode.NOERROR

    @pytest.mark.parametrize("buffered_bytes", [0, 64 << 20], ids=["no budget", "a large budget"])
    def test_slow_readers_hold_up_nobody_and_lose_nothing(self, serving, other, buffered_bytes):
        """Beyond the budget for bytes on their way, connections go on with a page each."""
        with (
            serving.sandbox(POLICY, buffered_bytes=buffered_bytes) as (sandbox, _jar),
            many(sandbox, 20, "plain.test", addresses.STREAM) as lazy,
        ):
            for client in lazy:
                client.sendall(b"go on\n")
            echoes(sandbox)
            for client in lazy:
                with client.makefile("rb") as stream:
                    assert stream.read(1 << 20) == bytes(1 << 20)

    def test_connections_of_the_greedy_do_not_use_up_the_descriptors(self, serving, other):
        budget, free = serving.gateway._budget, serving.gateway._budget.free
        with serving.sandbox(POLICY) as (sandbox, jar):
            serving.do(lambda: setattr(budget, "free", 60))
            try:
                with many(sandbox, 40, "plain.test", addresses.ECHO):
                    eventually(lambda: serving.count(jar, "belljar_limits_reached_total", limit="descriptors") > 0)
                    assert 5 < jar.connections < 25
                    echoes(other)
                serving.wait_until_idle(jar)
            finally:
                serving.do(lambda: setattr(budget, "free", budget.free + free - 60))
            echoes(sandbox)


class TestMisfortunes:
    def test_a_destination_that_never_answers(self, serving, other):
        with serving.sandbox(POLICY, dial_seconds=0.2) as (sandbox, jar):
            with sandbox.connect("dead.test", addresses.HTTP) as client:
                assert " 502 " in fetch(client, "/", "dead.test")[0]
            serving.wait_until_idle(jar)
            echoes(sandbox)

    def test_a_resolver_that_never_answers(self, serving, other, universe):
        """However many names one sandbox waits for, another's are found."""
        universe.zone["*.silent.test"] = at(manner=Manner.SILENT)
        with serving.sandbox(POLICY, dial_seconds=0.5) as (sandbox, jar), ExitStack() as stack:
            for number in range(50):
                stack.enter_context(sandbox.connect(f"n{number}.silent.test", addresses.HTTP))
            with other.connect("never-asked-before.wild.test", addresses.HTTP) as client:
                assert " 200 " in fetch(client, "/", "never-asked-before.wild.test")[0]
            stack.close()
            serving.wait_until_idle(jar)
            echoes(sandbox)

    def test_a_bug_is_the_end_of_one_connection(self, serving, other, monkeypatch, caplog):
        """It is logged, counted and told; and nothing stays open."""

        def broken(*_):
            raise ZeroDivisionError

        with serving.sandbox(POLICY) as (sandbox, jar), sandbox.connect("plain.test", addresses.ECHO) as old:
            old.sendall(b"x")
            assert old.recv(1) == b"x"
            with monkeypatch.context() as patch:
                patch.setattr(transparent, "original_destination", broken)
                assert is_refused(sandbox, "plain.test", addresses.ECHO)
                eventually(lambda: jar.connections == 1)
            old.sendall(b"y")
            assert old.recv(1) == b"y"
            echoes(sandbox)
            assert serving.count(jar, "belljar_bugs_total") == 1
        assert "ZeroDivisionError" in caplog.text

    def test_a_bug_in_a_flow_is_its_end_and_not_that_of_others(self, serving, other, universe, monkeypatch):
        def broken(*_):
            raise ZeroDivisionError

        with serving.sandbox(POLICY) as (sandbox, jar):
            with monkeypatch.context() as patch:
                patch.setattr("belljar.gateway.tcp.flow.claimed_by", broken)
                with sandbox.connect("plain.test", addresses.ECHO) as unlucky:
                    unlucky.sendall(b"hello\n")
                    assert is_reset(unlucky)
            serving.wait_until_idle(jar)
            assert serving.count(jar, "belljar_flows_closed_total", how="failed") == 1
            echoes(sandbox)

    def test_a_bug_in_the_answer_to_a_question(self, serving, other, universe, monkeypatch):
        with serving.sandbox(POLICY) as (sandbox, jar):
            with monkeypatch.context() as patch:
                patch.setattr("belljar.gateway.dns.service.parse_query", lambda _: 1 // 0)
                with sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
                    client.sendto(b"anything", ("127.0.0.1", addresses.DNS))
                eventually(lambda: serving.count(jar, "belljar_bugs_total") == 1)
            echoes(sandbox)


def greet_socks(client: socket.socket) -> None:
    client.sendall(b"\x05\x01\x00")
    assert client.recv(2) == b"\x05\x00"


def say(data: bytes) -> Callable[[socket.socket], None]:
    return lambda client: client.sendall(data)


def nothing(_client: socket.socket) -> None:
    pass


def exchange(client: socket.socket) -> None:
    client.sendall(b"x\n")
    assert client.recv(2) == b"x\n"


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


STAGES = {
    "saying nothing to an address": (DENIED, 443, nothing),
    "in the middle of a hello to an address": (DENIED, 443, say(HELLO[:30])),
    "being denied": (DENIED, 80, say(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")),
    "while the name is looked up": ("n.silent.test", 80, nothing),
    "while it is dialled": ("dead.test", 80, nothing),
    "before its first byte": ("plain.test", addresses.ECHO, nothing),
    "in the middle of its first line": ("plain.test", addresses.ECHO, say(b"GET / HT")),
    "in the middle of a hello": ("plain.test", 443, say(HELLO[:30])),
    "after an exchange": ("plain.test", addresses.ECHO, exchange),
    "after it has half-closed": ("plain.test", addresses.SILENT, half_close),
    "in the middle of a download": ("plain.test", addresses.STREAM, say(b"go on\n")),
    "while its request is thought about": ("plain.test", 80, say(b"GET /hang HTTP/1.1\r\nHost: plain.test\r\n\r\n")),
    "in the middle of a response": ("plain.test", 80, say(b"GET /stall HTTP/1.1\r\nHost: plain.test\r\n\r\n")),
    "in the middle of its request": (
        "plain.test",
        80,
        say(b"POST /hang HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 99\r\n\r\nhalf"),
    ),
    "in the middle of a request to the proxy": ("127.0.0.1", 3128, say(b"CONNECT plain.te")),
    "in a tunnel": ("127.0.0.1", 3128, say(b"CONNECT plain.test:7 HTTP/1.1\r\nHost: plain.test:7\r\n\r\n")),
    "in the middle of SOCKS": ("127.0.0.1", 1080, greet_socks),
    "asking for DNS": ("127.0.0.1", 53, say(struct.pack("!H", 99) + b"half a question")),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_that_vanishes_leaves_nothing_behind(serving, universe, stage):
    universe.zone["*.silent.test"] = at(manner=Manner.SILENT)
    host, port, act = STAGES[stage]
    with serving.sandbox(POLICY, dial_seconds=0.5, first_bytes_seconds=0.5) as (sandbox, jar):
        client = sandbox.connect(host, port)
        act(client)
        reset(client)
        echoes(sandbox)  # by then, the sandbox has had turns in which to accept the one before
        serving.wait_until_idle(jar)
        eventually(lambda: serving.do(lambda: jar.names._connections == {}))
