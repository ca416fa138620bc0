"""The sandbox's DNS: what the programs in it are told, what the operator sees, and what never happens."""

import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from typing import Any

import dns.message
import dns.rcode
import dns.rdatatype
import dns.reversename
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.gateway.dns.service import FORWARD_SECONDS, IDLE_SECONDS, MAX_CONNECTIONS, MAX_FORWARDS, Forward
from belljar.gateway.dns.virtual import TTL, VirtualNames, is_virtual
from belljar.gateway.io.loop import Loop
from belljar.turns import SLICE
from belljar.wire.dns.answer import DnsAnswer
from belljar.wire.dns.format import Rcode
from belljar.wire.dns.question import Query
from tests.gateway.dnsclients import ALLOW_ALL, BLOCK_ALL, Service, addresses, error, framed, frames
from tests.gateway.driving import nothing_left_behind, open_descriptors
from tests.policy.documents import compiled
from tests.wire.dnsmessages import mutations, wire_query

BLOCKED, PROHIBITED, NOT_SUPPORTED, NETWORK_ERROR = 15, 18, 21, 23
NOERROR, NXDOMAIN, REFUSED, SERVFAIL = dns.rcode.NOERROR, dns.rcode.NXDOMAIN, dns.rcode.REFUSED, dns.rcode.SERVFAIL


@contextmanager
def serving(policy: str | None = BLOCK_ALL, forward: Forward | None = None, **limits: Any) -> Iterator[Service]:
    service = Service(compiled(policy) if policy else None, forward, **limits)
    try:
        yield service
    finally:
        service.close()


@pytest.fixture
def service():
    with serving() as service:
        yield service


class Outside:
    """Stands in for the resolver outside, and remembers what it was asked."""

    def __init__(self, answer_with: Callable[[Query], DnsAnswer] = DnsAnswer) -> None:
        self.asked: list[tuple[str | None, int]] = []
        self._answer_with = answer_with

    async def __call__(self, query: Query) -> DnsAnswer:
        self.asked.append((query.name, query.qtype))
        return self._answer_with(query)


# Allowed names.


@pytest.mark.parametrize("tcp", [False, True], ids=["UDP", "TCP"])
@pytest.mark.parametrize("edns", [False, True], ids=["plain", "EDNS"])
def test_an_allowed_name_gets_a_virtual_address_of_either_family(service, tcp, edns):
    four = service.ask("api.example.org", "A", tcp=tcp, edns=edns)
    six = service.ask("api.example.org", "AAAA", tcp=tcp, edns=edns)
    for answer in (four, six):
        [address] = addresses(answer)
        assert is_virtual(ip_address(address))
        assert service.jar.names.name_of(ip_address(address)) == "api.example.org"
        assert answer.answer[0].ttl == TTL
    transport = "tcp" if tcp else "udp"
    assert service.count("belljar_dns_queries_total", transport=transport, result="address") == 2
    assert [(line["event"], line["type"], line["result"], line["reason"]) for line in service.log()] == [
        ("dns.answered", "A", "address", "allowed_domain"),
        ("dns.answered", "AAAA", "address", "allowed_domain"),
    ]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_both_families_are_served_over_both_transports(service, family):
    query = dns.message.make_query("api.example.org", "A")
    for reply in (service.datagram(query.to_wire(), family), service.over_tcp(query.to_wire(), family)):
        assert reply is not None
        assert addresses(dns.message.from_wire(reply)) == ["198.18.1.0"]


@pytest.mark.parametrize("name", ["api.example.org.", "API.Example.ORG", "aPi.eXaMpLe.OrG."])
def test_spelling_does_not_change_a_decision_and_the_question_comes_back_as_it_was(service, name):
    assert addresses(service.ask(name)) == addresses(service.ask("api.example.org"))


def test_names_under_a_wildcard_have_addresses_of_their_own(service):
    given_out = {addresses(service.ask(name))[0] for name in ("a.zone.example.org", "b.zone.example.org")}
    assert len(given_out) == 2


