"""Addresses of the host that nobody could list (ways out 22 and 63): those that came later, and those in its routes.

In the gateway's place every address that it has offers every service, and a witness sees who calls. Each address below
is also one of the internet, where it answers, too: what is denied is denied because of whose it is, and for no longer.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from belljar.linux.programs import run
from tests.gateway.serving import eventually
from tests.gateway.ways_out.agents import Agent, TurnedAwayError
from tests.universe import Contact, Universe, addresses
from tests.universe.clients import PATIENCE, dial
from tests.universe.places import Place as Network
from tests.universe.zone import at

LATE = "203.0.113.77"


class Place(NamedTuple):
    """An address, and what of the gateway's network makes it the host's own; for `ip`, with an `add` to come."""

    address: str
    network: tuple[str, ...]


BY_ADDRESS = Place(LATE, (f"address add {LATE}/32 dev wire",))
PLACES = {
    "an interface": BY_ADDRESS,
    "a new interface": Place("172.30.0.1", ("link add name late type veth", "address add 172.30.0.1/16 dev late")),
    "a local range": Place("203.0.113.133", ("route add local 203.0.113.128/29 dev lo",)),
    "an interface, IPv6": Place("2001:db8:77::1", ("address add 2001:db8:77::1/128 dev wire nodad",)),
    "a local range, IPv6": Place("2001:db8:78::9", ("route add local 2001:db8:78::/96 dev lo",)),
    "a local route, IPv6": Place("2001:db8:79::1", ("route add local 2001:db8:79::1/128 dev lo",)),
}
"""How an address becomes the host's own."""

every_place = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
every_door = pytest.mark.parametrize("door", ["direct", "connect", "socks"])

OPEN = "mode: allow-all\nallow_private: true"
BY_RANGE = "mode: block-all\negress: {allowed_domains: [plain.test], allowed_cidrs: ['%s']}"
BY_RULE = "mode: block-all\nrules: [{action: allow, cidrs: ['%s']}]\negress: {allowed_domains: [plain.test]}"
BY_NAME = "mode: block-all\nallow_private: true\negress: {allowed_domains: [plain.test, %s, '%s:7']}"


@contextmanager
def changed(universe: Universe, *network: str) -> Iterator[None]:
    """Have something more in the network of the gateway's place, for the length of a block."""
    universe.gateway.call(run, "ip", "-batch", "-", text="\n".join(network))
    if any(line.startswith("link ") for line in network):
        universe.gateway.call(run, "ip", "link", "set", "dev", "late", "up")
    try:
        yield
    finally:
        removal = [line.replace(" add ", " delete ").removesuffix(" nodad") for line in reversed(network)]
        universe.gateway.call(run, "ip", "-batch", "-", text="\n".join(removal))


@contextmanager
def own(universe: Universe, place: Place) -> Iterator[None]:
    """Have an address be the gateway's own, for the length of a block: services answer at it, and a witness sees."""
    with changed(universe, *place.network):
        # The kernel gets an IPv6 address ready in the background.
        eventually(lambda: universe.gateway.call(run, "ip", "route", "get", place.address).startswith("local "))
        with dial(universe.gateway, place.address, addresses.ECHO) as host:
            host.sendall(b"hello")
            assert host.recv(9) == b"hello"
        assert universe.gateway.seen != []
        universe.forget()
        yield
    universe.forget()


def name(universe: Universe, place: Place) -> None:
    """Give an address a name, whose meaning nobody remembers; and another one to lead also elsewhere."""
    universe.zone["late.test"] = at(place.address, ttl=0)
    universe.zone["mixed-late.test"] = at(addresses.PUBLIC, place.address, ttl=0)


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


def assert_echo(agent: Agent, host: str, door: str) -> None:
    """Check that the internet answers."""
    with agent.dial(host, addresses.ECHO, door) as client:
        client.sendall(b"\0hello")
        assert client.recv(6, socket.MSG_WAITALL) == b"\0hello"


@pytest.mark.parametrize("policy", [OPEN, BY_RANGE, BY_RULE], ids=["allow-all", "a range", "a rule"])
@every_door
@every_place
def test_an_address_that_came_later(share, universe, place, door, policy):
    agent = share(policy.replace("%s", place.address))
    with own(universe, place):
        assert_denied(agent, place.address, door)
        assert agent.works(door)
    assert_echo(agent, place.address, door)
    assert {contact.address for contact in universe.wire.contacts()} == {place.address}
    assert universe.gateway.seen == []


@every_door
@every_place
def test_an_address_that_was_there_before(enter, universe, place, door):
    """The policy is compiled with the addresses of interfaces, and knows some of those only."""
    with own(universe, place):
        agent = enter(OPEN)
        assert_denied(agent, place.address, door)
        assert agent.works(door)


@pytest.mark.parametrize("granted", ["late.test", "mixed-late.test"])
@every_door
@every_place
def test_a_name_that_leads_there(share, universe, place, door, granted):
    agent = share(BY_NAME.replace("%s", granted))
    with own(universe, place):
        name(universe, place)
        assert_denied(agent, granted, door)
        assert_denied(agent, granted, "connect", addresses.ECHO)
        assert agent.works(door)
    name(universe, place)
    assert_echo(agent, granted, door)
    assert universe.gateway.seen == []


