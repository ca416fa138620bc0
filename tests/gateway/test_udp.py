"""UDP out of a sandbox: what clients in it see, and what arrives outside."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import dns.message
import dns.query
import pytest

from belljar.gateway.audit.log import AuditLog
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.settings import Exceptions, Settings
from belljar.gateway.udp.flow import ANSWERED_SECONDS, UNANSWERED_SECONDS
from belljar.gateway.upstream.proxyurl import parse_proxy
from belljar.linux.nft import sealed
from belljar.linux.programs import run
from belljar.linux.transparent import make_transparent
from tests.gateway.driving import open_descriptors
from tests.gateway.serving import PATIENCE, Serving, eventually, policy
from tests.universe import Sandbox, Universe
from tests.universe.addresses import (
    BLACK_HOLE,
    CLOSED,
    ECHO,
    EVIL,
    EVIL_V6,
    GATEWAY,
    GATEWAY_V6,
    HTTPS,
    METADATA,
    OTHER_PUBLIC,
    PRIVATE,
    PRIVATE_V6,
    PUBLIC,
    PUBLIC_V6,
)
from tests.universe.zone import Manner, at

INET, INET6, DATAGRAM = socket.AF_INET, socket.AF_INET6, socket.SOCK_DGRAM
IP_FREEBIND = 15

ALLOW_ALL = "mode: allow-all"
BLOCK_ALL = (
    f"mode: block-all\negress: {{allowed_domains: [plain.test], allowed_cidrs: [{PUBLIC}], allowed_ports: [7/udp]}}"
)
DENYING = f"""
mode: allow-all
egress:
  denied_domains: [evil.test]
  denied_cidrs: ["{EVIL}", "{EVIL_V6}"]
  denied_ports: [9999/udp]
"""


class Bench:
    """A gateway whose clock can be put forward, and whose audit log can be read."""

    def __init__(self, universe: Universe, settings: Settings) -> None:
        self._log, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._audit = AuditLog(writer)
        self._ahead = 0.0
        self.serving = Serving(universe, settings, self._audit)
        self.serving.loop.clock = lambda: time.monotonic() + self._ahead
        self.sandbox = self.serving.sandbox

    def advance(self, seconds: float) -> None:
        """Put the clock forward, and wait until every sandbox has had its turn to do what is due by then."""
        self.serving.do(lambda: self._put_forward(seconds))  # between turns: nobody is to be charged for that time
        eventually(lambda: self.serving.do(self._nothing_is_due))

    def _put_forward(self, seconds: float) -> None:
        self._ahead += seconds

    def _nothing_is_due(self) -> bool:
        loop = self.serving.loop
        return not loop._line and loop._timers.seconds_to_next(loop.clock()) != 0

    def log(self) -> list[dict[str, Any]]:
        """Return the lines about flows since the last time."""
        try:
            lines = [json.loads(line) for line in os.read(self._log, 1 << 20).splitlines()]
        except BlockingIOError:
            return []
        return [line for line in lines if line["event"].startswith("flow.")]

    def close(self) -> None:
        self.serving.close()
        self._audit.close()
        os.close(self._log)


@contextmanager
def at_work(universe: Universe, settings: Settings | None = None) -> Iterator[Bench]:
    with closing(Bench(universe, settings or Settings())) as bench:
        yield bench


@pytest.fixture
def bench(universe):
    with at_work(universe) as bench:
        yield bench


def client(sandbox: Sandbox, address: str, port: int = ECHO) -> socket.socket:
    """Make a socket inside, connected as most clients' are: errors reach it, and answers from elsewhere do not."""
    made = sandbox.make_socket(INET6 if ":" in address else INET, DATAGRAM)
    made.connect((address, port))
    return made


def exchange(made: socket.socket, data: bytes = b"hello") -> bytes:
    made.send(data)
    return made.recv(65536)


def echoes(sandbox: Sandbox, address: str, port: int = ECHO) -> bool:
    with client(sandbox, address, port) as made:
        return exchange(made) == b"hello"


def assert_refused(made: socket.socket) -> None:
    """Check that a client is told at once, by an ICMP error."""
    made.send(b"let me out")
    with pytest.raises(ConnectionRefusedError):
        made.recv(9)


