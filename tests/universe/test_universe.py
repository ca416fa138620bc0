"""The universe is joined to nothing, forgets nothing, leaves nothing behind; and its sandboxes are sealed."""

import contextlib
import gc
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from belljar.gateway.io.origin import original_destination
from belljar.linux.namespaces import NetworkNamespace
from tests.stage import CHECKOUT
from tests.universe import Contact, Seen, Universe, addresses
from tests.universe.clients import PATIENCE, dial
from tests.universe.nameserver import Nameserver
from tests.universe.witness import Witness
from tests.universe.zone import ZONE


class TestWitnesses:
    @pytest.mark.parametrize(
        "address",
        [
            addresses.PRIVATE,
            addresses.PRIVATE_V6,
            addresses.METADATA,
            "100.100.100.200",
            "198.18.0.1",
            "8.8.8.8",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ],
    )
    def test_a_leak_arrives_wherever_it_goes(self, universe, address):
        dial(universe.gateway, address, addresses.HTTP).close()
        assert universe.wire.contacts() == {Contact("tcp", address, addresses.HTTP)}

    def test_a_port_that_nobody_listens_on_is_witnessed_too(self, universe):
        with pytest.raises(ConnectionRefusedError):
            dial(universe.gateway, addresses.PUBLIC, addresses.CLOSED)
        assert universe.internet.seen == []
        assert universe.wire.contacts() == {Contact("tcp", addresses.PUBLIC, addresses.CLOSED)}

    def test_who_refuses_is_witnessed_too(self, universe):
        with pytest.raises(ConnectionRefusedError):
            dial(universe.gateway, addresses.REFUSING, addresses.HTTP)
        assert universe.wire.contacts() == {Contact("tcp", addresses.REFUSING, addresses.HTTP)}

    @pytest.mark.parametrize("address", [addresses.BLACK_HOLE, addresses.BLACK_HOLE_V6])
    def test_nothing_comes_back_from_a_black_hole(self, universe, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with universe.gateway.call(socket.socket, family) as client:
            client.setblocking(False)
            client.connect_ex((address, addresses.HTTP))
            dial(universe.gateway, addresses.PUBLIC, addresses.HTTP).close()
            assert select.select([client], [client], [client], 0) == ([], [], [])
        assert Contact("tcp", address, addresses.HTTP) in universe.wire.contacts()

    @pytest.mark.parametrize(
        ("family", "protocol", "address", "name"),
        [
            (socket.AF_INET, socket.IPPROTO_ICMP, addresses.PUBLIC, "icmp"),
            (socket.AF_INET6, socket.IPPROTO_ICMPV6, addresses.PUBLIC_V6, "icmpv6"),
            (socket.AF_INET, 132, addresses.PUBLIC, "sctp"),
        ],
        ids=["icmp", "icmpv6", "sctp"],
    )
    def test_other_protocols_are_witnessed_too(self, universe, family, protocol, address, name):
        echo_request = bytes.fromhex("0800f7ff00000000" if family == socket.AF_INET else "8000000000000000")
        with universe.gateway.call(socket.socket, family, socket.SOCK_RAW, protocol) as client:
            client.settimeout(60)
            client.connect((address, 0))
            client.send(echo_request)
            with contextlib.suppress(OSError):
                client.recv(99)  # an answer, or an error that says that nobody speaks the protocol
        assert universe.wire.contacts() == {Contact(name, address, 0)}

    @pytest.mark.parametrize("address", ["127.0.0.1", "::1", addresses.GATEWAY, addresses.GATEWAY_V6])
    def test_the_gateways_own_host_has_its_own_witness(self, universe, address):
        dial(universe.gateway, address, addresses.HTTP).close()
        with dial(universe.gateway, address, addresses.DATABASE) as client:
            client.sendall(b"x")
            client.recv(1)
        assert set(universe.gateway.seen) == {
            Seen("connection", address, addresses.HTTP),
            Seen("connection", address, addresses.DATABASE),
        }
        assert universe.internet.seen == []
        assert universe.wire.contacts() == set()

    def test_forgetting(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.SSH) as client:
            client.recv(1)
        universe.forget()
        assert (universe.internet.seen, universe.gateway.seen, universe.wire.contacts()) == ([], [], set())


class TestIsolation:
    def test_it_is_joined_to_nothing(self, universe):
        assert "wire" not in [name for _, name in socket.if_nameindex()]
        with NetworkNamespace.create() as elsewhere, pytest.raises(OSError, match="unreachable"):
            elsewhere.run(lambda: socket.create_connection((addresses.PUBLIC, addresses.HTTP)))

    def test_in_gateway_and_in_internet(self, universe):
        def addresses_of_this_place():
            return Path("/proc/thread-self/net/fib_trie").read_text()

        assert addresses.GATEWAY in universe.in_gateway(addresses_of_this_place)
        assert addresses.RESOLVER not in universe.in_internet(addresses_of_this_place)
        assert addresses.ROUTER in universe.in_internet(addresses_of_this_place)

    def test_nothing_is_left_behind(self, privileged):
        """In a process of its own: what other tests still have to tidy up is not counted."""
        command = [sys.executable, "-c", "from tests.universe.test_universe import come_and_go; come_and_go()"]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


class TestSandbox:
    def test_a_connection_arrives_at_its_door_and_nowhere_else(self, universe, sandbox):
        with sandbox.connect(addresses.PUBLIC, addresses.HTTP):
            accepted, _ = sandbox.listeners.tcp[0].accept()
            with accepted:
                destination = original_destination(accepted)
        assert (str(destination.address), destination.port) == (addresses.PUBLIC, addresses.HTTP)
        assert universe.internet.seen == []
        assert universe.wire.contacts() == set()

    @pytest.fixture
    def named(self, sandbox):
        """A sandbox in whose DNS the universe's zone is to be found."""
        nameserver = Nameserver(ZONE, Witness())
        listener = sandbox.listeners.dns_udp[0]
        stop, stopping = socket.socketpair()

        def serve():
            while stopping not in select.select([listener, stopping], [], [])[0]:
                question, peer = listener.recvfrom(512)
                listener.sendto(nameserver.datagram(question, "127.0.0.1", 53)[0], peer)

        serving = sandbox.start(serve)
        with stop, stopping:
            yield sandbox
            stop.send(b"x")
            serving.result()

    def test_a_question_is_answered(self, named):
        assert named.resolve("plain.test", "A", server="8.8.8.8").answer[0][0].to_text() == addresses.PUBLIC
        assert named.look_up("plain.test") == [addresses.PUBLIC, addresses.PUBLIC_V6]

    def test_a_name_can_be_connected_to(self, named):
        with named.connect("plain.test", addresses.HTTP) as client:
            assert client.getpeername() == (addresses.PUBLIC, addresses.HTTP)
        with pytest.raises(socket.gaierror, match="NXDOMAIN"):
            named.connect("nowhere.test", addresses.HTTP)

    def test_a_program_looks_names_up_inside(self, named):
        done = named.run(["getent", "ahostsv4", "many.test"])
        assert done.returncode == 0, done.stderr
        assert {line.split()[0] for line in done.stdout.splitlines()} == set(ZONE["many.test"].addresses)

    def test_a_program_connects_inside(self, universe, named):
        def page():
            accepted, _ = named.listeners.tcp[0].accept()
            with accepted:
                accepted.settimeout(60)
                accepted.recv(9999)
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        named.listeners.tcp[0].settimeout(60)
        serving = named.start(page)
        done = named.run(["curl", "-4", "-sS", "http://plain.test/"])
        serving.result()
        assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "")
        assert universe.wire.contacts() == set()

    def test_a_program_does_not_see_the_hosts_daemons(self, sandbox):
        assert sandbox.run(["sh", "-c", "cat /etc/resolv.conf; find /run -type s"]).stdout.startswith(
            "nameserver 127.0.0.1\n"
        )

    def test_several_sandboxes_do_not_know_each_other(self, universe, sandbox):
        with universe.sandbox() as other, sandbox.call(socket.create_server, ("127.0.0.1", 8000)):
            sandbox.connect("127.0.0.1", 8000).close()
            with pytest.raises(ConnectionRefusedError):
                other.connect("127.0.0.1", 8000)


def come_and_go() -> None:
    def traces() -> tuple[int, ...]:
        directories = Path(tempfile.gettempdir()).glob(f"universe-{os.getpid()}-*")
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), len(list(directories))

    before = traces()
    with Universe() as universe, universe.sandbox() as sandbox:
        dial(universe.gateway, addresses.PUBLIC, addresses.SILENT).close()
        hanging = dial(universe.gateway, addresses.PUBLIC, addresses.ECHO)
        sandbox.make_socket().close()
    hanging.close()
    given_up = time.monotonic() + PATIENCE
    while any(now > then for now, then in zip(traces(), before, strict=True)):
        assert time.monotonic() < given_up
        gc.collect()  # asyncio leaves some of its sockets to it
        time.sleep(0.01)
