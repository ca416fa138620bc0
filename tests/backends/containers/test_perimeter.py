"""A container on a bridge of its own reaches what its policy allows, and whatever else it tries arrives nowhere.

The engine runs where the gateway does, in a universe whose every address answers. What an agent does, it does with
commands in the container; what no agent should be able to do (it has no capability) is done as root in the container's
network namespace, so that the wall is tried and not only the rights.
"""

import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import dns.message
import dns.rcode
import pytest

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.perimeter import listeners
from belljar.backends.interface import MachineError, SandboxStatus, SpecError, State
from belljar.gateway.audit.observing import Observer
from belljar.gateway.listeners import Listeners
from belljar.gateway.sandbox import SandboxState
from belljar.linux import programs
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.nft import perimeter
from belljar.sandbox.spec import Isolation, SandboxSpec
from belljar.testing import conformance
from tests import engines, privileges
from tests.gateway.serving import Serving, eventually, policy
from tests.universe import Contact, Place, Universe, addresses
from tests.universe.clients import PATIENCE, ask, dial, fetch, received, records

pytestmark = pytest.mark.long

T = TypeVar("T")

WANTED = SandboxSpec(image=engines.BUSYBOX, isolation=Isolation.PERIMETER)
BLOCK_ALL = "mode: block-all\negress: {allowed_domains: [plain.test]}"
ALLOW_ALL = "mode: allow-all\nallow_private: true"
FIREWALL = """
table inet firewall {
    chain input {
        type filter hook input priority filter; policy accept;
        iifname "bj-*" drop
    }
}
"""
PING = b"\x08\0\xf7\xff\0\0\0\0"
PING_V6 = b"\x80\0\0\0\0\0\0\0"


class Box:
    """A sandbox, with an agent inside, and with somebody in its network namespace who is root."""

    def __init__(self, world: "World", backend: ContainerBackend, name: str, listeners: Listeners) -> None:
        self.name, self.listeners, self._world, self._backend = name, listeners, world, backend
        self.container = world.engine.api.call("GET", f"/containers/{backend._containers.name(name)}/json")
        [network] = self.container["NetworkSettings"]["Networks"].values()
        self.gateway, self.address = network["Gateway"], network["IPAddress"]

    def agent(self, *command: str) -> conformance.Done:
        return conformance.run(self._backend, self.name, *command)

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        with Path(f"/proc/{self.container['State']['Pid']}/ns/net").open() as file:
            return NetworkNamespace(file.fileno()).run(lambda: function(*arguments))

    def connect(self, address: str, port: int) -> socket.socket:
        return self.call(socket.create_connection, (address, port), PATIENCE)

    def send(self, address: str, port: int) -> None:
        """Send a datagram, and wait for an answer or an error. Raises OSError."""
        with self.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.1)  # the kernel says no more than so many times a second
            sock.connect((address, port))
            sock.send(b"out")
            sock.recv(100)

    def is_answered(self, address: str, port: int) -> bool:
        """Say something to a service, and tell whether it answers."""
        try:
            with self.connect(address, port) as sock:
                sock.sendall(b"GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n")
                return b" 403 " not in (answer := sock.recv(4096)) and answer != b""
        except OSError:
            return False

    def send_raw(self, protocol: int, packet: bytes, address: str, family: int = socket.AF_INET) -> None:
        with self.call(socket.socket, family, socket.SOCK_RAW, protocol) as sock:
            sock.sendto(packet, (address, 0))

    def fetch(self, name: str = "plain.test") -> str:
        """Look a name up and ask its server for a page, over TLS."""
        [address] = records(ask(cast("Place", self), name, server=self.gateway))
        context = self._world.universe.certificates.client_context()
        with self.connect(address, 443) as sock, context.wrap_socket(sock, server_hostname=name) as stream:
            return fetch(stream, "/", name)[0]


def is_listening(place: Place, address: str, port: int) -> bool:
    try:
        with dial(place, address, port) as sock:
            return received(sock) == b"reached\n"
    except ConnectionRefusedError:
        return False