@pytest.mark.parametrize("door", ["connect", "socks"])
@pytest.mark.parametrize("form", ["::ffff:%s", "64:ff9b::%s", "2002:cb00:714d::1"])
def test_an_address_inside_of_another(share, universe, door, form):
    """Only proxies can be asked for these; the sandbox's own kernel takes the first for IPv4."""
    agent = share(OPEN)
    with own(universe, BY_ADDRESS):
        assert_denied(agent, form.replace("%s", LATE), door)
        assert agent.works(door)
    assert_echo(agent, form.replace("%s", LATE), door)
    assert universe.gateway.seen == []


@pytest.mark.parametrize("named", [False, True], ids=["by address", "by name"])
@every_place
def test_datagrams(enter, universe, place, named):
    agent = enter(OPEN)
    asked = agent.address_of("late.test") if named else place.address
    with own(universe, place):
        name(universe, place)
        with datagrams_to(agent.sandbox, asked) as client:
            client.send(b"hello")
            with pytest.raises(ConnectionRefusedError):
                client.recv(9)
        assert agent.reason() == "reserved_address"
        assert agent.reached_nobody(but_resolver=True)
        with datagrams_to(agent.sandbox, addresses.PUBLIC) as client:
            client.send(b"hello")
            assert client.recv(9) == b"hello"
    name(universe, place)
    with datagrams_to(agent.sandbox, asked) as client:
        client.send(b"hello")
        assert client.recv(9) == b"hello"
    assert universe.gateway.seen == []


def test_datagrams_to_the_routers_of_a_network_of_the_host(enter, universe):
    """A host that forwards is one of the routers that the first address of its networks stands for (anycast)."""
    routers = addresses.GATEWAY_V6.removesuffix("1")
    agent = enter(OPEN)
    universe.gateway.call(run, "sysctl", "-q", "-w", "net.ipv6.conf.wire.forwarding=1")
    try:
        with datagrams_to(universe.gateway, routers) as host:
            host.send(b"hello")
            eventually(lambda: universe.gateway.seen)
        universe.forget()
        with datagrams_to(agent.sandbox, routers) as client:
            client.send(b"hello")
            with pytest.raises(ConnectionRefusedError):
                client.recv(9)
        assert agent.reason() == "reserved_address"
        assert agent.reached_nobody()
        assert agent.works()
    finally:
        universe.gateway.call(run, "sysctl", "-q", "-w", "net.ipv6.conf.wire.forwarding=0")


@every_door
def test_everybody_in_a_network_of_the_host(share, door):
    agent = share(OPEN)
    assert_denied(agent, "192.0.2.3", door)
    assert agent.works(door)


def test_an_address_that_comes_while_it_is_dialled(enter, universe):
    """The kernel sends the second SYN to the host itself, and a service there accepts. It gets nothing."""
    agent = enter(OPEN)
    with agent.sandbox.connect(addresses.BLACK_HOLE, addresses.HTTP) as client:
        client.sendall(b"GET /secret HTTP/1.1\r\nHost: plain.test\r\n\r\n")
        eventually(lambda: Contact("tcp", addresses.BLACK_HOLE, addresses.HTTP) in universe.wire.contacts())
        network = f"address add {addresses.BLACK_HOLE}/32 dev wire"
        with changed(universe, network), pytest.raises(ConnectionResetError):
            client.recv(1)
    assert agent.reason() == "reserved_address"
    assert universe.gateway.witness.of_kind("connection") != []
    assert universe.gateway.witness.of_kind("request") == []
    assert agent.works()


@pytest.mark.parametrize("rule", ["to 203.0.113.140", f"from {addresses.GATEWAY}", "ipproto udp dport 7"])
def test_datagrams_that_a_rule_leads_to_the_host(enter, universe, rule):
    """One for sources shows only when the kernel has chosen one: when there is a socket that could send."""
    agent, there = enter(OPEN), "203.0.113.140"
    with changed(
        universe,
        f"route add local {there} dev lo table 100 src {addresses.GATEWAY}",
        f"rule add {rule} lookup 100",
    ):
        with datagrams_to(universe.gateway, there) as host:
            host.send(b"hello")
            eventually(lambda: universe.gateway.seen)
        universe.forget()
        with datagrams_to(agent.sandbox, there) as client:
            client.send(b"hello")
            with pytest.raises(ConnectionRefusedError):
                client.recv(9)
        assert agent.reason() == "reserved_address"
        assert agent.reached_nobody()
        assert agent.works()


def test_a_flow_that_is_live_goes_where_it_went(enter, universe):
    agent = enter(OPEN)
    with agent.dial(LATE, addresses.ECHO) as client:
        client.sendall(b"\0one")
        assert client.recv(4, socket.MSG_WAITALL) == b"\0one"
        with own(universe, BY_ADDRESS):
            assert_denied(agent, LATE, "connect")
        client.sendall(b"\0two")
        assert client.recv(4, socket.MSG_WAITALL) == b"\0two"


@every_door
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
        with pytest.raises((ConnectionResetError, TurnedAwayError)):
            agent.say(LATE, addresses.SSH, b"hello", door)
        agent.settle()
        [closed] = [line for line in agent.audit() if line["event"] == "flow.closed"]
        assert closed["how"] == "failed"
        assert closed["error"].startswith(f"the kernel does not say whether {LATE} is an address of this host: ")
        assert agent.reached_nobody()
    serving.do(routes.close)
    assert agent.works(door)


def datagrams_to(where: Network, address: str) -> socket.socket:
    """Make a socket in a place that is connected to the echo at an address."""
    made: socket.socket = where.call(
        socket.socket, socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM
    )
    made.settimeout(PATIENCE)
    made.connect((address, addresses.ECHO))
    return made
