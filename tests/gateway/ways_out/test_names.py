"""DNS (ways out 7 to 10, 26 to 28): to ask is not to tell anybody, and answers are not believed blindly."""

import socket
import struct

import dns.message
import dns.query
import dns.rcode
import dns.reversename
import pytest

from tests.gateway.ways_out.agents import TurnedAwayError, request
from tests.universe import Contact, addresses
from tests.universe.clients import records

SECRET = "73656372657420646174612074686174206d757374206e6f74206c65617665"


@pytest.mark.parametrize("kind", ["A", "AAAA", "TXT", "NULL", "HTTPS", "ANY", "MX", "CNAME", "NS", "SRV", "AXFR"])
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize("name", [f"{SECRET}.evil.test", f"{SECRET}.plain.test"])
def test_a_question_for_what_is_denied_goes_nowhere(agent, name, kind, tcp):
    query = dns.message.make_query(name, kind, use_edns=True)
    answer = agent.sandbox.call(dns.query.tcp if tcp else dns.query.udp, query, "127.0.0.1", 10)
    assert answer.rcode() == dns.rcode.REFUSED
    assert answer.answer == []
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("kind", ["A", "AAAA", "TXT", "HTTPS", "MX", "NS", "SRV", "CNAME"])
@pytest.mark.parametrize("name", ["plain.test", f"{SECRET}.wild.test"])
def test_a_question_for_what_is_granted_goes_nowhere_either(agent, name, kind):
    """Names are resolved when a connection is made."""
    assert agent.sandbox.resolve(name, kind).rcode() == dns.rcode.NOERROR
    assert agent.reached_nobody()
    assert agent.get("v4.test").status == 200


def test_only_a_connection_makes_the_resolver_hear_of_a_name(agent):
    agent.sandbox.look_up("fresh.wild.test")
    assert agent.questions() == []
    assert agent.get("fresh.wild.test").status == 200
    assert set(agent.questions()) == {"fresh.wild.test"}


def test_names_under_a_wildcard_are_counted_when_asked_for(enter):
    agent = enter('mode: block-all\negress: {allowed_domains: [plain.test, "*.wild.test"]}', names_under_wildcard=5)
    for number in range(5):
        assert agent.sandbox.look_up(f"{SECRET}{number}.wild.test"[-60:])
    for number in range(5, 10):
        with pytest.raises(socket.gaierror):
            agent.sandbox.look_up(f"{SECRET}{number}.wild.test"[-60:])
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("door", ["connect", "socks", "absolute"])
def test_names_under_a_wildcard_are_counted_when_dialled(enter, door):
    agent = enter('mode: block-all\negress: {allowed_domains: [plain.test, "*.wild.test"]}', names_under_wildcard=5)
    answers = []
    for number in range(9):
        try:
            answers.append(agent.get(f"{door}-{number}.wild.test", door=door).status)
        except TurnedAwayError as failed:
            answers.append(getattr(failed.answer, "status", failed.answer))
    assert answers[:5] == [200] * 5
    assert set(answers[5:]) <= {502, 4}
    assert len(set(agent.questions())) == 5
    assert agent.works(door)


@pytest.mark.parametrize("server", [addresses.RESOLVER, addresses.RESOLVER_V6, "8.8.8.8", addresses.EVIL, "::1"])
@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_every_server_on_port_53_is_the_gateway(agent, server, tcp):
    assert agent.sandbox.resolve("evil.test", server=server, tcp=tcp).rcode() == dns.rcode.REFUSED
    answer = agent.sandbox.resolve("plain.test", server=server, tcp=tcp)
    assert records(answer) == [agent.address_of("plain.test")]
    assert agent.reached_nobody()


@pytest.mark.parametrize("port", [5353, 853, 8853, 443, 5355])
@pytest.mark.parametrize("server", [addresses.RESOLVER, addresses.RESOLVER_V6])
def test_dns_on_other_ports_is_refused(agent, server, port):
    query = dns.message.make_query("evil.test", "A").to_wire()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with agent.sandbox.make_socket(family, socket.SOCK_DGRAM) as client:
        client.connect((server, port))
        client.send(query)
        with pytest.raises(ConnectionRefusedError):
            client.recv(512)
    assert agent.is_reset(server, port, struct.pack("!H", len(query)) + query)
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111"])
@pytest.mark.parametrize("name", ["cloudflare-dns.com", "dns.google", None])
def test_dns_over_https_is_a_connection_like_any_other(agent, address, name):
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        agent.handshake(address, name)
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(name or address, 443, door)
    assert agent.reached_nobody()
    assert agent.works()


ALIASES = "mode: block-all\negress: {allowed_domains: [plain.test, %s]}"


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("alias.test", addresses.PUBLIC_V6),
        ("long-alias.test", addresses.PUBLIC_V6),
        ("alias-to-evil.test", addresses.EVIL_V6),
    ],
)
def test_an_alias_is_decided_by_the_name_that_was_asked_for(enter, name, where):
    """Whoever grants a name trusts its owner to say where it is; the names on the way there gain nothing."""
    agent = enter(ALIASES % name)
    assert agent.get(name).body == f"{name} /\n".encode()
    assert {seen.address for seen in agent.universe.internet.witness.of_kind("request")} == {where}
    with pytest.raises(TurnedAwayError):
        agent.dial("evil.test", 80, "connect")


@pytest.mark.parametrize(
    ("name", "status"), [("alias-to-private.test", 403), ("loop.test", 502), ("alias-to-nowhere.test", 502)]
)
def test_an_alias_that_leads_astray(share, name, status):
    agent = share(ALIASES % name)
    assert agent.get(name).status == status
    assert agent.reached_nobody(but_resolver=True)
    assert agent.works()