class World:
    """An engine in a universe, a backend on it, and a gateway."""

    def __init__(self, universe: Universe, engine: engines.Engine, state: Path, toolboxes: Path) -> None:
        self.universe, self.engine, self._state, self._toolboxes = universe, engine, state, toolboxes
        self.backend = self.in_place(self.open("one"))
        self.serving = Serving(universe)
        self._served: set[str] = set()

    def open(self, owner: str) -> Callable[[], ContainerBackend]:
        engine = Engine(self.engine.kind, self.engine.socket)
        return lambda: ContainerBackend(engine, self._state / owner, self._toolboxes, owner)

    def in_place(self, function: Callable[[], T]) -> T:
        return self.universe.in_gateway(function)

    def rules(self) -> list[perimeter.Around]:
        """Return what is there but for that around the sandbox that is shared."""
        return [found for found in self.in_place(perimeter.installed) if "shared" not in found.owner]

    def networks(self) -> list[str]:
        return sorted(network["Name"] for network in self.engine.api.call("GET", "/networks"))

    def serve(self, name: str, text: str, listeners: Listeners) -> None:
        self._served.add(name)
        jar = SandboxState(name, policy(text), Observer(name))
        self.serving.do(lambda: self.serving.gateway.open(jar, listeners))

    def stop_serving(self, name: str) -> None:
        if name in self._served:
            self._served.remove(name)
            self.serving.do(lambda: self.serving.gateway.close(name))

    @contextmanager
    def box(self, text: str, name: str = "jar", backend: ContainerBackend | None = None) -> Iterator[Box]:
        backend = backend or self.backend
        listeners = self.in_place(lambda: backend.create(name, WANTED))
        self.serve(name, text, listeners)
        try:
            yield Box(self, backend, name, listeners)
        finally:
            self.stop_serving(name)
            self.in_place(lambda: backend.destroy(name))

    @contextmanager
    def running(self, network: str, *command: str) -> Iterator[dict[str, Any]]:
        """Run a container that is nobody's sandbox."""
        wanted = {"Image": engines.BUSYBOX, "Cmd": command, "HostConfig": {"NetworkMode": network}}
        container = self.engine.api.call("POST", "/containers/create", wanted)["Id"]
        try:
            self.engine.api.call("POST", f"/containers/{container}/start")
            yield self.engine.api.call("GET", f"/containers/{container}/json")
        finally:
            self.engine.api.call("DELETE", f"/containers/{container}?force=true")

    def assert_untouched(self) -> None:
        """Nobody saw anything, neither in the internet nor on the host."""
        assert self.universe.wire.contacts() == set()
        assert self.universe.internet.seen == []
        assert self.universe.gateway.seen == []


