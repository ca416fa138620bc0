"""A policy that changes while connections are open: what it denies is cut at once, what it grants is left alone."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

import pytest

from belljar.errors import BelljarError
from belljar.gateway.settings import read_settings
from belljar.gateway.upstream import proxy
from belljar.gateway.upstream.racing import HEAD_START, connect_any
from belljar.gateway.upstream.tunnel import open_tunnel
from belljar.linux.programs import run
from belljar.policy import to_name
from tests.gateway.serving import Serving, eventually, policy
from tests.universe import Contact, Sandbox, Universe, addresses
from tests.universe.clients import received
from tests.universe.zone import Manner, at
from tests.wire.hellos import browser_hello

BEFORE = """
mode: block-all
egress:
  allowed_domains: [plain.test, "plain.test:7", v4.test, "v4.test:7", "other.test:7", "*.silent.test", dead.test,
                    "slow.test:6100"]
  allowed_cidrs: [203.0.113.12]
"""
AFTER = """
mode: block-all
egress: {allowed_domains: ["other.test:7"]}
"""
DENIED_ADDRESS = BEFORE + "rules: [{name: no, action: deny, cidrs: [203.0.113.0/24]}]\n"
DENIED_MANY = BEFORE + "rules: [{name: no, action: deny, cidrs: [203.0.113.192/28]}]\n"


class Talk:
    """An open connection to something that answers."""

    def __init__(self, client: socket.socket, question: bytes = b"hello\n", answer: bytes = b"hello\n") -> None:
        self._client, self._question, self._answer = client, question, answer

    def say(self) -> None:
        self._client.sendall(self._question)

    def is_answered(self) -> bool:
        return self._client.recv(9999).endswith(self._answer)

    def goes_on(self) -> bool:
        self.say()
        return self.is_answered()

    def is_cut(self) -> bool:
        try:
            return socket.socket.recv(self._client, 1) is None  # below TLS, which takes a reset for an end
        except ConnectionResetError:
            return True


@contextmanager
def directly(sandbox: Sandbox, host: str = "v4.test") -> Iterator[Talk]:
    with sandbox.connect(host, addresses.ECHO) as client:
        yield Talk(client)


def to_an_address(sandbox: Sandbox) -> AbstractContextManager[Talk]:
    return directly(sandbox, "203.0.113.12")


@contextmanager
def by_connect(sandbox: Sandbox) -> Iterator[Talk]:
    with sandbox.connect("127.0.0.1", 3128) as client:
        client.sendall(b"CONNECT v4.test:7 HTTP/1.1\r\nHost: v4.test:7\r\n\r\n")
        assert b" 200 " in client.recv(999)
        yield Talk(client)


@contextmanager
def by_socks(sandbox: Sandbox) -> Iterator[Talk]:
    with sandbox.connect("127.0.0.1", 1080) as client:
        client.sendall(b"\x05\x01\x00")
        assert client.recv(2) == b"\x05\x00"
        client.sendall(b"\x05\x01\x00\x03\x07v4.test\x00\x07")
        assert client.recv(99)[1] == 0
        yield Talk(client)


@contextmanager
def in_plain_http(sandbox: Sandbox) -> Iterator[Talk]:
    with sandbox.connect("v4.test", addresses.HTTP) as client:
        yield Talk(client, b"GET /x HTTP/1.1\r\nHost: v4.test\r\n\r\n", b"v4.test /x\n")


@contextmanager
def in_tls(sandbox: Sandbox) -> Iterator[Talk]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        sandbox.connect("v4.test", addresses.HTTPS) as client,
        context.wrap_socket(client, server_hostname="v4.test") as inner,
    ):
        yield Talk(inner, b"GET /x HTTP/1.1\r\nHost: v4.test\r\n\r\n", b"v4.test /x\n")


@contextmanager
def black_hole(universe: Universe, network: str) -> Iterator[None]:
    """Let packets to a network vanish, for the length of a block."""
    universe.internet.call(run, "ip", "route", "add", "blackhole", network)
    try:
        yield
    finally:
        universe.internet.call(run, "ip", "route", "delete", "blackhole", network)


WAYS = [directly, to_an_address, by_connect, by_socks, in_plain_http, in_tls]


@pytest.fixture
def served(serving, universe):
    with serving.sandbox(BEFORE) as (sandbox, jar):
        yield sandbox, jar


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_what_is_denied_now_is_cut_and_what_is_granted_is_not(serving, universe, served, way):
    sandbox, jar = served
    with way(sandbox) as talk, directly(sandbox, "other.test") as control:
        assert talk.goes_on()
        assert control.goes_on()
        assert serving.change_policy(jar, AFTER) == 1
        assert talk.is_cut()
        assert control.goes_on()
        assert jar.observer.denials()[0].reason in ("not_allowed_domain", "not_allowed_address")
        assert serving.count(jar, "belljar_flows_cut_total") == 1
        assert serving.count(jar, "belljar_flows_closed_total", how="cut") == 1
        universe.forget()
        with pytest.raises((OSError, AssertionError)), way(sandbox) as again:
            assert again.goes_on()
        assert universe.wire.contacts() == set()
        assert control.goes_on()


def test_the_generation_is_acknowledged(serving, served):
    sandbox, jar = served
    assert serving.count(jar, "belljar_policy_generation") == 1
    serving.change_policy(jar, AFTER)
    assert jar.generation == 2
    assert serving.count(jar, "belljar_policy_generation") == 2
    with sandbox.connect(addresses.EVIL, addresses.HTTP) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        assert b'"generation": 2' in received(client)


def test_many_flows_are_cut_together(serving, served):
    sandbox, jar = served
    with ExitStack() as stack:
        talks = [stack.enter_context(directly(sandbox)) for _ in range(50)]
        assert all(talk.goes_on() for talk in talks)
        assert serving.change_policy(jar, AFTER) == 50
        assert all(talk.is_cut() for talk in talks)
        serving.wait_until_idle(jar)


def test_nothing_passes_that_was_on_its_way_when_the_policy_changed(serving, served):
    sandbox, jar = served
    with ExitStack() as stack:
        talks = [stack.enter_context(directly(sandbox)) for _ in range(50)]
        control = stack.enter_context(directly(sandbox, "other.test"))
        assert all(talk.goes_on() for talk in (*talks, control))

        def say_and_change() -> Any:
            for talk in (*talks, control):
                talk.say()
            return serving.gateway.change_policy(jar.id, policy(AFTER, generation=2))

        assert serving.do(say_and_change) == 50
        assert control.is_answered()
        assert all(talk.is_cut() for talk in talks)
        eventually(lambda: serving.count(jar, "belljar_flows_closed_total", how="cut") == 50)
        assert serving.count(jar, "belljar_bytes_total", direction="up") == 50 * len(b"hello\n")


def test_a_bug_in_one_flow_does_not_save_the_others(serving, served, monkeypatch):
    sandbox, jar = served
    with ExitStack() as stack:
        talks = [stack.enter_context(directly(sandbox)) for _ in range(5)]
        assert all(talk.goes_on() for talk in talks)
        monkeypatch.setattr(jar.observer, "flow_denied", lambda _: 1 // 0)
        assert serving.change_policy(jar, AFTER) == 5
        assert all(talk.is_cut() for talk in talks)
        assert serving.count(jar, "belljar_bugs_total") == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mode: block-al",
        "mode: allow-all\negress: {allowed_domain: [x.test]}",
        "- a list",
        "mode: block-all\nmode: x",
    ],
)
def test_an_invalid_policy_changes_nothing(serving, served, text):
    sandbox, jar = served
    in_force = jar.policy
    with directly(sandbox) as talk:
        assert talk.goes_on()
        with pytest.raises(BelljarError):
            serving.change_policy(jar, text)
        assert jar.policy is in_force
        assert talk.goes_on()
        with pytest.raises(socket.gaierror):
            sandbox.connect("evil.test", addresses.HTTP)


MUTATIONS = [
    "allow_private: true",
    "host_ports: [5432]",
    "rules: [{name: more, action: deny, domains: [x.test]}]",
    "rules: [{name: more, action: allow, domains: [x.test]}]",
    "egress: {allowed_domains: ['plain.test'], allowed_ports: [80, 443]}",
    "egress: {allowed_domains: ['plain.test', 'another.test']}",
    "egress: {allowed_domains: ['plain.test'], allowed_cidrs: ['203.0.113.12']}",
    "egress: {allowed_domains: ['plain.test'], denied_domains: ['x.test'], denied_ports: [25]}",
    "egress: {allowed_domains: ['plain.test'], denied_cidrs: ['192.0.2.9']}",
]


def test_a_change_of_anything_else_opens_nothing(serving, universe):
    """Each field in turn is changed while the sandbox runs, and what was closed is tried again after each."""
    base = "mode: block-all\negress: {allowed_domains: ['plain.test']}\n"
    with serving.sandbox(base) as (sandbox, jar):
        [virtual] = sandbox.look_up("plain.test")[:1]
        for mutation in MUTATIONS:
            text = f"mode: block-all\n{mutation}\n" if "egress" in mutation else base + mutation
            serving.change_policy(jar, text)
            with pytest.raises(socket.gaierror):
                sandbox.look_up("evil.test")
            for hello in (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", browser_hello(b"evil.test")):
                for host in (addresses.EVIL, virtual):
                    with sandbox.connect(host, addresses.HTTP) as client:
                        client.sendall(hello)
                        assert b"200 OK" not in received(client)
            with sandbox.connect(virtual, addresses.HTTP) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n")
                assert b"200 OK" in received(client)
        assert jar.generation == 1 + len(MUTATIONS)
        assert not [seen for seen in universe.internet.seen if "evil" in seen.what or seen.address == addresses.EVIL]
        assert addresses.EVIL not in {contact.address for contact in universe.wire.contacts()}


class TestWaiting:
    """Those whose connection is not made yet are bound by the policy of the moment it would be."""

    def test_for_the_client_to_say_whom_it_wants(self, serving, universe, served):
        sandbox, jar = served
        with sandbox.connect(addresses.EVIL, addresses.HTTPS) as client:
            client.sendall(browser_hello(b"plain.test")[:50])
            eventually(lambda: jar.handshakes == 1)
            serving.change_policy(jar, AFTER)
            client.sendall(browser_hello(b"plain.test")[50:])
            assert client.recv(99)[0] == 21, "an alert"
        assert universe.wire.contacts() == set()

    def test_for_the_client_to_say_whom_it_wants_in_a_tunnel(self, serving, universe, served):
        sandbox, jar = served
        with sandbox.connect("127.0.0.1", 3128) as client:
            client.sendall(b"CONNECT plain.test:443 HT")
            eventually(lambda: jar.handshakes == 1)
            serving.change_policy(jar, AFTER)
            client.sendall(b"TP/1.1\r\nHost: plain.test:443\r\n\r\n")
            assert b" 403 " in received(client)
        assert universe.wire.contacts() == set()

    def test_for_the_resolver(self, serving, universe, served):
        sandbox, jar = served
        universe.zone["*.silent.test"] = at(manner=Manner.SILENT)
        with sandbox.connect("x.silent.test", addresses.HTTP) as client:
            eventually(universe.wire.contacts)
            assert serving.change_policy(jar, AFTER) == 1
            assert Talk(client).is_cut()
        assert {contact.port for contact in universe.wire.contacts()} == {53}

    def test_for_the_destination(self, serving, universe, served):
        sandbox, jar = served
        with sandbox.connect("dead.test", addresses.HTTP) as client:
            eventually(lambda: Contact("tcp", addresses.BLACK_HOLE, 80) in universe.wire.contacts())
            assert serving.change_policy(jar, AFTER) == 1
            assert Talk(client).is_cut()
            serving.wait_until_idle(jar)

    def test_a_destination_whose_address_was_denied_is_dialled_no_more(self, serving, universe, served):
        """By its name alone the flow is still granted; by the address that the dial has found it is not any more."""
        sandbox, jar = served
        universe.zone["slow.test"] = at(addresses.OTHER_PUBLIC)
        with ExitStack() as stack:
            server = stack.enter_context(universe.internet.call(socket.create_server, ("", 6100), backlog=0))
            queue = stack.enter_context(universe.internet.call(socket.create_connection, ("127.0.0.1", 6100)))
            client = stack.enter_context(sandbox.connect("slow.test", 6100))
            client.sendall(b"secret")
            eventually(lambda: Contact("tcp", addresses.OTHER_PUBLIC, 6100) in universe.wire.contacts())
            assert serving.change_policy(jar, DENIED_ADDRESS) == 1
            assert jar.decide(to_name("slow.test", 6100)).allowed
            assert Talk(client).is_cut()
            server.accept()[0].close()  # the one from the queue makes room
            server.settimeout(1.5)  # the kernel tries again after one second
            with pytest.raises(TimeoutError):
                server.accept()
            assert jar.observer.denials()[0].rule == "rules[0]"
            queue.close()

    @pytest.mark.parametrize("proxy", ["", f"http://cat:t0p@198.51.100.80:{addresses.SILENT}"], ids=["", "by proxy"])
    def test_none_of_many_addresses_is_dialled_after_they_were_denied(self, universe, proxy):
        many = [f"203.0.113.{number}" for number in range(192, 204)]
        universe.zone["slow.test"] = at(*many)
        settings = read_settings({"BELLJAR_UPSTREAM_PROXY": proxy, "BELLJAR_NO_PROXY": "other.test"} if proxy else {})
        with (
            black_hole(universe, "203.0.113.192/28"),
            closing(Serving(universe, settings)) as serving,
            serving.sandbox(BEFORE) as (sandbox, jar),
            directly(sandbox, "other.test") as control,
            sandbox.connect("slow.test", 6100) as client,
        ):
            dialled = Contact("tcp", "198.51.100.80", addresses.SILENT) if proxy else Contact("tcp", many[0], 6100)
            eventually(lambda: dialled in universe.wire.contacts())
            assert serving.change_policy(jar, DENIED_MANY) == 1
            universe.forget()
            assert Talk(client).is_cut()
            time.sleep(3 * HEAD_START)
            assert universe.wire.contacts() == set()
            assert universe.internet.seen == []
            assert control.goes_on()
            with directly(sandbox, "other.test") as another:
                assert another.goes_on()

    def test_an_upstream_proxy_is_asked_for_nothing_after_the_name_was_denied(self, universe, monkeypatch):
        """Some of many dials have just reached the proxy when the policy changes, and cutting them takes many turns."""
        asked, reached, settings = [], [], read_settings({"BELLJAR_UPSTREAM_PROXY": "http://198.51.100.80:3128"})
        universe.zone["two.silent.test"] = at(manner=Manner.SILENT)

        async def connect_and_tell(*arguments: Any) -> Any:
            reached.append(True)
            if len(reached) == 60:
                serving.loop.call_from_thread(change)
            return await connect_any(*arguments)

        def ask_and_tell(stream: Any, dialogue: Any) -> Any:
            asked.append(jar.generation)
            return open_tunnel(stream, dialogue)

        def change() -> None:
            assert serving.gateway.change_policy(jar.id, policy(AFTER, generation=2)) == 100

        monkeypatch.setattr(proxy, "connect_any", connect_and_tell)
        monkeypatch.setattr(proxy, "open_tunnel", ask_and_tell)
        with ExitStack() as stack:
            serving = stack.enter_context(closing(Serving(universe, settings)))
            sandbox, jar = stack.enter_context(serving.sandbox(BEFORE))
            clients = [stack.enter_context(sandbox.connect("two.silent.test", 80)) for _ in range(100)]
            eventually(lambda: len(jar.flows) == 100)
            universe.zone["two.silent.test"] = at(addresses.PUBLIC, addresses.OTHER_PUBLIC)  # when it is asked again
            assert all(Talk(client).is_cut() for client in clients)
            serving.wait_until_idle(jar)
            assert jar.generation == 2
            assert asked.count(2) == 0
            with directly(sandbox, "other.test") as control:
                assert control.goes_on()
            assert asked.count(2) == 1


def test_a_closed_sandbox_is_closed_for_those_who_were_waiting(serving, universe):
    """Nobody who came in before may go on after."""
    with serving.sandbox(BEFORE) as (sandbox, jar):
        client = sandbox.connect(addresses.EVIL, addresses.HTTPS)
        client.sendall(browser_hello(b"plain.test")[:50])
        eventually(lambda: jar.handshakes == 1)
    with client:
        assert Talk(client).is_cut()
    serving.wait_until_idle(jar)
    assert universe.wire.contacts() == set()