@pytest.mark.parametrize("kind", ["HTTPS", "SVCB", "TXT", "MX", "SRV", "NS", "SOA", "CNAME", "NULL", "TYPE99"])
def test_an_allowed_name_has_nothing_of_other_types(service, kind):
    answer = service.ask("api.example.org", kind)
    assert (answer.rcode(), answer.answer) == (NOERROR, [])
    assert [rrset.rdtype for rrset in answer.authority] == [dns.rdatatype.SOA]
    [line] = service.log()
    assert (line["type"], line["result"]) == (kind if kind != "NULL" else "TYPE10", "no_data")


def test_the_name_of_a_virtual_address_can_be_asked_for(service):
    for kind in ("A", "AAAA"):
        [address] = addresses(service.ask("api.example.org", kind))
        answer = service.ask(dns.reversename.from_address(address).to_text(), "PTR")
        assert [record.to_text() for record in answer.answer[0]] == ["api.example.org."]


@pytest.mark.parametrize("edns", [False, True], ids=["plain", "EDNS"])
@pytest.mark.parametrize("address", ["198.18.9.9", "203.0.113.7", "127.0.0.1", "10.0.0.1", "2001:db8::1"])
def test_other_addresses_have_no_name_which_is_no_denial(service, address, edns):
    answer = service.ask(dns.reversename.from_address(address).to_text(), "PTR", edns=edns)
    assert (answer.rcode(), answer.answer) == (NXDOMAIN, [])
    assert [line["result"] for line in service.log()] == ["no_name"]
    assert service.jar.observer.denials() == []


def test_the_services_of_the_host_have_a_name():
    with serving("mode: block-all\nhost_ports: [5432]") as service:
        assert addresses(service.ask("host.belljar.internal"))


# Denied names.


@pytest.mark.parametrize("tcp", [False, True], ids=["UDP", "TCP"])
@pytest.mark.parametrize("kind", ["A", "AAAA", "HTTPS", "TXT", "NULL", "SRV"])
def test_a_denied_name_is_refused_with_the_reason(service, kind, tcp):
    answer = service.ask("data-to-leak.evil.example", kind, tcp=tcp)
    assert (answer.rcode(), answer.answer, answer.authority) == (REFUSED, [], [])
    sentence = "data-to-leak.evil.example is not among the allowed domains."
    assert error(answer) == (BLOCKED, f"not_allowed_domain: {sentence}")
    [line] = service.log()
    assert (line["event"], line["name"], line["reason"]) == (
        "dns.denied",
        "data-to-leak.evil.example",
        "not_allowed_domain",
    )
    assert [denial.sentence for denial in service.jar.observer.denials()] == [sentence]
    assert service.count("belljar_dns_denied_total", reason="not_allowed_domain") == 1


def test_a_stub_resolver_without_edns_is_told_to_go_on(service):
    """REFUSED makes glibc end its search list and musl wait for five seconds; NXDOMAIN is understood by both."""
    answer = service.ask("evil.example", edns=False)
    assert (answer.rcode(), answer.answer, answer.authority) == (NXDOMAIN, [], [])
    assert service.log()[0]["event"] == "dns.denied"


def stub_resolver(service: Service, name: str, search: list[str]) -> list[str] | str:
    """Walk a search list as musl does with `ndots:5`: only NXDOMAIN and no data lead to the next candidate."""
    for candidate in [*(f"{name}.{suffix}" for suffix in search), name]:
        answer = service.ask(candidate, edns=False)
        if answer.rcode() not in (NOERROR, NXDOMAIN):
            return f"gave up at {candidate}"
        if answer.answer:
            return addresses(answer)
    return "not found"


def test_search_domains_do_not_change_what_can_be_reached(service):
    search = ["default.svc.cluster.local", "cluster.local", "corp.lan"]
    assert stub_resolver(service, "api.example.org", search) == addresses(service.ask("api.example.org"))
    assert stub_resolver(service, "evil.example", search) == "not found"


