"""Questions that leave the sandbox in allow-all: what the resolver outside sees of them, and what comes back."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from belljar.gateway.dns.forwarding import MAX_NEGATIVE_SECONDS, forward
from belljar.gateway.dns.service import MAX_FORWARDS, DnsService
from belljar.gateway.upstream.resolver import PATIENCE, Resolver
from tests.gateway.dnsclients import ALLOW_ALL, BLOCK_ALL, Service, error, framed
from tests.gateway.driving import nothing_left_behind
from tests.gateway.nameserver import Asked, NameServer, Zone, answer, silence, soa, truncated
from tests.gateway.serving import NO_FILE, Serving, eventually, policy
from tests.policy.documents import compiled
from tests.universe import Universe
from tests.universe.zone import Entry, Manner

NOERROR, NXDOMAIN, REFUSED, SERVFAIL = dns.rcode.NOERROR, dns.rcode.NXDOMAIN, dns.rcode.REFUSED, dns.rcode.SERVFAIL


class Outside:
    """A sandbox's DNS service, and the name server that its gateway asks."""

    def __init__(self, policy: str) -> None:
        self.service = Service(compiled(policy), self._forward)
        self.nameserver = NameServer(self.service.driver.loop)
        resolver = Resolver(self.service.driver.loop, [self.nameserver.server], hosts=NO_FILE, resolv_conf=NO_FILE)
        self._forwarding = partial(forward, resolver)

    async def _forward(self, query):
        return await self._forwarding(query)

    def ask(self, name: str, kind: str = "MX", *, tcp: bool = False) -> dns.message.Message:
        with nothing_left_behind(self.service.driver):
            return self.service.ask(name, kind, tcp=tcp)

    def seen(self) -> list[tuple[str, str]]:
        return [(asked.name.lower(), asked.kind) for asked in self.nameserver.seen]


@contextmanager
def asking(script, policy: str = ALLOW_ALL) -> Iterator[Outside]:
    outside = Outside(policy)
    outside.nameserver.script = script
    try:
        yield outside
    finally:
        outside.nameserver.close()
        outside.service.close()


def texts(message: dns.message.Message) -> list[str]:
    return [rrset.to_text() for rrset in message.answer]


RECORDS = {
    "MX": "60 MX 10 mail.example.net.",
    "TXT": '60 TXT "v=spf1 -all" "second string"',
    "NS": "60 NS ns.example.net.",
    "SOA": "60 SOA ns.example.net. admin.example.net. 1 2 3 4 5",
    "CNAME": "60 CNAME www.example.net.",
    "SRV": "60 SRV 1 2 5222 xmpp.example.net.",
    "CAA": '60 CAA 0 issue "ca.example.net"',
    "NAPTR": '60 NAPTR 1 2 "s" "SIP+D2U" "" _sip._udp.example.net.',
    "SSHFP": "60 SSHFP 1 1 123456789abcdef67890123456789abcdef67890",
    "RP": "60 RP admin.example.net. text.example.net.",
    "TYPE65280": r"60 TYPE65280 \# 3 0a0b0c",
}


@pytest.mark.parametrize("tcp", [False, True], ids=["UDP", "TCP"])
@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_every_type_come_back_as_they_are(kind, tcp):
    with asking(Zone({"www.example.org": [RECORDS[kind]]})) as outside:
        reply = outside.ask("www.example.org", kind, tcp=tcp)
        ttl, _, data = RECORDS[kind].split(maxsplit=2)
        assert reply.answer == [dns.rrset.from_text("www.example.org.", int(ttl), "IN", kind, data)]
        assert (reply.authority, reply.additional) == ([], [])
        assert outside.seen() == [("www.example.org", kind)]


def test_compressed_names_are_written_in_full():
    """The answer is compressed by dnspython, against names that do not come along."""

    def compressed(asked: Asked) -> list[bytes]:
        response = dns.message.make_response(asked.query)
        for owner, kind, data in [
            ("www.example.org.", "CNAME", "alias.far-away.example.net."),
            ("unrelated.far-away.example.net.", "TXT", '"not asked for"'),
            ("alias.far-away.example.net.", "MX", "10 mail.far-away.example.net."),
            ("alias.far-away.example.net.", "MX", "20 other.far-away.example.net."),
        ]:
            response.answer.append(dns.rrset.from_text(owner, 60, "IN", kind, data))
        return [response.to_wire()]

    with asking(compressed) as outside:
        lines = [line for text in texts(outside.ask("www.example.org")) for line in text.splitlines()]
        assert lines == [
            "www.example.org. 60 IN CNAME alias.far-away.example.net.",
            "alias.far-away.example.net. 60 IN MX 10 mail.far-away.example.net.",
            "alias.far-away.example.net. 60 IN MX 20 other.far-away.example.net.",
        ]