@pytest.fixture(scope="module")
def places():
    path = Path(tempfile.mkdtemp(prefix="belljar-perimeter-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module", params=["docker", *(["podman"] if privileges.EVERY_ENGINE else [])])
def whole_world(request, privileged, places):
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    with Universe() as universe, getattr(engines, f"start_{request.param}")(universe.gateway.namespace) as engine:
        engines.make_image(engine, engines.BUSYBOX, engines.busybox())
        if (
            request.param == "podman"
        ):  # many machines have it so, and then rules see a packet on its way through a bridge
            universe.in_gateway(lambda: programs.run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"))
        world = World(universe, engine, places / request.param, places / "toolbox")
        yield world
        world.serving.close()


@pytest.fixture
def world(whole_world):
    whole_world.universe.forget()
    yield whole_world
    assert whole_world.rules() == []


@pytest.fixture(scope="module")
def shared(whole_world):
    """A sandbox of another owner with a strict policy, for tests that leave it as it is."""
    with whole_world.box(BLOCK_ALL, "shared", whole_world.in_place(whole_world.open("shared"))) as box:
        yield box


class TestWhatIsAllowed:
    def test_a_name_by_dns_and_tls(self, world, shared):
        assert "200 OK" in shared.fetch()
        assert [seen.what for seen in world.universe.internet.witness.of_kind("handshake")] == ["plain.test"]

    def test_for_the_agent(self, world, shared):
        assert "198.18." in shared.agent("nslookup", "plain.test").out
        script = "printf 'GET / HTTP/1.0\\r\\nHost: plain.test\\r\\n\\r\\n' | nc $0 80"
        [address] = records(ask(shared, "plain.test", server=shared.gateway))
        assert "200 OK" in shared.agent("sh", "-c", script, address).out

    def test_through_the_proxies(self, world, shared):
        with shared.connect(shared.gateway, perimeter.HTTP_PROXY_PORT) as sock:
            sock.sendall(b"CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n")
            assert b" 200 " in sock.recv(100)
        with shared.connect(shared.gateway, perimeter.SOCKS_PORT) as sock:
            sock.sendall(b"\5\1\0")
            assert sock.recv(2) == b"\5\0"

    def test_whatever_resolver_is_asked(self, world, shared):
        for tcp in (False, True):
            assert records(ask(shared, "plain.test", server=addresses.RESOLVER, tcp=tcp))[0].startswith("198.18.")
        assert world.universe.wire.contacts() == set()


@pytest.fixture
def sealed_off(world, shared):
    """A sandbox from which nothing may have arrived anywhere when the test is over, though it could if allowed."""
    yield shared
    world.assert_untouched()
    assert "200 OK" in shared.fetch()


class TestWhatIsNot:
    def test_other_names(self, sealed_off):
        for tcp in (False, True):
            answer = ask(sealed_off, "evil.test", server=sealed_off.gateway, tcp=tcp)
            assert answer.rcode() == dns.rcode.REFUSED
        assert sealed_off.agent("nslookup", "evil.test").code == 1

    @pytest.mark.parametrize("port", [addresses.HTTP, addresses.SSH, addresses.PROXY, addresses.DATABASE, 15001])
    def test_addresses(self, sealed_off, port):
        assert not sealed_off.is_answered(addresses.EVIL, port)
        assert not sealed_off.is_answered(addresses.PRIVATE, port)
        assert not sealed_off.is_answered(addresses.METADATA, port)

    def test_the_host(self, world, sealed_off):
        bridges = ["172.17.0.1"] if world.engine.kind == "docker" else []
        for address in (sealed_off.gateway, addresses.GATEWAY, *bridges):
            for port in (addresses.HTTP, addresses.SSH, addresses.PROXY_FOR_NAMES, addresses.DATABASE):
                assert not sealed_off.is_answered(address, port)
            for port in (addresses.ECHO, addresses.HTTPS):
                with pytest.raises(OSError):
                    sealed_off.send(address, port)

    def test_datagrams(self, sealed_off):
        for address in (addresses.EVIL, addresses.RESOLVER):
            with pytest.raises(OSError):
                sealed_off.send(address, addresses.ECHO)

    def test_other_protocols(self, sealed_off):
        """As root: an agent has no raw sockets."""
        assert "permission denied" in sealed_off.agent("ping", "-c1", addresses.EVIL).err
        for protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_SCTP, socket.IPPROTO_UDPLITE, socket.IPPROTO_GRE, 253):
            for address in (addresses.EVIL, sealed_off.gateway, addresses.GATEWAY):
                sealed_off.send_raw(protocol, PING, address)

    def test_ipv6(self, world, sealed_off):
        """As root, with IPv6 switched on where an agent has none at all."""
        assert "inet6" not in sealed_off.agent("ip", "address").out
        link_local = world.in_place(lambda: programs.run("ip", "-6", "address", "show", "scope", "link")).split()
        hosts = [word.split("/")[0] for word in link_local if word.startswith("fe80::")]

        def attack() -> None:
            for command in (
                ("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0"),
                ("ip", "address", "add", "2001:db8:7::2/64", "dev", "eth0", "nodad"),
                *(("ip", "-6", "route", "replace", "default", "via", host, "dev", "eth0") for host in hosts),
            ):
                programs.run(*command)
            for address in (addresses.EVIL_V6, addresses.GATEWAY_V6, *(f"{host}%eth0" for host in hosts)):
                with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
                    sock.sendto(b"out", (address, addresses.ECHO))
                with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as sock:
                    sock.sendto(PING_V6, (address, 0))
            programs.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")

        assert hosts
        sealed_off.call(attack)

    def test_made_up_sources(self, sealed_off):
        """As root: a question whose answer would go to somebody else."""
        question = dns.message.make_query("plain.test", "A").to_wire()
        question = struct.pack("!HHHH", 5353, 53, 8 + len(question), 0) + question
        for source in (addresses.PUBLIC, addresses.GATEWAY, "127.0.0.1"):
            ends = map(socket.inet_aton, (source, addresses.RESOLVER))
            head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(question), 1, 0, 64, 17, 0, *ends)
            sealed_off.send_raw(socket.IPPROTO_RAW, head + question, addresses.RESOLVER)

    def test_a_route_in_the_packet(self, sealed_off):
        with sealed_off.call(socket.socket, socket.AF_INET, socket.SOCK_STREAM) as sock:
            route = struct.pack("!BBBB4s", 131, 7, 4, 0, socket.inet_aton(addresses.EVIL))[:7] + b"\0"
            sock.setsockopt(socket.SOL_IP, socket.IP_OPTIONS, route)
            sock.settimeout(1)
            with pytest.raises(OSError):
                sock.connect((sealed_off.gateway, addresses.HTTP))

    def test_dockers_own_resolver(self, world, sealed_off):
        """It leads to the gateway, and not to the host's resolvers as it does for others."""
        assert sealed_off.agent("nslookup", "evil.test", "127.0.0.11").code == 1
        world.assert_untouched()
        if world.engine.kind == "docker":
            assert "198.18." in sealed_off.agent("nslookup", "plain.test", "127.0.0.11").out
            world.assert_untouched()
            asked = "nslookup evil.test 127.0.0.11"
            world.engine.api.call("POST", "/networks/create", {"Name": "ordinary"})
            with world.running("ordinary", "sh", "-c", f"until {asked}; do :; done"):
                eventually(lambda: any("evil.test" in seen.what for seen in world.universe.internet.seen))
            world.engine.api.call("DELETE", "/networks/ordinary")
            world.universe.forget()

    def test_the_gateways_own_ports(self, world, sealed_off):
        ports = [listener.getsockname()[1] for listener in sealed_off.listeners if listener.type == socket.SOCK_STREAM]
        for port in ports:
            assert not sealed_off.is_answered(sealed_off.gateway, port)
        with pytest.raises(OSError):
            sealed_off.send(sealed_off.gateway, sealed_off.listeners.dns_udp[0].getsockname()[1])
        world.universe.in_internet(
            lambda: programs.run("ip", "route", "replace", "240.0.0.0/6", "via", addresses.GATEWAY)
        )
        for place in (world.universe.gateway, world.universe.internet):
            for port in (*ports, perimeter.HTTP_PROXY_PORT):
                with pytest.raises(OSError):
                    place.call(socket.create_connection, (sealed_off.gateway, port), 0.2)
        world.universe.forget()

    def test_from_outside(self, world, sealed_off):
        """Neither the host nor anybody it would forward for gets to a server inside."""
        world.universe.in_internet(
            lambda: programs.run("ip", "route", "replace", "240.0.0.0/6", "via", addresses.GATEWAY)
        )
        with sealed_off.call(socket.create_server, ("0.0.0.0", 8000)) as server:
            server.settimeout(0)
            for place in (world.universe.gateway, world.universe.internet):
                with pytest.raises(OSError):
                    place.call(socket.create_connection, (sealed_off.address, 8000), 0.2)
            with pytest.raises(BlockingIOError):
                server.accept()

    def test_rights(self, world, sealed_off):
        """Root of the container changes nothing."""
        for attempt in ("ip route del default", "ip link set eth0 down", "ip address add 10.0.0.1/8 dev eth0"):
            done = sealed_off.agent("sh", "-c", f"id -u; {attempt}")
            assert (done.code, done.out) == (2, "0\n")