@pytest.mark.parametrize("name", ["truncated.test", "forged.test", "huge-ttl.test", "zero-ttl.test"])
def test_a_resolver_in_trouble_or_under_attack(enter, name):
    agent = enter(ALIASES % name)
    assert agent.get(name).status == 200
    assert Contact("tcp", addresses.EVIL, 80) not in agent.universe.wire.contacts()


@pytest.mark.parametrize("name", ["garbled.test", "failing.test", "nothing.test"])
def test_a_resolver_that_is_of_no_help(enter, name):
    agent = enter(ALIASES % name)
    assert agent.get(name).status == 502
    assert agent.reached_nobody(but_resolver=True)
    assert agent.works()


def test_a_name_that_moves_is_found_where_it_is(enter):
    agent = enter(ALIASES % "moving.test")
    first = agent.dial("moving.test", 80)
    assert request(first, "/", "moving.test").status == 200
    assert agent.get("moving.test").status == 200
    assert request(first, "/again", "moving.test").status == 200
    first.close()
    seen = [seen.address for seen in agent.universe.internet.witness.of_kind("request")]
    assert seen[0] == seen[2] != seen[1]


@pytest.mark.parametrize("name", ["many.test", "hundred.test"])
def test_a_name_with_many_addresses(enter, name):
    agent = enter(ALIASES % name)
    assert agent.get(name).status == 200


# Virtual addresses.


def test_every_name_has_addresses_of_its_own_and_keeps_them(agent):
    names = ["plain.test", "v4.test", "v6.test", "one.cdn.test", "a.wild.test", "b.wild.test"]
    found = [address for name in names for address in agent.sandbox.look_up(name)]
    assert len(set(found)) == 2 * len(names)
    assert [address for name in names for address in agent.sandbox.look_up(name.upper())] == found


@pytest.mark.parametrize("address", ["198.18.200.1", "198.19.255.1", "fd62:656c:6c6a::9999"])
@pytest.mark.parametrize(
    "policy", ["mode: block-all\negress: {allowed_domains: [plain.test]}", "mode: allow-all\nallow_private: true"]
)
def test_an_address_that_was_never_handed_out_leads_nowhere(share, address, policy):
    agent = share(policy)
    page = agent.get(address, called="plain.test")
    assert page.problem["reason"] == agent.reason() == "reserved_address"
    assert agent.reached_nobody()
    assert agent.works()


def test_addresses_mean_nothing_in_another_sandbox(enter):
    one = enter("mode: block-all\negress: {allowed_domains: [plain.test, other.test]}")
    theirs = [one.address_of(name, six=six) for name in ("plain.test", "other.test") for six in (False, True)]
    other = enter("mode: block-all\negress: {allowed_domains: [plain.test]}")
    for address in theirs:
        assert records(other.sandbox.resolve(reverse(address), "PTR")) == []
        assert other.get(address, called="other.test").status == 403
    assert other.reached_nobody()
    assert other.works()


def test_an_address_from_before_a_restart_does_not_lead_to_another_name_unseen(serving, enter):
    """The sandbox stays, the gateway's memory does not: an old address may be handed out again."""
    agent = enter("mode: block-all\negress: {allowed_domains: [plain.test, v4.test]}")
    old = agent.address_of("v4.test")
    serving.do(lambda: setattr(agent.jar, "names", type(agent.jar.names)()))
    assert agent.get(old, called="v4.test").problem["reason"] == "reserved_address"
    assert agent.address_of("plain.test") == old
    assert agent.get(old, called="v4.test").problem["reason"] == "name_mismatch"
    assert agent.requests() == []
    assert agent.works()


def test_the_name_of_an_address(agent):
    for six in (False, True):
        answer = agent.sandbox.resolve(reverse(agent.address_of("plain.test", six=six)), "PTR")
        assert records(answer) == ["plain.test."]
    for address in (addresses.EVIL, addresses.EVIL_V6, addresses.PUBLIC, "10.0.0.1", "198.18.200.1"):
        assert agent.sandbox.resolve(reverse(address), "PTR").rcode() == dns.rcode.NXDOMAIN
    assert agent.reached_nobody()


@pytest.mark.parametrize("door", ["connect", "socks"])
@pytest.mark.parametrize("six", [False, True], ids=["v4", "v6"])
def test_a_proxy_knows_virtual_addresses_too(agent, door, six):
    """Some clients look a name up themselves, and then ask a proxy for the address."""
    assert agent.get(agent.address_of("plain.test", six=six), door=door, called="plain.test").status == 200
    assert agent.get(agent.address_of("plain.test", six=six), door=door, called="evil.test").status == 403


def test_questions_in_one_breath(agent):
    names = ["plain.test", "evil.test", "v4.test", "other.test"] * 25
    queries = [dns.message.make_query(name, "A").to_wire() for name in names]
    with agent.sandbox.connect("127.0.0.1", 53) as client:
        client.sendall(b"".join(struct.pack("!H", len(query)) + query for query in queries))
        answers = [dns.message.from_wire(read_frame(client)) for _ in names]
    assert [answer.question[0].name.to_text(omit_final_dot=True) for answer in answers] == names
    assert [bool(answer.answer) for answer in answers] == [True, False, True, False] * 25
    assert agent.reached_nobody()


def read_frame(client: socket.socket) -> bytes:
    (length,) = struct.unpack("!H", client.recv(2, socket.MSG_WAITALL))
    return client.recv(length, socket.MSG_WAITALL)


def reverse(address: str) -> str:
    return dns.reversename.from_address(address).to_text()