def test_addresses_that_come_along_do_not_get_in():
    def generous(asked: Asked) -> list[bytes]:
        response = dns.message.from_wire(answer(asked, RECORDS["MX"], "60 A 203.0.113.7"))
        for section in (response.authority, response.additional):
            section.append(dns.rrset.from_text("mail.example.net.", 60, "IN", "A", "203.0.113.8"))
            section.append(dns.rrset.from_text("mail.example.net.", 60, "IN", "AAAA", "2001:db8::8"))
        return [response.to_wire()]

    with asking(generous) as outside:
        reply = outside.ask("www.example.org")
        assert [rrset.rdtype.name for rrset in reply.answer] == ["MX"]
        assert (reply.authority, reply.additional) == ([], [])


def test_the_question_outside_is_the_gateways_own():
    """Nothing of the client's goes along: no identifier, no spelling, no subnet, no cookie."""
    with asking(Zone({"www.example.org": [RECORDS["TXT"]]})) as outside:
        options = [dns.edns.ECSOption("192.0.2.0", 24), dns.edns.CookieOption(b"8 bytes.", b"")]
        query = dns.message.make_query("WWW.example.ORG", "TXT", use_edns=0, options=options, want_dnssec=True)
        reply = outside.service.datagram(query.to_wire())
        assert reply is not None
        assert query.is_response(dns.message.from_wire(reply))
        [asked] = outside.nameserver.seen
        assert (asked.query.options, asked.query.ednsflags & dns.flags.DO) == ((), 0)
        assert asked.query.id != query.id


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("evil.example", "TXT"),
        ("data.below.evil.example", "TXT"),
        ("_dmarc.evil.example", "TXT"),
        ("_data._more.evil.example", "SRV"),
        ("metadata.google.internal", "TXT"),
        ("_service.localhost", "SRV"),
        ("www.example.org", "HTTPS"),
        ("_8443._https.www.example.org", "HTTPS"),
        ("www.example.org", "SVCB"),
        ("_dns.www.example.org", "SVCB"),
        ("_service.www.example.org", "A"),
        ("_service", "TXT"),
        ("a b.example.org", "TXT"),
        ("www._between.example.org", "TXT"),
        ("www.example.org", "ANY"),
        ("www.example.org", "AXFR"),
    ],
)
def test_these_questions_do_not_leave(name, kind):
    with asking(Zone({"www.example.org": [RECORDS["TXT"]]})) as outside:
        assert outside.ask(name, kind).answer == []
        assert outside.seen() == []
        assert texts(outside.ask("www.example.org", "TXT"))


@pytest.mark.parametrize("name", ["api.example.org", "_service.api.example.org"])
def test_in_block_all_none_leaves(name):
    with asking(Zone({}), BLOCK_ALL) as outside:
        outside.ask(name, "SRV")
        assert outside.seen() == []


@pytest.mark.parametrize("name", ["_xmpp-client._tcp.example.org", "_dmarc.example.org", "_25._tcp.mail.example.org"])
def test_a_service_is_decided_by_the_name_of_its_host(name):
    with asking(Zone({name: ['60 TXT "found"']})) as outside:
        assert texts(outside.ask(name, "TXT")) == [f'{name}. 60 IN TXT "found"']
        [line] = outside.service.log()
        assert (line["name"], line["result"]) == (name, "forwarded")


def test_what_does_not_exist_does_not_exist():
    with asking(Zone({})) as outside:
        reply = outside.ask("nowhere.example.org")
        assert (reply.rcode(), reply.answer) == (NXDOMAIN, [])


@pytest.mark.parametrize("seconds", [7, 86400])
def test_no_data_comes_with_a_record_of_our_own(seconds):
    with asking(lambda asked: [answer(asked, authority=[soa(seconds)])]) as outside:
        reply = outside.ask("www.example.org")
        assert (reply.rcode(), reply.answer) == (NOERROR, [])
        [told] = reply.authority
        assert (told.rdtype, told.ttl) == (dns.rdatatype.SOA, min(seconds, MAX_NEGATIVE_SECONDS))
        assert "ns.example." not in told.to_text()


def test_an_answer_that_does_not_fit_is_fetched_over_tcp_on_either_side():
    large = [f'60 TXT "{number:03}{"x" * 200}"' for number in range(50)]
    with asking(lambda asked: [truncated(asked)]) as outside:
        outside.nameserver.tcp_script = lambda asked: [
            len(message).to_bytes(2, "big") + message for message in [answer(asked, *large)]
        ]
        reply = outside.ask("www.example.org", "TXT")
        assert (reply.flags & dns.flags.TC, reply.answer) == (dns.flags.TC, [])
        [rrset] = outside.ask("www.example.org", "TXT", tcp=True).answer
        assert len(rrset) == len(large)


def garbled(asked: Asked) -> list[bytes]:
    return [answer(asked, RECORDS["MX"])[:-3]]


def other_name(asked: Asked) -> list[bytes]:
    response = dns.message.from_wire(answer(asked, RECORDS["MX"]))
    response.question = [dns.rrset.from_text("other.example.", 0, "IN", "MX")]
    return [response.to_wire()]


def overlong(asked: Asked) -> list[bytes]:
    """The data of an MX record ends within the name in it."""
    message = answer(asked, RECORDS["MX"])
    at = message.rindex(b"\x04mail")
    return [message[: at - 4] + (4).to_bytes(2, "big") + message[at - 2 : at + 2]]