def test_a_denied_parent_says_nothing_about_the_names_below(service):
    for edns in (False, True):
        denied = service.ask("example.org", edns=edns)
        assert denied.authority == []  # so that no cache keeps it
        assert addresses(service.ask("api.example.org", edns=edns))


def test_without_a_policy_everything_is_denied():
    with serving(None) as service:
        answer = service.ask("api.example.org")
        assert answer.rcode() == REFUSED
        assert (error(answer) or (0, ""))[1].startswith("policy_missing: ")


def test_a_new_policy_counts_from_the_next_question_on(service):
    assert addresses(service.ask("api.example.org"))
    service.jar.change_policy(compiled("mode: block-all", generation=2))
    assert service.ask("api.example.org").rcode() == REFUSED


@pytest.mark.parametrize("name", ["metadata.google.internal", "localhost", "instance-data"])
def test_reserved_names_stay_closed(name):
    with serving(ALLOW_ALL) as service:
        answer = service.ask(name)
        assert answer.rcode() == REFUSED
        assert (error(answer) or (0, ""))[1].startswith("reserved_name: ")


# What is no question for an address of a host.


@pytest.mark.parametrize("kind", ["ANY", "AXFR", "IXFR", "MAILB", "TKEY", "OPT", "TYPE0"])
@pytest.mark.parametrize("policy", [BLOCK_ALL, ALLOW_ALL], ids=["block-all", "allow-all"])
def test_transfers_and_the_like_are_refused(policy, kind):
    outside = Outside()
    with serving(policy, outside) as service:
        query = dns.message.make_query("api.example.org", "A")
        query.use_edns(0)
        query.question[0].rdtype = dns.rdatatype.from_text(kind)
        answer = dns.message.from_wire(service.datagram(query.to_wire()) or b"")
        assert answer.rcode() == REFUSED
        assert error(answer) == (NOT_SUPPORTED, "unsupported_dns: asks for a transfer or for all types at once")
        assert [line["event"] for line in service.log()] == ["dns.refused"]
    assert outside.asked == []


@pytest.mark.parametrize(
    "name",
    [
        "_http._tcp.api.example.org",
        ".",
        r"evil\000.api.example.org",
        r"evil\.api.example.org",
        r"a\032b.zone.example.org",
    ],
)
@pytest.mark.parametrize("policy", [BLOCK_ALL, ALLOW_ALL], ids=["block-all", "allow-all"])
def test_what_is_not_a_host_name_is_refused(policy, name):
    outside = Outside()
    with serving(policy, outside) as service:
        answer = service.ask(name)
        assert answer.rcode() == REFUSED
        assert error(answer) == (NOT_SUPPORTED, "unsupported_dns: asks for what is not a host name")
        assert service.ask(name, edns=False).rcode() == NXDOMAIN
        assert {line["fault"] for line in service.log()} == {"unsupported_dns"}
    assert outside.asked == []


@pytest.mark.parametrize(
    ("message", "rcode"),
    [
        pytest.param(wire_query(b"\xc0\x0c"), dns.rcode.FORMERR, id="a pointer loop"),
        pytest.param(wire_query(rest=b"\0"), dns.rcode.FORMERR, id="bytes behind the end"),
        pytest.param(wire_query(counts=(2, 0, 0, 0)), dns.rcode.FORMERR, id="two questions"),
        pytest.param(wire_query(qclass=3), REFUSED, id="chaos"),
        pytest.param(wire_query(flags=0x2900), dns.rcode.NOTIMP, id="an update"),
        pytest.param(wire_query(rest=b"\0" * 5000), dns.rcode.FORMERR, id="too large"),
        pytest.param(wire_query(b"\x3f" + b"a" * 63 + (b"\x3f" + b"b" * 63) * 3 + b"\0"), dns.rcode.FORMERR, id="long"),
    ],
)
def test_malformed_messages_are_answered_and_told(service, message, rcode):
    reply = service.datagram(message)
    assert reply is not None
    assert dns.message.from_wire(reply).rcode() == rcode
    assert [line["event"] for line in service.log()] == ["dns.refused"]
    assert service.count("belljar_dns_queries_total", transport="udp", result="refused") == 1


