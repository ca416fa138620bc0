"""A connection leads to the socket that is at the very path, or nowhere."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar.linux.unixsockets import connect_without_links
from tests.gateway.driving import open_descriptors


@pytest.fixture
def listening(tmp_path) -> Iterator[tuple[socket.socket, Path]]:
    """A socket that listens in a directory of its own."""
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "s"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()
        made.settimeout(0)
        yield made, path


def test_a_connection(listening):
    server, path = listening
    with connect_without_links(path) as client, server.accept()[0] as accepted:
        assert not client.getblocking()
        client.sendall(b"hello")
        assert accepted.recv(9) == b"hello"


def test_a_path_that_is_longer_than_an_address_can_be(listening, tmp_path):
    server, path = listening
    deep = tmp_path / ("x" * 200)
    path.parent.rename(deep)
    with connect_without_links(deep / "s"), server.accept()[0]:
        pass


def test_links_lead_nowhere_and_nothing_is_left_open(listening, tmp_path):
    server, path = listening
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "directory").symlink_to(path.parent)
    before = open_descriptors()
    for linked in (tmp_path / "link", tmp_path / "directory" / "s", tmp_path / "directory" / ".." / "there" / "s"):
        with pytest.raises(OSError, match="has a symbolic link in it"):
            connect_without_links(linked)
    for wrong in (tmp_path, tmp_path / "nothing", path / "below", Path("/")):
        with pytest.raises(OSError):
            connect_without_links(wrong)
    assert open_descriptors() == before
    with pytest.raises(BlockingIOError):
        server.accept()