def assert_closed(sandbox: Sandbox, address: str, port: int = ECHO) -> None:
    with client(sandbox, address, port) as made:
        assert_refused(made)


def datagrams(universe: Universe) -> set[tuple[str, int]]:
    """Return where datagrams arrived, other than questions to the nameserver."""
    contacts = universe.wire.contacts()
    return {(contact.address, contact.port) for contact in contacts if contact.protocol == "udp" and contact.port != 53}


def reasons(jar: SandboxState) -> list[str]:
    return [denial.reason for denial in jar.observer.denials()]


# What works.


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_V6])
@pytest.mark.parametrize("port", [ECHO, HTTPS])
def test_an_answer_comes_from_the_address_that_was_asked(bench, address, port):
    family = INET6 if ":" in address else INET
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), sandbox.make_socket(family, DATAGRAM) as made:
        for data in (b"one", b"", b"three"):
            made.sendto(data, (address, port))
            answer, source = made.recvfrom(65536)
            assert (answer, source[:2]) == (data, (address, port))


@pytest.mark.parametrize(("name", "arrives_at"), [("v4.test", {PUBLIC}), ("v6.test", {PUBLIC_V6})])
@pytest.mark.parametrize("kind", ["A", "AAAA"])
def test_a_name_leads_to_what_the_gateway_has_resolved_it_to(bench, universe, name, kind, arrives_at):
    """Whichever family the client chose: each name has virtual addresses of both."""
    with bench.sandbox(ALLOW_ALL) as (sandbox, _):
        [virtual] = [text for text in sandbox.look_up(name) if (":" in text) == (kind == "AAAA")]
        assert echoes(sandbox, virtual, HTTPS)
    assert datagrams(universe) == {(address, HTTPS) for address in arrives_at}


def test_a_name_with_addresses_of_both_families_leads_to_that_of_the_clients(bench, universe):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _):
        four, six = sandbox.look_up("plain.test")
        assert echoes(sandbox, four)
        assert datagrams(universe) == {(PUBLIC, ECHO)}
        assert echoes(sandbox, six)
        assert datagrams(universe) == {(PUBLIC, ECHO), (PUBLIC_V6, ECHO)}


@pytest.mark.parametrize("size", [0, 1, 1472, 1473, 9000, 65000])
@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_V6])
def test_datagrams_of_every_size_get_through_and_back(bench, address, size):
    data = os.urandom(size)
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), client(sandbox, address) as made:
        assert exchange(made, data) == data


def test_many_clients_and_destinations_are_kept_apart(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar), ExitStack() as stack:
        places = [f"203.0.113.{number}" for number in range(1, 30)] + [
            f"2001:db8::{number:x}" for number in range(1, 30)
        ]
        clients = [stack.enter_context(client(sandbox, place)) for place in places * 2]
        for index, made in enumerate(clients):
            made.send(b"%d" % index)
        assert [made.recv(99) for made in clients] == [b"%d" % index for index in range(len(clients))]
        assert len(jar.flows) == len(clients)


def test_one_socket_may_speak_with_many(bench):
    places = [f"203.0.113.{number}" for number in range(1, 30)]
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), sandbox.make_socket(INET, DATAGRAM) as made:
        for place in places:
            made.sendto(place.encode(), (place, ECHO))
        answers = [made.recvfrom(99) for _ in places]
    assert {(data.decode(), source) for data, (source, _) in answers} == {(place, place) for place in places}


def test_an_agents_own_server_on_the_same_port_is_not_in_the_way(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), sandbox.make_socket(INET, DATAGRAM) as server:
        server.bind(("0.0.0.0", ECHO))
        assert echoes(sandbox, PUBLIC)
        server.sendto(b"from the port itself", (PUBLIC, ECHO))
        assert server.recvfrom(99) == (b"from the port itself", (PUBLIC, ECHO))