@pytest.mark.parametrize("message", [b"", b"\0" * 11, wire_query(flags=0x8180)], ids=["empty", "short", "an answer"])
def test_what_is_no_query_is_not_answered(service, message):
    assert service.datagram(message) is None
    assert addresses(service.ask("api.example.org"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(mutations(), st.binary(max_size=100)), max_size=20))
def test_arbitrary_messages_do_no_harm(messages):
    with serving() as service:
        for message in messages:
            service.datagram(message)
            with service.connect() as client:
                client.sendall(framed(message)[:60000])
                service.driver.settle()
        assert addresses(service.ask("api.example.org"))


# What leaves the host because of a question.


@pytest.mark.parametrize("kind", ["A", "AAAA", "TXT", "HTTPS", "MX", "PTR", "NULL", "ANY"])
@pytest.mark.parametrize(
    "name", ["api.example.org", "data.zone.example.org", "data.evil.example", "7.113.0.203.in-addr.arpa"]
)
def test_in_block_all_nothing_is_asked_of_anyone(name, kind):
    outside = Outside()
    with serving(BLOCK_ALL, outside) as service, nothing_left_behind(service.driver):
        service.ask(name, kind)
        service.ask(name, kind, tcp=True)
    assert outside.asked == []


def test_in_allow_all_other_types_are_forwarded():
    outside = Outside(lambda query: DnsAnswer(query, Rcode.NXDOMAIN))
    with serving(ALLOW_ALL, outside) as service:
        for tcp in (False, True):
            assert service.ask("mail.example.org", "MX", tcp=tcp).rcode() == NXDOMAIN
        assert outside.asked == [("mail.example.org", dns.rdatatype.MX)] * 2
        assert {line["result"] for line in service.log()} == {"forwarded"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("www.example.org", "A", id="A"),
        pytest.param("www.example.org", "AAAA", id="AAAA"),
        pytest.param("www.example.org", "HTTPS", id="HTTPS"),
        pytest.param("www.example.org", "SVCB", id="SVCB"),
        pytest.param("evil.example", "TXT", id="denied"),
        pytest.param("below.evil.example", "TXT", id="below a denied name"),
        pytest.param("1.0.0.10.in-addr.arpa", "PTR", id="the name of a private address"),
        pytest.param("9.9.18.198.in-addr.arpa", "PTR", id="the name of a virtual address"),
        pytest.param("254.169.254.169.in-addr.arpa", "PTR", id="the name of the metadata service"),
    ],
)
def test_in_allow_all_these_are_answered_here(name, kind):
    outside = Outside()
    with serving(ALLOW_ALL, outside) as service:
        service.ask(name, kind)
    assert outside.asked == []


def test_in_allow_all_the_names_of_public_addresses_are_forwarded():
    outside = Outside()
    with serving(ALLOW_ALL, outside) as service:
        service.ask("7.113.0.203.in-addr.arpa", "PTR")
    assert outside.asked == [("7.113.0.203.in-addr.arpa", dns.rdatatype.PTR)]


def test_where_nothing_can_be_forwarded_there_is_no_data():
    with serving(ALLOW_ALL) as service:
        answer = service.ask("mail.example.org", "MX")
        assert (answer.rcode(), answer.answer) == (NOERROR, [])


@pytest.mark.parametrize("tcp", [False, True], ids=["UDP", "TCP"])
def test_a_resolver_that_fails_is_a_failure(tcp):
    def fail(query: Query) -> DnsAnswer:
        raise ConnectionRefusedError

    with serving(ALLOW_ALL, Outside(fail)) as service:
        answer = service.ask("mail.example.org", "MX", tcp=tcp)
        assert (answer.rcode(), error(answer)) == (SERVFAIL, (NETWORK_ERROR, "the resolver did not answer"))
        assert [line["result"] for line in service.log()] == ["failed"]


