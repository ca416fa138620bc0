import os
import socket
from contextlib import ExitStack

import pytest

from belljar.linux.descriptors import receive_sockets, send_sockets


@pytest.fixture
def channel():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def made():
    """Make sockets that are closed in the end."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(socket.socket(*arguments))


def received(channel, stack: ExitStack) -> dict[str, tuple[socket.socket, ...]]:
    groups = receive_sockets(channel)
    for group in groups.values():
        for sock in group:
            stack.enter_context(sock)
    return groups


def inode(sock: socket.socket) -> int:
    return os.fstat(sock.fileno()).st_ino


def test_groups_arrive_as_they_were_sent(channel, made):
    groups = {
        "streams": (made(socket.AF_INET, socket.SOCK_STREAM), made(socket.AF_INET6, socket.SOCK_STREAM)),
        "none": (),
        "datagrams": (made(socket.AF_INET, socket.SOCK_DGRAM),),
    }
    send_sockets(channel[0], groups)
    with ExitStack() as stack:
        arrived = received(channel[1], stack)
        assert {label: [inode(sock) for sock in group] for label, group in arrived.items()} == {
            label: [inode(sock) for sock in group] for label, group in groups.items()
        }
        assert [(sock.family, sock.type) for sock in arrived["streams"]] == [
            (socket.AF_INET, socket.SOCK_STREAM),
            (socket.AF_INET6, socket.SOCK_STREAM),
        ]


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
def test_a_socket_arrives_blocking_or_not_as_it_was_sent(channel, made, blocking):
    sock = made(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(blocking)
    send_sockets(channel[0], {"one": [sock]})
    with ExitStack() as stack:
        [arrived] = received(channel[1], stack)["one"]
        assert arrived.getblocking() is blocking


def test_what_arrives_is_not_inherited_by_child_processes(channel, made):
    send_sockets(channel[0], {"one": [made(socket.AF_INET, socket.SOCK_STREAM)]})
    with ExitStack() as stack:
        [arrived] = received(channel[1], stack)["one"]
        assert not arrived.get_inheritable()


def test_a_sender_that_goes_away_is_noticed(channel):
    channel[0].close()
    with pytest.raises(EOFError):
        receive_sockets(channel[1])