def test_answers_are_taken_from_the_asked_address_and_port_alone(bench, universe):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), ExitStack() as stack:
        server, same_address, same_port = (
            stack.enter_context(outside(universe, address, port))
            for address, port in ((PUBLIC, 7777), (PUBLIC, 7778), (OTHER_PUBLIC, 7777))
        )
        made = stack.enter_context(client(sandbox, PUBLIC, 7777))
        made.send(b"question")
        _, gateway = server.recvfrom(99)
        for stranger in (same_address, same_port):
            stranger.sendto(b"forgery", gateway)
        server.sendto(b"answer", gateway)
        assert made.recv(99) == b"answer"


def outside(universe: Universe, address: str, port: int) -> socket.socket:
    """Make a socket in the internet."""

    def make() -> socket.socket:
        made = socket.socket(INET, DATAGRAM)
        make_transparent(made)
        made.bind((address, port))
        made.settimeout(PATIENCE)
        return made

    return universe.in_internet(make)


# What does not.

DENIED = [
    pytest.param(EVIL, ECHO, "denied_cidr", id="a denied address"),
    pytest.param(EVIL_V6, ECHO, "denied_cidr", id="a denied IPv6 address"),
    pytest.param(PUBLIC, 9999, "denied_port", id="a denied port"),
    pytest.param(PRIVATE, ECHO, "reserved_address", id="a private address"),
    pytest.param(PRIVATE_V6, ECHO, "reserved_address", id="a private IPv6 address"),
    pytest.param(METADATA, 80, "reserved_address", id="the metadata service"),
    pytest.param("64:ff9b::a9fe:a9fe", 80, "reserved_address", id="the metadata service in IPv6"),
    pytest.param(GATEWAY, ECHO, "reserved_address", id="the host"),
    pytest.param(GATEWAY_V6, ECHO, "reserved_address", id="the host over IPv6"),
    pytest.param("198.18.77.77", ECHO, "reserved_address", id="a virtual address without a name"),
]


@pytest.mark.parametrize(("address", "port", "reason"), DENIED)
def test_a_denied_address_is_refused_at_once(bench, universe, address, port, reason):
    with bench.sandbox(DENYING) as (sandbox, jar):
        assert_closed(sandbox, address, port)
        assert echoes(sandbox, OTHER_PUBLIC)
        assert reasons(jar) == [reason]
    assert datagrams(universe) == {(OTHER_PUBLIC, ECHO)}
    assert universe.gateway.seen == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("alias-to-evil.test", "denied_cidr"),
        ("private.test", "reserved_address"),
        ("loopback.test", "reserved_address"),
        ("metadata.test", "reserved_address"),
        ("gateway.test", "reserved_address"),
        ("mixed.test", "reserved_address"),
        ("nat64.test", "reserved_address"),
    ],
)
@pytest.mark.parametrize("kind", ["A", "AAAA"])
def test_a_name_that_leads_where_none_should_is_refused_at_once(bench, universe, name, reason, kind):
    with bench.sandbox(DENYING) as (sandbox, jar):
        [virtual] = [text for text in sandbox.look_up(name) if (":" in text) == (kind == "AAAA")]
        assert_closed(sandbox, virtual)
        assert echoes(sandbox, OTHER_PUBLIC)
        assert reasons(jar) == [reason]
    assert datagrams(universe) == {(OTHER_PUBLIC, ECHO)}
    assert universe.gateway.seen == []


