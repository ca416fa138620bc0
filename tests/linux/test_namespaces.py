import socket
import subprocess
import threading
from pathlib import Path

import pytest

from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import run


def identity() -> str:
    return str(Path("/proc/thread-self/ns/net").readlink())


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def test_a_new_namespace_has_a_loopback_interface_and_nothing_that_is_up(namespace):
    assert "lo" in namespace.run(interfaces)
    assert namespace.run(lambda: run("ip", "link", "show", "up")) == ""
    assert namespace.run(lambda: run("ip", "route", "show", "table", "all")) == ""


def test_every_namespace_is_another(namespace):
    with NetworkNamespace.create() as other:
        assert len({identity(), namespace.run(identity), other.run(identity)}) == 3


def test_the_caller_stays_where_it_is(namespace):
    before = identity()
    namespace.run(lambda: None)
    assert identity() == before


def test_run_hands_back_what_the_function_raises(namespace):
    with pytest.raises(ZeroDivisionError):
        namespace.run(lambda: 1 // 0)


def test_a_child_process_starts_in_the_namespace_of_its_thread(namespace):
    def child():
        return subprocess.run(["readlink", "/proc/self/ns/net"], capture_output=True, text=True, check=True).stdout

    assert namespace.run(child).strip() == namespace.run(identity)


def test_a_socket_stays_in_the_namespace_it_was_made_in(namespace):
    """The foundation of it all: a socket made inside is served from outside."""
    namespace.run(lambda: run("ip", "link", "set", "lo", "up"))
    with namespace.run(lambda: socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()
        with namespace.run(lambda: socket.create_connection(address)) as client:
            accepted, peer = server.accept()
            accepted.close()
            assert peer == client.getsockname()


def test_a_namespace_can_be_held_from_inside(namespace):
    with namespace.run(NetworkNamespace.current) as same:
        assert same.run(identity) == namespace.run(identity)


def test_nothing_is_left_behind(privileged):
    names = set(Path("/run/netns").glob("*"))
    threads, opened = threading.active_count(), descriptors()
    with NetworkNamespace.create() as namespace:
        namespace.run(lambda: None)
    namespace.close()
    assert threading.active_count() == threads
    assert descriptors() == opened
    assert set(Path("/run/netns").glob("*")) == names


def test_a_closed_namespace_cannot_be_entered(namespace):
    namespace.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        namespace.run(lambda: None)