def test_a_resolver_that_never_answers_is_given_up_and_not_asked_without_end():
    loops: list[Loop] = []

    async def never(query: Query) -> DnsAnswer:
        await loops[0].sleep(3600)
        return DnsAnswer(query)

    with serving(ALLOW_ALL, never, dns_per_second=10_000) as service, ExitStack() as stack:
        loops.append(service.driver.loop)
        client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        client.connect(service.udp[socket.AF_INET].getsockname())
        client.setblocking(False)
        with nothing_left_behind(service.driver):
            for _ in range(MAX_FORWARDS + 1):
                client.send(dns.message.make_query("mail.example.org", "MX", use_edns=0).to_wire())
            service.driver.settle()
            refused = dns.message.from_wire(client.recv(4096))
            assert refused.rcode() == SERVFAIL
            assert (error(refused) or (0, ""))[1].startswith("dns_forwards: ")
            assert addresses(service.ask("www.example.org"))  # others are served meanwhile
            service.driver.advance(FORWARD_SECONDS)
            rcodes = [dns.message.from_wire(client.recv(4096)).rcode() for _ in range(MAX_FORWARDS)]
            assert rcodes == [SERVFAIL] * MAX_FORWARDS


# Limits.


def test_the_rate_is_limited_per_sandbox_and_told_once():
    with serving(dns_per_second=5) as service:
        rcodes = [service.ask("api.example.org").rcode() for _ in range(5)]
        limited = [service.ask("api.example.org", tcp=tcp) for tcp in (False, True, False)]
        assert rcodes == [NOERROR] * 5
        assert {answer.rcode() for answer in limited} == {SERVFAIL}
        assert error(limited[0]) == (PROHIBITED, "dns_per_second: more than 5 questions in a second")
        told = [line for line in service.log() if line["event"] != "dns.answered"]
        assert [(line["event"], line["limit"], line["times"]) for line in told] == [
            ("limit.reached", "dns_per_second", 1)
        ]
        assert service.count("belljar_limits_reached_total", limit="dns_per_second") == 3
        service.driver.clock.now += 1
        assert service.ask("api.example.org").rcode() == NOERROR


def test_names_that_could_carry_data_are_limited():
    with serving(names_under_wildcard=3) as service:
        rcodes = [service.ask(f"data{number}.zone.example.org").rcode() for number in range(5)]
        assert rcodes == [NOERROR] * 3 + [REFUSED] * 2
        assert service.ask("data1.zone.example.org").rcode() == NOERROR
        assert service.ask("api.example.org").rcode() == NOERROR
        answer = service.ask("data9.zone.example.org")
        assert error(answer) == (PROHIBITED, "names_under_wildcard: more than 3 different names under one wildcard")
        assert service.ask("data9.zone.example.org", edns=False).rcode() == NXDOMAIN


def test_a_pool_without_addresses_is_a_temporary_failure(service):
    service.jar.names = VirtualNames(capacity=1)
    assert addresses(service.ask("api.example.org"))
    answer = service.ask("a.zone.example.org")
    assert answer.rcode() == SERVFAIL
    assert error(answer) == (PROHIBITED, "virtual_names: no virtual address is left")
    service.driver.clock.now += 2 * TTL
    assert addresses(service.ask("a.zone.example.org"))


def test_one_sandbox_that_asks_without_end_leaves_turns_to_others():
    with serving(dns_per_second=10_000) as service, socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect(service.udp[socket.AF_INET].getsockname())
        client.setblocking(False)
        message = dns.message.make_query("api.example.org", "A").to_wire()
        service.driver.settle()
        for _ in range(100):
            client.send(message)
        answered: list[int] = []
        steps = (1000 + step * SLICE / 20 for step in itertools.count())  # time passes between any two looks
        service.driver.loop.clock = steps.__next__
        while sum(answered) < 100:
            service.driver.loop.turn()
            answered.append(len(list(received(client))))
        assert max(answered) <= 21  # rounding may cost a step