@pytest.mark.parametrize("address", ["224.0.0.251", "255.255.255.255"])
def test_nothing_is_sent_to_everybody(bench, universe, address):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), sandbox.make_socket(INET, DATAGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        made.sendto(b"anybody?", (address, 5353))
        assert echoes(sandbox, PUBLIC)
    assert datagrams(universe) == {(PUBLIC, ECHO)}


def test_the_services_of_the_host_are_not_reached_over_udp(bench, universe):
    with bench.sandbox(f"{ALLOW_ALL}\nhost_ports: [{ECHO}]") as (sandbox, jar):
        host = sandbox.look_up("host.belljar.internal")[0]
        assert_closed(sandbox, host)
        with sandbox.connect(host, ECHO) as control:
            control.sendall(b"hello")
            assert control.recv(9) == b"hello"
        assert reasons(jar) == ["host_port_not_allowed"]
    assert [seen.kind for seen in universe.gateway.seen] == ["connection"]


@pytest.mark.parametrize("led", [f"port: {ECHO}", f"address: 'v4.test:{ECHO}'"], ids=str)
def test_named_services_are_not_reached_over_udp(bench, universe, led):
    with bench.sandbox(f"{ALLOW_ALL}\nservices: {{echo: {{{led}}}}}") as (sandbox, jar):
        host = sandbox.look_up("echo.belljar.internal")[0]
        assert_closed(sandbox, host)
        with sandbox.connect(host, ECHO) as control:
            control.sendall(b"hello")
            assert control.recv(9) == b"hello"
        assert reasons(jar) == ["service_not_allowed"]
    assert datagrams(universe) == set()
    assert universe.gateway.witness.of_kind("datagram") == []


def test_a_name_that_changes_is_checked_whenever_it_is_resolved(bench, universe):
    """Public at the first question, private at the second, and nothing is remembered in between."""
    with bench.sandbox(ALLOW_ALL) as (sandbox, _):
        virtual = sandbox.look_up("rebinding.test")[0]
        assert echoes(sandbox, virtual)
        assert_closed(sandbox, virtual)
    assert datagrams(universe) == {(PUBLIC, ECHO)}


def test_a_denial_is_told_once_in_a_while_however_many_datagrams_it_takes(bench):
    with bench.sandbox(DENYING) as (sandbox, jar), client(sandbox, EVIL) as made:
        for _ in range(20):
            assert_refused(made)
        assert reasons(jar) == ["denied_cidr"]
        assert [(line["event"], line["protocol"], line["reason"]) for line in bench.log()] == [
            ("flow.denied", "udp", "denied_cidr")
        ]
        bench.advance(11)
        assert_refused(made)
        assert reasons(jar) == ["denied_cidr"] * 2


def test_what_nobody_takes_outside_is_refused_inside(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _), client(sandbox, PUBLIC, CLOSED) as made:
        for _ in range(3):
            assert_refused(made)
        assert echoes(sandbox, PUBLIC)
        bench.log()
        bench.advance(UNANSWERED_SECONDS + 1)
        [line] = bench.log()
        assert (line["how"], line["error"]) == ("failed", "[Errno 111] Connection refused")


def test_a_name_that_does_not_exist_is_refused_at_once(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar):
        assert_closed(sandbox, sandbox.look_up("nowhere.test")[0])
        assert not jar.flows
        assert [(line["event"], line["how"]) for line in bench.log()] == [("flow.closed", "failed")]


def test_what_an_upstream_proxy_cannot_carry_does_not_go_past_it(universe):
    settings = Settings(proxy=parse_proxy(f"http://{OTHER_PUBLIC}:3128"))
    with at_work(universe, settings) as bench, bench.sandbox(ALLOW_ALL) as (sandbox, _):
        assert_closed(sandbox, PUBLIC)
        assert_closed(sandbox, sandbox.look_up("plain.test")[0])
    assert datagrams(universe) == set()


@contextmanager
def waiting_for_the_proxys_name(universe: Universe) -> Iterator[tuple[Bench, Sandbox, SandboxState, socket.socket]]:
    """Have a flow to a name, with its addresses found and checked, wait for those of the upstream proxy."""
    universe.zone["proxy.test"] = at(manner=Manner.SILENT)
    settings = Settings(proxy=parse_proxy("http://proxy.test:3128"), exceptions=Exceptions(everything=True))
    with (
        at_work(universe, settings) as bench,
        bench.sandbox(ALLOW_ALL) as (sandbox, jar),
        client(sandbox, sandbox.look_up("v4.test")[0]) as made,
    ):
        made.send(b"a secret")
        witness = universe.internet.witness
        eventually(lambda: any(seen.what.startswith("proxy.test ") for seen in witness.of_kind("question")))
        yield bench, sandbox, jar, made


def test_a_policy_that_is_tightened_while_the_upstream_proxy_is_looked_for_has_the_last_word(universe):
    """By its name alone the flow is still granted; by the addresses that were found it is not any more."""
    with waiting_for_the_proxys_name(universe) as (bench, sandbox, jar, made):
        tighter = policy(f"{ALLOW_ALL}\negress: {{denied_cidrs: [{PUBLIC}]}}", 2)
        assert bench.serving.do(lambda: bench.serving.gateway.change_policy(jar.id, tighter)) == 0
        universe.zone["proxy.test"] = at(OTHER_PUBLIC)
        bench.advance(3)  # and so the name server is asked again
        with pytest.raises(ConnectionRefusedError):
            made.recv(9)
        assert reasons(jar) == ["denied_cidr"]
        assert (len(jar.flows), jar.udp_waiting_bytes) == (0, 0)
        assert [(line["event"], line.get("how")) for line in bench.log()] == [
            ("flow.denied", None),
            ("flow.closed", "denied"),
        ]
        assert echoes(sandbox, PUBLIC_V6)
    assert datagrams(universe) == {(PUBLIC_V6, ECHO)}


def test_an_address_that_becomes_the_hosts_while_the_upstream_proxy_is_looked_for(universe):
    with waiting_for_the_proxys_name(universe) as (bench, sandbox, jar, made):
        universe.gateway.call(run, "ip", "address", "add", f"{PUBLIC}/32", "dev", "wire")
        try:
            universe.zone["proxy.test"] = at(OTHER_PUBLIC)
            bench.advance(3)
            with pytest.raises(ConnectionRefusedError):
                made.recv(9)
        finally:
            universe.gateway.call(run, "ip", "address", "delete", f"{PUBLIC}/32", "dev", "wire")
        assert reasons(jar) == ["reserved_address"]
        assert universe.gateway.seen == []
        assert echoes(sandbox, PUBLIC)


# Where UDP stays inside.


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_V6])
def test_in_block_all_udp_is_refused_and_told(bench, universe, address):
    """A QUIC client falls back to TCP at once; no grant of a name, a range or a port opens UDP."""
    with bench.sandbox(BLOCK_ALL) as (sandbox, jar), client(sandbox, address, HTTPS) as made:
        assert_refused(made)
        assert reasons(jar) == ["udp_blocked"]
    assert universe.wire.contacts() == set()


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_V6])
def test_a_policy_that_becomes_block_all_refuses_udp_at_the_gateway(bench, universe, address):
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar), client(sandbox, address) as made:
        assert exchange(made)
        assert bench.serving.do(lambda: bench.serving.gateway.change_policy(jar.id, policy(BLOCK_ALL, 2))) == 1
        universe.forget()
        with pytest.raises(ConnectionRefusedError):
            made.recv(9)  # the client learns that its flow was cut before it sends anything
        assert_refused(made)
        assert reasons(jar) == ["udp_blocked"]
        assert universe.wire.contacts() == set()
        assert bench.serving.do(lambda: bench.serving.gateway.change_policy(jar.id, policy(ALLOW_ALL, 3))) == 0
        assert exchange(made)


