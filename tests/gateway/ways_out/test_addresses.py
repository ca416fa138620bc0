"""Addresses (ways out 11, 21, 23 to 25, 41): a name grants, an address does not, and some lead nowhere for anybody."""

import errno
import socket
from itertools import product

import pytest

from tests.gateway.serving import Serving
from tests.gateway.ways_out.agents import Agent, TurnedAwayError, ask_socks
from tests.universe import addresses
from tests.universe.clients import received

OPEN = "mode: allow-all\nallow_private: true\negress: {denied_domains: [nobody.test]}\nhost_ports: [7, 5432]"
"""The most open policy there is."""


@pytest.mark.parametrize(
    ("address", "port"),
    [
        *product([addresses.PUBLIC, addresses.PUBLIC_V6], [22, 80, 443, 5432]),
        *product([addresses.EVIL, addresses.EVIL_V6], [22, 443, 5432]),
    ],
)
def test_an_address_found_elsewhere(agent, address, port):
    """Also that of a granted name: who dials an address has to say a name, or be granted the address."""
    assert agent.is_reset(address, port)
    assert agent.reason() == "not_allowed_address"
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(address, port, door)
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("door", ["direct", "connect", "socks"])
@pytest.mark.parametrize("address", ["203.0.113.12", "2001:db8::12"])
def test_an_address_that_is_granted(agent, door, address):
    with agent.dial(address, addresses.DATABASE, door) as client:
        client.sendall(b"hello")
        assert client.recv(5, socket.MSG_WAITALL) == b"hello"


@pytest.mark.parametrize("text", [b"203.0.113.12", b"[2001:db8::12]"])
def test_an_address_that_is_granted_and_sent_as_a_name(agent, text):
    with ask_socks(agent.sandbox.connect("127.0.0.1", 1080), text, addresses.DATABASE) as client:
        client.sendall(b"hello")
        assert client.recv(5, socket.MSG_WAITALL) == b"hello"


PORTS = [1, 21, 25, 81, 1080, 3128, 6002, 8080, 15001, 15002, 15003, 65535]


@pytest.mark.parametrize(
    "host", ["plain.test", addresses.EVIL, addresses.EVIL_V6, addresses.METADATA, addresses.GATEWAY]
)
@pytest.mark.parametrize("port", PORTS)
def test_every_other_port(agent, host, port):
    for door in ("direct", "direct6") if host == "plain.test" else ("direct",):
        assert agent.is_reset(host, port, door=door)
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(host, port, door)
    assert agent.reason() in ("port_not_allowed", "not_allowed_address", "reserved_address")
    assert agent.reached_nobody()
    assert agent.works()


CLOSED_TO_ALL = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "224.0.0.251",
    "240.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    addresses.GATEWAY,
    "::1",
    "::",
    "::ffff:169.254.169.254",
    "::ffff:127.0.0.1",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2002:7f00:1::1",
    "2001:0:0:0:0:0:5601:5601",  # Teredo: the address is inverted
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "fe80::1",
    "ff02::1",
    addresses.GATEWAY_V6,
    f"::ffff:{addresses.GATEWAY}",
    f"64:ff9b::{addresses.GATEWAY}",
]


@pytest.mark.parametrize("address", CLOSED_TO_ALL)
def test_what_no_policy_opens(share, address):
    agent = share(OPEN)
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(address, 80, door)
        assert agent.reason() == "reserved_address"
    assert agent.reached_nobody()
    assert agent.works("connect")


@pytest.mark.parametrize("address", [text for text in CLOSED_TO_ALL if not text.startswith(("127.", "0.", "::"))])
def test_what_no_policy_opens_when_dialled(share, address):
    """The loopback addresses are missing here, since they are the sandbox's own, and so is what means the same."""
    agent = share(OPEN)
    try:
        assert agent.is_reset(address, 80)
    except OSError as error:  # not even the kernel would go there
        assert error.errno in (errno.EACCES, errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH)
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize(
    "spelling",
    [
        b"2852039166",
        b"0xA9FEA9FE",
        b"0251.0376.0251.0376",
        b"0xa9.0xfe.0xa9.0xfe",
        b"169.254.43518",
        b"169.16689662",
        b"169.254.169.254.",
        b"[::ffff:a9fe:a9fe]",
        b"[64:ff9b::a9fe:a9fe]",
        b"127.1",
        b"0",
        b"metadata.google.internal",
        b"METADATA.google.internal.",
        b"metadata",
        b"instance-data",
        b"instance-data.ec2.internal",
        b"localhost",
        b"x.localhost",
        b"host.containers.internal",
        b"gateway.docker.internal",
        b"kubernetes.default.svc",
    ],
)
def test_what_no_policy_opens_in_other_spellings(share, spelling):
    agent = share(OPEN)
    with pytest.raises(TurnedAwayError):
        ask_socks(agent.sandbox.connect("127.0.0.1", 1080), spelling, 80)
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        proxy.sendall(b"GET http://%b/latest/meta-data HTTP/1.1\r\nHost: %b\r\n\r\n" % (spelling, spelling))
        assert received(proxy).startswith(b"HTTP/1.1 403 ")
    assert agent.reason() in ("reserved_address", "reserved_name", "protocol_refused")
    assert agent.reached_nobody()
    assert agent.works("socks")


CLOSED_NAMES = [
    "loopback.test",
    "unspecified.test",
    "metadata.test",
    "metadata-elsewhere.test",
    "gateway.test",
    "multicast.test",
    "mixed-families.test",
    "nat64.test",
    "6to4.test",
]
PRIVATE_NAMES = ["private.test", "private-v6.test", "mapped.test", "mixed.test", "alias-to-private.test"]