class TestNeighbours:
    def test_two_sandboxes(self, world):
        with world.box(ALLOW_ALL, "one") as one, world.box(ALLOW_ALL, "two") as two:
            with two.call(socket.create_server, ("0.0.0.0", 8000)) as server:
                server.settimeout(0)
                assert not one.is_answered(two.address, 8000)
                assert not one.is_answered(two.gateway, 8000)
                with pytest.raises(OSError):
                    one.send(two.address, 8000)
                with pytest.raises(BlockingIOError):
                    server.accept()
            world.assert_untouched()
            assert "200 OK" in one.fetch()
            assert "200 OK" in two.fetch()

    def test_one_that_makes_as_many_connections_as_it_can(self, world, shared, monkeypatch):
        """The host remembers them all, in a table that all share."""
        monkeypatch.setattr(perimeter, "MOST_CONNECTIONS", 20)
        with world.box(BLOCK_ALL) as box, ExitStack() as stack:

            def connect_often() -> None:
                for _ in range(30):
                    stack.enter_context(box.call(socket.create_connection, (addresses.PUBLIC, 443), 1.0))

            with pytest.raises(TimeoutError):
                connect_often()
            assert "200 OK" in shared.fetch()

    def test_a_container_of_somebody_else(self, world, shared):
        default = "bridge" if world.engine.kind == "docker" else "podman"
        with world.running(default, "nc", "-ll", "-p", "8000", "-e", "echo", "reached") as found:
            [address] = [network["IPAddress"] for network in found["NetworkSettings"]["Networks"].values()]
            eventually(lambda: is_listening(world.universe.gateway, address, 8000))
            assert not shared.is_answered(address, 8000)
            with (
                shared.call(socket.create_server, ("0.0.0.0", 8000)) as server,
                Path(f"/proc/{found['State']['Pid']}/ns/net").open() as file,
            ):
                server.settimeout(0)
                with pytest.raises(OSError):
                    NetworkNamespace(file.fileno()).run(lambda: socket.create_connection((shared.address, 8000), 0.2))
                with pytest.raises(BlockingIOError):
                    server.accept()