def test_a_change_of_policy_cuts_what_it_denies_and_nothing_else(bench, universe):
    with (
        bench.sandbox(ALLOW_ALL) as (sandbox, jar),
        client(sandbox, EVIL) as evil,
        client(sandbox, sandbox.look_up("evil.test")[0]) as evil_by_name,
        client(sandbox, PUBLIC) as good,
    ):
        assert exchange(evil) == exchange(evil_by_name) == exchange(good) == b"hello"
        bench.log()
        assert bench.serving.do(lambda: bench.serving.gateway.change_policy(jar.id, policy(DENYING, 2))) == 2
        lines: list[dict[str, Any]] = []

        def all_told() -> bool:
            lines.extend(bench.log())
            return len(lines) == 4

        eventually(all_told)
        assert len(jar.flows) == 1
        assert {line["name"] for line in lines} == {None, "evil.test"}
        assert [(line["event"], line.get("how")) for line in lines] == [
            ("flow.denied", None),
            ("flow.closed", "cut"),
        ] * 2
        universe.forget()
        for made in (evil, evil_by_name):
            with pytest.raises(ConnectionRefusedError):
                made.recv(9)
            assert_refused(made)
        assert exchange(good)
        assert datagrams(universe) == {(PUBLIC, ECHO)}


def test_a_bug_in_what_is_told_of_a_denial_does_not_save_the_flow(bench, universe, monkeypatch):
    with (
        bench.sandbox(ALLOW_ALL) as (sandbox, jar),
        client(sandbox, EVIL) as evil,
        client(sandbox, PUBLIC) as good,
    ):
        assert exchange(evil) == exchange(good) == b"hello"
        with monkeypatch.context() as patch:
            patch.setattr(jar.observer, "flow_denied", lambda _: 1 // 0)
            assert bench.serving.do(lambda: bench.serving.gateway.change_policy(jar.id, policy(DENYING, 2))) == 1
            with pytest.raises(ConnectionRefusedError):
                evil.recv(9)
        universe.forget()
        assert_refused(evil)
        assert exchange(good)
        assert datagrams(universe) == {(PUBLIC, ECHO)}
        assert bench.serving.count(jar, "belljar_bugs_total") == 1


def test_a_flow_that_waits_for_its_name_is_cut_as_well(bench, universe):
    with (
        bench.sandbox(ALLOW_ALL) as (sandbox, jar),
        client(sandbox, sandbox.look_up("silent.test")[0]) as made,
    ):
        made.send(b"wait for it")
        assert echoes(sandbox, PUBLIC)  # by then the datagram before it waits
        assert bench.serving.do(lambda: bench.serving.gateway.change_policy(jar.id, policy(BLOCK_ALL, 2))) == 2
        with pytest.raises(ConnectionRefusedError):
            made.recv(9)
        eventually(lambda: (len(jar.flows), jar.udp_waiting_bytes) == (0, 0))


# Tricks.


def test_a_datagram_from_a_made_up_source_does_not_go_round_and_round(bench, universe):
    """Its answer would come back to the gateway as a question of the next client."""
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar), sandbox.make_socket(INET, DATAGRAM) as made:
        made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        made.bind((EVIL, ECHO))
        with pytest.raises(PermissionError):
            made.sendto(b"ping-pong", (PUBLIC, ECHO))
        assert sandbox.call(sealed.refused).udp == 1
        assert echoes(sandbox, PUBLIC)
        assert len(jar.flows) == 1
    assert datagrams(universe) == {(PUBLIC, ECHO)}