@pytest.mark.parametrize("name", CLOSED_NAMES)
def test_a_name_that_leads_where_no_policy_does(share, name):
    agent = share(OPEN)
    assert agent.get(name).problem["reason"] == agent.reason() == "reserved_address"
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(name, 443, door)
    assert agent.reached_nobody(but_resolver=True)
    assert agent.works()


@pytest.mark.parametrize("name", [*CLOSED_NAMES, *PRIVATE_NAMES])
@pytest.mark.parametrize(
    "policy",
    [
        "mode: allow-all",
        f"mode: block-all\negress: {{allowed_domains: {[*CLOSED_NAMES, *PRIVATE_NAMES, 'plain.test']}}}",
    ],
    ids=["allow-all", "granted"],
)
def test_a_name_that_leads_inside(share, name, policy):
    agent = share(policy)
    assert agent.get(name).problem["reason"] == agent.reason() == "reserved_address"
    assert agent.reached_nobody(but_resolver=True)
    assert agent.works()


@pytest.mark.parametrize(("name", "range_"), [("private.test", "10.9.0.0/16"), ("private-v6.test", "fd00:9::/32")])
def test_a_name_that_leads_inside_where_that_is_opened(enter, name, range_):
    agent = enter(f"mode: block-all\negress: {{allowed_domains: [{name}], allowed_cidrs: ['{range_}']}}")
    assert agent.get(name).status == 200


def test_a_name_that_changes_its_mind(enter):
    """One lookup, one check, one dial: there is nothing in between to change."""
    agent = enter("mode: block-all\negress: {allowed_domains: [plain.test, rebinding.test]}")
    statuses = [agent.get("rebinding.test").status for _ in range(6)]
    assert statuses in ([200, 403] * 3, [403, 200] * 3)
    reached = {contact.address for contact in agent.universe.wire.contacts() if contact.protocol == "tcp"}
    assert reached == {addresses.PUBLIC}


def test_a_connection_is_not_moved_by_a_later_answer(enter):
    agent = enter("mode: block-all\negress: {allowed_domains: [rebinding.test]}")
    while agent.get("rebinding.test").status != 403:  # so that the next answer is the good one
        pass
    with agent.dial("rebinding.test", 80) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: rebinding.test\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        assert agent.get("rebinding.test").status == 403
        client.sendall(b"GET /same HTTP/1.1\r\nHost: rebinding.test\r\nConnection: close\r\n\r\n")
        assert received(client).endswith(b"rebinding.test /same\n")


def test_the_hosts_own_file_of_names_is_guarded_like_any_other_source(universe, tmp_path):
    """It is the operator's, but what it says of a name was not written with sandboxes in mind."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 v4.test\n10.9.0.1 other.test\n203.0.113.12 plain.test\n")
    serving = Serving(universe, hosts=hosts)
    with serving.sandbox("mode: block-all\negress: {allowed_domains: [v4.test, other.test, plain.test]}") as (
        inside,
        jar,
    ):
        agent = Agent(serving, inside, jar, hosts)
        for name in ("v4.test", "other.test"):
            assert agent.get(name).problem["reason"] == "reserved_address"
        assert agent.reached_nobody()
        assert agent.works()
        assert agent.questions() == []
        assert {contact.address for contact in universe.wire.contacts()} == {"203.0.113.12"}
    serving.close()


# The host's own services.


@pytest.mark.parametrize("door", ["direct", "direct6", "connect", "socks"])
@pytest.mark.parametrize("name", ["host.belljar.internal", "host.docker.internal"])
def test_services_of_the_host(share, name, door):
    agent = share("mode: block-all\nhost_ports: [5432]")
    with agent.dial(name, addresses.DATABASE, door) as client:
        client.sendall(b"\0hello")
        assert client.recv(6, socket.MSG_WAITALL) == b"\0hello"
    assert {(seen.address, seen.port) for seen in agent.universe.gateway.seen} <= {("127.0.0.1", 5432), ("::1", 5432)}
    assert agent.universe.wire.contacts() == set()


@pytest.mark.parametrize("door", ["direct", "direct6", "connect", "socks"])
@pytest.mark.parametrize("name", ["host.belljar.internal", "host.docker.internal"])
@pytest.mark.parametrize("port", [7, 80, 15001])
def test_other_services_of_the_host(share, name, door, port):
    agent = share("mode: block-all\nhost_ports: [5432]\negress: {allowed_domains: [plain.test]}")
    if door.startswith("direct"):
        assert agent.is_reset(name, port, door=door)
    else:
        with pytest.raises(TurnedAwayError):
            agent.dial(name, port, door)
    assert agent.reason() == "host_port_not_allowed"
    assert agent.reached_nobody()
    assert agent.works(door)


@pytest.mark.parametrize("port", [80, 5432])
@pytest.mark.parametrize("name", ["gateway.test", "loopback.test"])
def test_a_name_of_somebody_else_for_the_host(share, name, port):
    agent = share(f"mode: block-all\nhost_ports: [5432]\negress: {{allowed_domains: [plain.test, '{name}:{port}']}}")
    with pytest.raises(TurnedAwayError) as denied:
        agent.dial(name, port, "connect")
    assert denied.value.answer.problem["reason"] == agent.reason() == "reserved_address"
    assert agent.reached_nobody(but_resolver=True)
    assert agent.works()