class TestAllowAll:
    def test_tcp_goes_anywhere_and_udp_nowhere(self, world):
        with world.box(ALLOW_ALL) as box:
            with pytest.raises(ConnectionRefusedError):
                box.send(addresses.PUBLIC, addresses.ECHO)
            world.assert_untouched()
            with box.connect(addresses.PUBLIC, addresses.ECHO) as sock:
                sock.sendall(b"back")
                assert sock.recv(4) == b"back"
            assert world.universe.wire.contacts() == {Contact("tcp", addresses.PUBLIC, addresses.ECHO)}

    @pytest.mark.parametrize(
        ("address", "change"),
        [
            ("203.0.113.77", "address {} 203.0.113.77/32 dev wire"),
            ("203.0.113.129", "route {} local 203.0.113.128/29 dev lo"),
        ],
    )
    def test_an_address_of_the_host_that_came_later(self, world, address, change):
        with world.box(ALLOW_ALL) as box:
            world.in_place(lambda: programs.run("ip", *change.format("add").split()))
            try:
                with dial(world.universe.gateway, address, addresses.SSH) as sock:
                    assert sock.recv(4) == b"SSH-"
                world.universe.forget()
                for port in (addresses.HTTP, addresses.SSH, addresses.DATABASE):
                    assert not box.is_answered(address, port)
                with pytest.raises(ConnectionRefusedError):
                    box.send(address, addresses.ECHO)
                world.assert_untouched()
            finally:
                world.in_place(lambda: programs.run("ip", *change.format("delete").split()))
            assert box.is_answered(address, addresses.HTTP)
            assert world.universe.gateway.seen == []


class TestHostPorts:
    def test_a_service_of_the_host_that_is_granted(self, world):
        with world.box(f"mode: block-all\nhost_ports: [{addresses.SSH}]") as box:
            [address] = records(ask(box, "host.belljar.internal", server=box.gateway))
            assert not box.is_answered(address, addresses.DATABASE)
            assert not box.is_answered(box.gateway, addresses.SSH)
            world.assert_untouched()
            with box.connect(address, addresses.SSH) as sock:
                assert sock.recv(4) == b"SSH-"