@pytest.mark.parametrize("text", [ALLOW_ALL, BLOCK_ALL], ids=["allow-all", "block-all"])
@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "unconnected"])
@pytest.mark.parametrize(
    ("source", "server"), [(EVIL, PUBLIC), (EVIL, "127.0.0.1"), (EVIL_V6, PUBLIC_V6), (EVIL_V6, "::1")]
)
def test_nor_does_a_question_for_a_name(bench, universe, text, is_connected, source, server):
    """Its answer would be a datagram of the gateway's own, to wherever the agent says."""
    question = dns.message.make_query("plain.test", "A")
    with bench.sandbox(text) as (sandbox, jar), ExitStack() as stack:
        made = stack.enter_context(sandbox.make_socket(INET6 if ":" in source else INET, DATAGRAM))
        made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        made.bind((source, ECHO))
        if is_connected:
            made.connect((server, 53))
        with pytest.raises(PermissionError):
            made.sendto(question.to_wire(), (server, 53))
        assert sandbox.call(sealed.refused).udp == 1
        assert sandbox.call(dns.query.udp, question, server, 10).answer
        assert (jar.flows, reasons(jar)) == (set(), [])
    assert datagrams(universe) == set()


@pytest.mark.parametrize(("address", "source"), [("127.0.0.1", EVIL), ("127.0.0.1", ""), ("::1", EVIL_V6), ("::1", "")])
def test_the_listener_itself_is_no_destination(bench, universe, address, source):
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar), ExitStack() as stack:
        made = stack.enter_context(sandbox.make_socket(INET6 if ":" in address else INET, DATAGRAM))
        made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        made.bind((source, 0))
        made.sendto(b"who are you?", (address, sealed.UDP_PORT))
        assert echoes(sandbox, PUBLIC_V6 if ":" in address else PUBLIC)
        assert len(jar.flows) == 1
    assert len(datagrams(universe)) == 1


# Time, limits, and what is left.


