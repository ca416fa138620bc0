"""Addresses of the host that nobody could list (ways out 22 and 63): those that came later, and those in its routes.

In the gateway's place every address that it has offers every service, and a witness sees who calls. Each address below is
also one of the internet, where it answers, too: what is denied is denied because of whose it is, and for no longer.
"""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from belljar.linux.programs import run
from tests.gateway.serving import eventually
from tests.gateway.ways_out.agents import Agent, TurnedAwayError
from tests.universe import Contact, Universe, addresses
from tests.universe.clients import dial
from tests.universe.zone import at

LATE, LATE_V6 = "203.0.113.77", "2001:db8:77::1"

PLACES = {
    "an address of an interface": (LATE, ["address {change} %s/32 dev wire"]),
    "one of a new interface": (
        "172.30.0.1",
        ["link {change} name late type veth peer name later", "address {change} 172.30.0.1/16 dev late"],
    ),
    "one that embeds it": (f"::ffff:{LATE}", [f"address {{change}} {LATE}/32 dev wire"]),
    "a local range": ("203.0.113.133", ["route {change} local 203.0.113.128/29 dev lo"]),
    "a rule": (
        "203.0.113.140",
        ["route {change} local 203.0.113.140 dev lo table 100", "rule {change} to 203.0.113.140 lookup 100"],
    ),
    "an IPv6 address": (LATE_V6, ["address {change} %s/128 dev wire"]),
    "a local range in IPv6": ("2001:db8:78::9", ["route {change} local 2001:db8:78::/96 dev lo"]),
    "a local route in IPv6": ("2001:db8:79::1", ["route {change} local 2001:db8:79::1/128 dev lo"]),
}
"""How an address becomes the host's own."""

every_place = pytest.mark.parametrize(("address", "changes"), PLACES.values(), ids=PLACES.keys())

OPEN = "mode: allow-all\nallow_private: true"
BY_RANGE = "mode: block-all\negress: {allowed_domains: [plain.test], allowed_cidrs: ['%s', 203.0.113.0/24]}"
BY_RULE = "mode: block-all\nrules: [{action: allow, cidrs: ['%s']}]\negress: {allowed_domains: [plain.test]}"
BY_NAME = "mode: block-all\nallow_private: true\negress: {allowed_domains: [plain.test, 'late.test', 'late.test:7']}"


@contextmanager
def own(universe: Universe, address: str, changes: list[str]) -> Iterator[None]:
    """Have an address be the gateway's own, with services that answer at it, for the length of a block."""
    filled = [change.replace("%s", address) for change in changes]
    ip(universe, [change.format(change="add") for change in filled])
    try:
        plain = address.removeprefix("::ffff:")
        with dial(universe.gateway, plain, addresses.ECHO) as host:  # the witness is awake
            host.sendall(b"hello")
            assert host.recv(9) == b"hello"
        assert universe.gateway.seen != []
        universe.forget()
        universe.zone["late.test"] = at(address)
        universe.zone["mixed-late.test"] = at(addresses.PUBLIC, address)
        yield
    finally:
        ip(universe, [change.format(change="delete").removesuffix(" nodad") for change in reversed(filled)])


def ip(universe: Universe, commands: list[str]) -> None:
    """Change the network of the gateway's place; what goes with a new interface comes with it."""
    for command in commands:
        if command.startswith("address delete") and command.endswith("dev late"):
            continue
        words = command.split()
        if words[:2] == ["link", "delete"]:
            words = words[:4]
        elif words[0] == "address" and ":" in words[2] and words[1] == "add":
            words.append("nodad")
        universe.gateway.call(run, "ip", *words)
        if words[:2] == ["link", "add"]:
            for end in ("late", "later"):
                universe.gateway.call(run, "ip", "link", "set", "dev", end, "up")


def assert_denied(agent: Agent, host: str, door: str, port: int = addresses.HTTP) -> None:
    """Check that a destination is denied for what it is, and that nobody has heard of it."""
    if door == "direct":
        assert agent.get(host, port=port).problem["reason"] == "reserved_address"
    else:
        with pytest.raises(TurnedAwayError):
            agent.dial(host, port, door)
    assert agent.reason() == "reserved_address"
    assert "an address of the host" in agent.denials()[0].sentence
    assert agent.reached_nobody(but_resolver=True)