def received(client: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield client.recv(65535)
        except BlockingIOError:
            return


def test_a_client_that_is_gone_is_no_trouble(service):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(service.udp[socket.AF_INET].getsockname())
        client.send(dns.message.make_query("api.example.org", "A").to_wire())
    service.driver.settle()
    assert addresses(service.ask("api.example.org"))


# TCP.


def test_several_questions_on_one_connection_are_answered_in_order(service):
    names = ["api.example.org", "evil.example", "a.zone.example.org"] * 30
    queries = [dns.message.make_query(name, "A", use_edns=0) for name in names]
    with service.connect() as client:
        client.sendall(b"".join(framed(query.to_wire()) for query in queries))
        service.driver.settle()
        answers = [dns.message.from_wire(reply) for reply in frames(client.recv(1 << 20))]
    assert [answer.id for answer in answers] == [query.id for query in queries]
    assert [answer.rcode() for answer in answers] == [NOERROR, REFUSED, NOERROR] * 30


def test_a_question_may_come_in_any_pieces(service):
    query = dns.message.make_query("api.example.org", "A")
    with service.connect() as client:
        for byte in framed(query.to_wire()):
            client.send(bytes([byte]))
            service.driver.settle()
        [reply] = frames(client.recv(4096))
    assert query.is_response(dns.message.from_wire(reply))


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("pause", [1.0, IDLE_SECONDS - 1], ids=["a byte a second", "a byte now and then"])
def test_bytes_that_complete_no_question_win_no_time(service, pause):
    message = framed(dns.message.make_query("api.example.org", "A").to_wire())
    with nothing_left_behind(service.driver), service.connect() as client:
        passed = 0.0
        for byte in message[:-1]:
            client.send(bytes([byte]))
            service.driver.advance(pause)
            passed += pause
            if passed >= IDLE_SECONDS:
                break
        assert is_closed(client)


def test_an_idle_connection_is_closed_and_one_that_asks_is_not(service):
    query = dns.message.make_query("api.example.org", "A")
    with service.connect() as idle, service.connect() as busy:
        for _ in range(3):
            busy.sendall(framed(query.to_wire()))
            service.driver.settle()
            assert frames(busy.recv(4096))
            service.driver.advance(IDLE_SECONDS - 1)
        assert is_closed(idle)
        assert not is_closed(busy)


def test_a_client_that_does_not_read_is_given_up(service):
    with nothing_left_behind(service.driver), service.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        message = framed(dns.message.make_query("evil.example", "A", use_edns=0).to_wire())
        with suppress(BlockingIOError):
            while client.send(message * 50):
                service.driver.loop.turn()
        service.driver.advance(IDLE_SECONDS)


@pytest.mark.parametrize("length", [0, 11, 5000, 65535])
def test_an_impossible_length_ends_the_connection(service, length):
    with service.connect() as client:
        client.send(length.to_bytes(2, "big") + b"x" * 20)
        service.driver.settle()
        assert is_closed(client)
    assert [line["event"] for line in service.log()] == ["dns.refused"]


def test_the_number_of_connections_is_limited(service):
    with nothing_left_behind(service.driver), ExitStack() as stack:
        clients = [stack.enter_context(service.connect()) for _ in range(MAX_CONNECTIONS)]
        one_too_many = stack.enter_context(service.connect())
        assert is_closed(one_too_many)
        assert not any(map(is_closed, clients))
        assert service.count("belljar_limits_reached_total", limit="dns_connections") == 1
        clients[0].close()
        service.driver.settle()
        assert not is_closed(stack.enter_context(service.connect()))


def test_a_connection_that_ends_leaves_nothing_behind(service):
    with nothing_left_behind(service.driver):
        for _ in range(20):
            service.ask("api.example.org", tcp=True)


def test_after_closing_nothing_is_left():
    before = open_descriptors()
    with serving() as service, service.connect() as client:
        client.send(b"\0")
        service.driver.settle()
        service.service.close()
        service.driver.settle()
        assert is_closed(client)
        assert service.datagram(dns.message.make_query("api.example.org", "A").to_wire()) is None
        service.service.close()
    assert open_descriptors() == before