def test_a_flow_ends_when_nothing_has_passed_for_some_time(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar), client(sandbox, PUBLIC) as made:
        assert exchange(made)
        for _ in range(3):
            bench.advance(ANSWERED_SECONDS - 1)
            assert exchange(made)
        bench.log()
        assert len(jar.flows) == 1
        bench.advance(ANSWERED_SECONDS + 1)
        assert not jar.flows
        [line] = bench.log()
        assert (line["event"], line["how"], line["error"]) == ("flow.closed", "closed", None)
        assert (line["bytes_up"], line["bytes_down"]) == (20, 20)
        assert line["seconds"] > 4 * ANSWERED_SECONDS - 4
        assert exchange(made), "a client that comes back begins anew"


def test_a_flow_that_nobody_answers_ends_sooner(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, jar), client(sandbox, BLACK_HOLE) as made:
        made.send(b"anybody?")
        assert echoes(sandbox, PUBLIC)
        bench.advance(UNANSWERED_SECONDS + 1)
        assert len(jar.flows) == 1
        closed = [line for line in bench.log() if line["event"] == "flow.closed"]
        assert [(line["addresses"], line["bytes_down"]) for line in closed] == [([BLACK_HOLE], 0)]


def test_what_happened_is_in_the_log(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _):
        assert echoes(sandbox, sandbox.look_up("v4.test")[0], HTTPS)
    allowed, closed = bench.log()
    whom = {"protocol": "udp", "name": "v4.test", "addresses": [PUBLIC], "port": HTTPS}
    assert (allowed["event"], allowed["reason"], closed["event"]) == (
        "flow.allowed",
        "allowed_by_default",
        "flow.closed",
    )
    assert whom.items() <= allowed.items()
    assert whom.items() <= closed.items()
    assert (closed["how"], closed["bytes_up"], closed["bytes_down"]) == ("cut", 5, 5)


def test_there_is_a_limit_to_flows_and_the_others_go_on(bench):
    with (
        bench.sandbox(ALLOW_ALL, udp_flows=2) as (sandbox, jar),
        client(sandbox, PUBLIC) as one,
        client(sandbox, PUBLIC_V6) as two,
        client(sandbox, PUBLIC) as three,
    ):
        assert exchange(one) == exchange(two) == b"hello"
        assert_refused(three)
        assert exchange(one) == exchange(two) == b"hello"
        bench.advance(ANSWERED_SECONDS + 1)
        assert exchange(three)
        assert len(jar.flows) == 1


def test_there_is_a_limit_to_what_waits(bench):
    with bench.sandbox(DENYING, udp_waiting_bytes=10_000) as (sandbox, jar):
        silent, plain = sandbox.look_up("silent.test")[0], sandbox.look_up("plain.test")[0]
        with client(sandbox, silent) as made, client(sandbox, silent) as empty:
            for _ in range(80):
                made.send(bytes(99))
                empty.send(b"")
            assert_closed(sandbox, EVIL)  # by then, what was sent before has had its turn
            assert 9_000 < jar.udp_waiting_bytes <= 10_000
        bench.advance(60)
        assert jar.udp_waiting_bytes == 0
        assert echoes(sandbox, plain)


def test_nothing_is_left_behind(bench):
    with bench.sandbox(ALLOW_ALL) as (sandbox, _):
        assert echoes(sandbox, PUBLIC)  # whoever has dialled once keeps the socket that the kernel is asked with
    before = open_descriptors()
    with bench.sandbox(DENYING) as (sandbox, jar), ExitStack() as stack:
        for place in (PUBLIC, PUBLIC_V6, *sandbox.look_up("plain.test")):
            assert exchange(stack.enter_context(client(sandbox, place)))
        assert_refused(stack.enter_context(client(sandbox, EVIL)))
        stack.enter_context(client(sandbox, sandbox.look_up("silent.test")[0])).send(b"never mind")
        assert echoes(sandbox, OTHER_PUBLIC)
        assert len(jar.flows) == 6
    for _ in range(10):  # a question that is called off takes a few turns of the loop
        bench.serving.do(lambda: None)
    assert (len(jar.flows), jar.udp_waiting_bytes, jar.names._connections) == (0, 0, {})
    assert open_descriptors() == before
