"""One host, many spellings (way out 3): what is matched is what is resolved and dialled, or nothing is."""

import socket

import dns.message
import dns.query
import pytest

from tests.gateway.ways_out.agents import TurnedAwayError, ask_socks
from tests.universe import addresses
from tests.universe.clients import received
from tests.wire.hellos import hello, server_name

DECEPTIVE = {
    "nul": b"evil.test\0.plain.test",
    "nul-behind": b"plain.test\0.evil.test",
    "percent": b"evil.test%00.plain.test",
    "user": b"plain.test:80@evil.test",
    "at": b"plain.test@evil.test",
    "brackets": b"[plain.test]",
    "space": b"plain.test evil.test",
    "space-behind": b"plain.test ",
    "tab": b"plain.test\tevil.test",
    "backslash": b"plain.test\\evil.test",
    "hash": b"plain.test#evil.test",
    "ideographic-dot": "plain\u3002test".encode(),
    "wide-letters": "\uff50lain.test".encode(),
    "cyrillic": "pl\u0430in.test".encode(),
    "not-punycode": b"xn--plain.test",
    "two-dots": b"plain..test",
    "dot-in-front": b".plain.test",
    "two-dots-behind": b"plain.test..",
    "underscore": b"_x.wild.test",
    "asterisk": b"*.wild.test",
    "hyphen": b"-x.wild.test",
    "too-long": b".".join([b"a" * 61, *[b"a" * 60] * 3]) + b".wild.test",
    "long-label": b"a" * 64 + b".wild.test",
    "wildcard-itself": b"wild.test",
    "suffix": b"evilplain.test",
    "prefix": b"plain.test.evil.test",
    "empty": b"",
}

IN_HTTP_SOMETHING_ELSE = {
    "cr-lf": b"plain.test\r\nX-Host: evil.test",
    "slash": b"plain.test/evil.test",
}
"""A line that ends, or a path that begins, behind an innocent name."""

ADDRESSES = {
    "plain": b"203.0.113.99",
    "in-brackets": b"[2001:db8::99]",
    "octal": b"0313.0.0161.0143",
    "hexadecimal": b"0xcb007163",
    "decimal": b"3405803875",
    "short": b"203.113.99",
    "zone": b"fe80::1%lo",
    "mapped": b"[::ffff:203.0.113.99]",
}

DECEPTIVE |= ADDRESSES


@pytest.mark.parametrize("name", (DECEPTIVE | IN_HTTP_SOMETHING_ELSE).values(), ids=DECEPTIVE | IN_HTTP_SOMETHING_ELSE)
def test_in_socks(agent, name):
    with pytest.raises(TurnedAwayError) as denied:
        ask_socks(agent.sandbox.connect("127.0.0.1", 1080), name, 80)
    assert denied.value.answer in (1, 2)
    assert agent.reason() in ("protocol_refused", "not_allowed_domain", "not_allowed_address")
    assert agent.reached_nobody()
    assert agent.works("socks")


@pytest.mark.parametrize("name", DECEPTIVE.values(), ids=DECEPTIVE)
@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT %b:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n",
        b"CONNECT %b:80 HTTP/1.0\r\n\r\n",
        b"GET http://%b/ HTTP/1.0\r\n\r\n",
        b"GET http://plain.test/ HTTP/1.1\r\nHost: %b\r\n\r\n",
    ],
    ids=["connect", "connect-without-host", "absolute", "host"],
)
def test_in_the_http_proxy(agent, name, head):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        proxy.sendall(head % name)
        assert received(proxy).startswith(b"HTTP/1.1 403 ")
    assert agent.reason() in ("protocol_refused", "not_allowed_domain", "not_allowed_address")
    assert agent.reached_nobody()
    assert agent.works("absolute")


@pytest.mark.parametrize("name", DECEPTIVE.values(), ids=DECEPTIVE)
def test_in_the_host_header_of_a_connection_by_address(agent, name):
    answer = agent.say(addresses.EVIL, 80, b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % name)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("name", DECEPTIVE.values(), ids=DECEPTIVE)
@pytest.mark.parametrize("host", [addresses.EVIL, "plain.test"])
def test_in_the_server_name(agent, name, host):
    assert agent.say(host, 443, hello(server_name(name))) == bytes.fromhex("15030300020231")
    assert agent.reason() in ("protocol_refused", "not_allowed_domain", "not_allowed_address", "name_mismatch")
    assert agent.handshakes() == []
    assert agent.works()


@pytest.mark.parametrize("name", ["plain.test", "PLAIN.test", "pLaIn.TeSt", "plain.test."])
@pytest.mark.parametrize("door", ["connect", "socks", "absolute", "direct"])
def test_other_spellings_of_a_granted_name_are_the_same_name(agent, name, door):
    assert agent.get(name, door=door).status == 200
    assert {seen.address for seen in agent.universe.internet.witness.of_kind("request")} == {addresses.PUBLIC_V6}


@pytest.mark.parametrize("name", ["EVIL.test", "evil.TEST.", "eViL.tEsT"])
def test_other_spellings_of_a_denied_name_are_denied(agent, name):
    with pytest.raises(socket.gaierror):
        agent.dial(name, 80)
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(name, 80, door)
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("suffix", ["corp.lan", "svc.cluster.local", "dns.podman", "evil.test"])
def test_a_search_domain_makes_another_name(agent, suffix):
    with pytest.raises(socket.gaierror):
        agent.sandbox.look_up(f"plain.test.{suffix}")
    assert agent.reason() == "not_allowed_domain"
    assert agent.sandbox.look_up("plain.test")
    assert agent.reached_nobody()


def test_a_question_is_answered_in_the_letters_it_came_in(agent):
    query = dns.message.make_query("pLaIn.TEST", "A")
    answer = agent.sandbox.call(dns.query.udp, query, "127.0.0.1", 10)
    assert answer.question[0].name.to_text() == "pLaIn.TEST."
    assert answer.answer[0][0].to_text() == agent.address_of("plain.test")
    assert agent.reached_nobody()