@pytest.mark.parametrize("script", [garbled, other_name, overlong])
def test_an_answer_that_does_not_hold_together_is_none(script):
    with asking(script) as outside:
        reply = outside.ask("www.example.org")
        assert (reply.rcode(), reply.answer) == (SERVFAIL, [])
        assert outside.nameserver.asked("tcp") == ["MX"], "it was asked again over TCP"


def test_a_resolver_that_refuses_is_a_failure():
    with asking(lambda asked: [answer(asked, rcode=REFUSED)]) as outside:
        reply = outside.ask("www.example.org")
        assert reply.rcode() == SERVFAIL
        assert error(reply) == (23, "the resolver did not answer")


def test_a_silent_resolver_holds_nobody_up():
    with asking(silence) as outside:
        query = dns.message.make_query("www.example.org", "MX")
        assert outside.service.datagram(query.to_wire()) is None
        assert outside.service.ask("www.example.org", "A").answer


def test_in_a_sandbox(universe):
    allow_all, block_all = "mode: allow-all", "mode: block-all\negress: {allowed_domains: [text.test]}"
    with closing(Serving(universe)) as serving, serving.sandbox(allow_all) as (sandbox, jar):
        assert texts(sandbox.resolve("text.test", "TXT")) == ['text.test. 300 IN TXT "some text"']
        assert [seen.what for seen in universe.internet.witness.of_kind("question")] == ["text.test TXT udp"]
        serving.do(lambda: serving.gateway.change_policy(jar.id, policy(block_all, 2)))
        universe.forget()
        assert sandbox.resolve("text.test", "TXT").answer == []
        assert universe.wire.contacts() == set()


class TestAChangeOfPolicy:
    """While questions wait for a resolver that is silent, and that would be asked again."""

    AFTER = 'mode: allow-all\negress: {denied_domains: ["*.silent.test"]}'

    @pytest.fixture
    def served(self, universe):
        universe.zone |= {
            "*.silent.test": Entry(manner=Manner.SILENT),
            "still.granted.test": Entry(manner=Manner.SILENT),
        }
        with closing(Serving(universe)) as serving, serving.sandbox("mode: allow-all") as (sandbox, jar):
            yield serving, sandbox, jar

    @pytest.mark.parametrize("after", ["mode: block-all", AFTER], ids=["block-all", "a denied domain"])
    def test_what_is_denied_now_is_not_asked_again(self, universe, served, after):
        serving, sandbox, jar = served
        with sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", 53))
            for number in range(300):
                client.send(dns.message.make_query(f"n{number}.silent.test", "TXT").to_wire())
            eventually(lambda: len(questions(universe)) >= MAX_FORWARDS)
            serving.change_policy(jar, after)
            universe.forget()
            time.sleep(PATIENCE + 0.5)
            assert questions(universe) == []
            assert universe.wire.contacts() == set()
            serving.change_policy(jar, "mode: allow-all")
            assert texts(sandbox.resolve("text.test", "TXT"))

    @pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
    def test_who_waits_is_told_at_once_and_others_wait_on(self, universe, served, kind):
        serving, sandbox, jar = served
        with sandbox.make_socket(kind=kind) as denied, sandbox.make_socket(kind=kind) as granted:
            for client, name in ((denied, "x.silent.test"), (granted, "still.granted.test")):
                message = dns.message.make_query(name, "TXT", use_edns=0).to_wire()
                client.connect(("127.0.0.1", 53))
                client.sendall(framed(message) if kind == socket.SOCK_STREAM else message)
            eventually(lambda: len(questions(universe)) == 2)
            serving.change_policy(jar, self.AFTER)
            universe.zone |= {"*.silent.test": Entry(text="late"), "still.granted.test": Entry(text="late")}
            replies = [client.recv(9999) for client in (denied, granted)]
            told, found = [
                dns.message.from_wire(reply[2:] if kind == socket.SOCK_STREAM else reply) for reply in replies
            ]
            assert (told.rcode(), told.answer) == (REFUSED, [])
            assert texts(found) == ['still.granted.test. 300 IN TXT "late"']
        assert questions(universe).count("x.silent.test TXT udp") == 1
        assert serving.count(jar, "belljar_bugs_total") == 0

    def test_a_question_that_was_decided_a_moment_before_is_not_asked(self, served, universe, monkeypatch):
        """Between the decision and the first step of the task that forwards."""
        _, sandbox, jar = served
        start = DnsService._start_forward

        def start_and_change(*arguments):
            start(*arguments)
            jar.change_policy(policy(self.AFTER, 2))

        monkeypatch.setattr(DnsService, "_start_forward", start_and_change)
        assert sandbox.resolve("x.silent.test", "TXT").rcode() in (REFUSED, NXDOMAIN)
        assert questions(universe) == []


def questions(universe: Universe) -> list[str]:
    return [seen.what for seen in universe.internet.witness.of_kind("question")]