class TestLife:
    def test_is_closed_without_a_gateway_and_opened_again(self, world):
        with world.box(BLOCK_ALL) as box:
            port = box.listeners.tcp[0].getsockname()[1]
            world.stop_serving("jar")
            with pytest.raises(ConnectionRefusedError):
                box.connect(addresses.PUBLIC, addresses.HTTP)
            # Somebody on the host has got the port of the gateway that is dead.
            for family, dual in ((socket.AF_INET, False), (socket.AF_INET6, True)):
                server = world.in_place(
                    lambda: socket.create_server(("", port), family=family, dualstack_ipv6=dual)  # noqa: B023
                )
                with server:
                    server.settimeout(0)
                    with pytest.raises(OSError):
                        box.call(socket.create_connection, (addresses.PUBLIC, addresses.HTTP), 0.2)
                    with pytest.raises(BlockingIOError):
                        server.accept()
            world.assert_untouched()
            again = world.in_place(world.open("one"))
            world.serve("jar", BLOCK_ALL, world.in_place(lambda: again.adopt("jar")))
            assert "200 OK" in box.fetch()

    def test_nothing_is_left(self, world):
        before = world.networks()
        with world.box(BLOCK_ALL) as box:
            assert [found.chain for found in world.rules()] == [f"BELLJAR_{box.container['Id'][:12]}"]
            assert world.networks() != before
        assert world.networks() == before
        listed = world.in_place(lambda: programs.run("nft", "list", "table", "inet", perimeter.TABLE))
        assert box.container["Id"][:12] not in listed
        assert box.gateway not in listed

    def test_a_container_that_was_killed(self, world):
        with world.box(BLOCK_ALL):
            world.engine.api.call("DELETE", "/containers/belljar-one-jar?force=true")
            assert world.in_place(world.backend.sandboxes) == [SandboxStatus("jar", State.DEAD)]

    def test_only_what_is_ours_is_swept(self, world):
        """Rules and networks are left behind in every way there is; beside a sandbox of somebody else."""
        other = world.in_place(world.open("two"))
        world.in_place(lambda: other.create("theirs", WANTED)).close()
        theirs = world.rules()
        for name in ("without-network", "without-record"):
            world.in_place(lambda name=name: world.backend.create(name, WANTED)).close()
        for name in ("without-network", "without-record"):
            world.engine.api.call("DELETE", f"/containers/belljar-one-{name}?force=true")
        world.engine.api.call("DELETE", "/networks/belljar-one-without-network")
        world.backend._records.remove("without-record")
        assert {found.sandbox for found in world.in_place(world.backend.sandboxes)} == {
            "without-network",
            "without-record",
        }
        for name in ("without-network", "without-record", "theirs"):
            world.in_place(lambda name=name: world.backend.destroy(name))
        assert len(world.rules()) == 2
        with world.box(BLOCK_ALL):
            assert len(world.rules()) == 2
        assert world.rules() == theirs
        assert world.in_place(other.sandboxes) == [SandboxStatus("theirs", State.RUNNING)]
        world.in_place(lambda: other.destroy("theirs"))

    def test_without_its_rules_it_reaches_the_host_and_nothing_else(self, world):
        """Until its doors are had anew: the engine has rules that let it through, and the kernel does not."""
        with world.box(BLOCK_ALL) as box:
            world.in_place(lambda: programs.run("nft", "delete", "table", "inet", perimeter.TABLE))
            box.send_raw(socket.IPPROTO_ICMP, PING, addresses.EVIL)
            with pytest.raises(OSError):
                box.call(socket.create_connection, (addresses.EVIL, addresses.ECHO), 0.2)
            assert world.universe.wire.contacts() == set()
            assert box.is_answered(addresses.GATEWAY, addresses.SSH)
            world.stop_serving("jar")
            world.serve("jar", BLOCK_ALL, world.in_place(lambda: world.backend.adopt("jar")))
            world.universe.forget()
            assert not box.is_answered(addresses.GATEWAY, addresses.SSH)
            world.assert_untouched()
            assert "200 OK" in box.fetch()


class TestRefusals:
    def test_an_engine_that_is_elsewhere(self, world, namespace):
        with pytest.raises(MachineError, match="not on this machine"):
            namespace.run(lambda: world.backend.create("jar", WANTED))
        assert world.in_place(world.backend.sandboxes) == []
        assert namespace.run(perimeter.installed) == []

    def test_a_firewall_in_between(self, world, monkeypatch):
        monkeypatch.setattr(listeners, "_SECONDS", 1)
        world.in_place(lambda: programs.run("nft", "-f", "-", text=FIREWALL))
        try:
            with pytest.raises(MachineError, match="firewall"):
                world.in_place(lambda: world.backend.create("jar", WANTED))
        finally:
            world.in_place(lambda: programs.run("nft", "delete", "table", "inet", "firewall"))
        assert world.in_place(world.backend.sandboxes) == []

    def test_somebody_who_is_not_root(self, world):
        if world.engine.kind == "podman":
            pytest.skip("whoever uses it is root")
        code = (
            "import sys; from pathlib import Path; from tests.backends.containers.test_perimeter import *\n"
            "backend = ContainerBackend(Engine('docker', Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[2]))\n"
            "try: backend.create('jar', WANTED)\n"
            "except MachineError as error: print(error, backend.sandboxes())"
        )
        home, before = world.engine.home / "state", world.networks()
        checkout = Path(__file__).parents[3]
        done = world.engine.run_as_user(
            sys.executable, "-c", code, str(world.engine.socket), str(home), workdir=checkout
        )
        assert "sudo -n /usr/sbin/nft" in done.stdout, done.stderr
        assert "/etc/sudoers.d/belljar" in done.stdout
        assert done.stdout.endswith("[]\n")
        assert world.networks() == before


def test_a_rootless_engine(rootless_engine, places):
    backend = ContainerBackend(Engine("podman", rootless_engine.socket), places / "rootless", places / "toolbox")
    with pytest.raises(SpecError, match="rootless"):
        backend.create("jar", replace(WANTED, image=engines.BUSYBOX))
    assert backend.sandboxes() == []