@pytest.mark.parametrize("policy", [OPEN, BY_RANGE, BY_RULE], ids=["allow-all", "a range", "a rule"])
@pytest.mark.parametrize("door", ["direct", "connect", "socks"])
@every_place
def test_an_address_that_came_later(enter, universe, address, changes, door, policy):
    if address.startswith("::ffff:") and door == "direct":
        pytest.skip("the sandbox's own kernel takes it for IPv4")
    granted = address.removeprefix("::ffff:")
    agent = enter(policy.replace("%s", granted))
    with own(universe, address, changes):
        assert_denied(agent, address, door)
        assert agent.works(door)
    universe.forget()
    with agent.dial(address, addresses.ECHO, door) as client:  # nobody remembers
        client.sendall(b"\0hello")
        assert client.recv(9) == b"\0hello"
    assert {contact.address for contact in universe.wire.contacts()} == {granted}
    assert universe.gateway.seen == []


@pytest.mark.parametrize("door", ["direct", "connect", "socks"])
@every_place
def test_an_address_that_was_there_before(enter, universe, address, changes, door):
    """The policy is compiled with the addresses of interfaces, and of those it knows some only."""
    if address.startswith("::ffff:") and door == "direct":
        pytest.skip("the sandbox's own kernel takes it for IPv4")
    with own(universe, address, changes):
        agent = enter(OPEN)
        assert_denied(agent, address, door)
        assert agent.works(door)


@pytest.mark.parametrize("name", ["late.test", "mixed-late.test"])
@pytest.mark.parametrize("door", ["direct", "connect", "socks"])
@every_place
def test_a_name_that_leads_there(enter, universe, address, changes, door, name):
    agent = enter(BY_NAME.replace("late.test", name))
    with own(universe, address, changes):
        assert_denied(agent, name, door)
        assert_denied(agent, name, "connect", addresses.ECHO)
        assert agent.works(door)
    universe.forget()
    assert agent.get(name, door=door).status == 200
    assert universe.gateway.seen == []


@pytest.mark.parametrize("named", [False, True], ids=["by address", "by name"])
@every_place
def test_datagrams(enter, universe, address, changes, named):
    if address.startswith("::ffff:"):
        pytest.skip("the sandbox's own kernel takes it for IPv4")
    agent = enter(OPEN, udp=True)
    with own(universe, address, changes):
        with datagrams_to(agent, agent.address_of("late.test") if named else address) as client:
            client.send(b"hello")
            with pytest.raises(ConnectionRefusedError):
                client.recv(9)
        assert agent.reason() == "reserved_address"
        assert agent.reached_nobody(but_resolver=True)
        with datagrams_to(agent, addresses.PUBLIC) as client:
            client.send(b"hello")
            assert client.recv(9) == b"hello"
    with datagrams_to(agent, agent.address_of("late.test") if named else address) as client:
        client.send(b"hello")
        assert client.recv(9) == b"hello"
    assert universe.gateway.seen == []


def test_datagrams_to_the_routers_of_a_network_of_the_host(enter, universe):
    """A host that forwards is one of the routers that the first address of its networks stands for (anycast)."""
    routers = addresses.GATEWAY_V6.removesuffix("1")
    agent = enter(OPEN, udp=True)
    universe.gateway.call(run, "sysctl", "-q", "-w", "net.ipv6.conf.wire.forwarding=1")
    try:
        with datagrams_to(universe.gateway, routers) as host:
            host.settimeout(10)
            host.send(b"awake?")
            eventually(lambda: universe.gateway.seen)
        universe.forget()
        with datagrams_to(agent, routers) as client:
            client.send(b"hello")
            with pytest.raises(ConnectionRefusedError):
                client.recv(9)
        assert agent.reason() == "reserved_address"
        assert agent.reached_nobody()
        assert agent.works()
    finally:
        universe.gateway.call(run, "sysctl", "-q", "-w", "net.ipv6.conf.wire.forwarding=0")


@pytest.mark.parametrize("address", ["192.0.2.3", "192.0.2.0"])
def test_everybody_in_a_network_of_the_host(enter, universe, address):
    agent = enter(OPEN)
    assert_denied(agent, address, "connect") if address.endswith("3") else agent.is_reset(address, 80)
    assert agent.reached_nobody()
    assert agent.works()


def test_an_address_that_comes_while_it_is_dialled(enter, universe):
    """The kernel sends the second SYN to the host itself, and a service there accepts. It gets nothing."""
    agent = enter(OPEN)
    with agent.sandbox.connect(addresses.BLACK_HOLE, addresses.HTTP) as client:
        client.sendall(b"GET /secret HTTP/1.1\r\nHost: plain.test\r\n\r\n")
        eventually(lambda: Contact("tcp", addresses.BLACK_HOLE, addresses.HTTP) in universe.wire.contacts())
        universe.gateway.call(run, "ip", "address", "add", f"{addresses.BLACK_HOLE}/32", "dev", "wire")
        try:
            assert client.recv(9999).startswith(b"HTTP/1.1 403 ")
        finally:
            universe.gateway.call(run, "ip", "address", "delete", f"{addresses.BLACK_HOLE}/32", "dev", "wire")
    assert agent.reason() == "reserved_address"
    assert universe.gateway.witness.of_kind("request") == []
    assert agent.works()


def test_a_rule_that_the_kernel_follows_by_the_source_that_it_chose(enter, universe):
    """The first look-up knows no source, so the connection is made, and found out before it carries anything."""
    commands = [
        "route {change} local 203.0.113.150 dev lo table 100",
        f"rule {{change}} from {addresses.GATEWAY} lookup 100",
    ]
    agent = enter(OPEN)
    ip(universe, [command.format(change="add") for command in commands])
    try:
        assert agent.get("203.0.113.150").problem["reason"] == agent.reason() == "reserved_address"
        assert universe.gateway.witness.of_kind("request") == []
        assert agent.works()
    finally:
        ip(universe, [command.format(change="delete") for command in commands])


def test_a_flow_that_is_live_goes_where_it_went(enter, universe):
    agent = enter(OPEN)
    with agent.dial(LATE, addresses.ECHO) as client:
        client.sendall(b"\0one")
        assert client.recv(4, socket.MSG_WAITALL) == b"\0one"
        with own(universe, *PLACES["an address of an interface"]):
            assert_denied(agent, LATE, "connect")
        client.sendall(b"\0two")
        assert client.recv(4, socket.MSG_WAITALL) == b"\0two"


@pytest.mark.parametrize("door", ["direct", "connect", "socks"])
def test_a_kernel_that_does_not_say(enter, serving, universe, door):
    """Nothing is dialled, and the audit log says why."""
    agent = enter(OPEN)
    silent, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    routes = serving.gateway._dialler._routes

    def break_off() -> None:
        routes.close()
        routes._socket = silent

    serving.do(break_off)
    with other:
        assert fails(lambda: agent.dial(LATE, addresses.SSH, door).recv(1))
        agent.settle()
        [closed] = [line for line in agent.audit() if line["event"] == "flow.closed"]
        assert closed["how"] == "failed"
        assert closed["error"].startswith(f"the kernel does not say whether {LATE} is an address of this host: ")
        assert agent.reached_nobody()
    serving.do(routes.close)
    assert agent.works(door)


def fails(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except TurnedAwayError:
        return True
    except OSError as error:
        return error.errno == errno.ECONNRESET
    return False


def datagrams_to(where: "Agent | object", address: str) -> socket.socket:
    """Make a socket, in a sandbox or a place, that is connected to an address's echo."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if isinstance(where, Agent):
        made = where.sandbox.make_socket(family, socket.SOCK_DGRAM)
    else:
        made = where.call(socket.socket, family, socket.SOCK_DGRAM)  # type: ignore[attr-defined]
    made.connect((address, addresses.ECHO))
    return made
