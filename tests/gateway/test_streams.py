"""Streams: what is written arrives, what ends is seen to end, and in the way it ended."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address

import pytest

from belljar.gateway.io.loop import Cancelled
from belljar.gateway.io.streams import connect
from tests.gateway.connections import connected, receive, reset

LOCALHOST = ip_address("127.0.0.1")


@pytest.fixture
def ends(driver):
    with connected(driver.loop) as ends:
        yield ends


def test_what_arrives_is_read(driver, ends):
    stream, far = ends
    far.send(b"hello")
    assert driver.run(stream.read()) == b"hello"
    far.close()
    assert driver.run(stream.read()) == b""


def test_what_is_put_back_is_read_again_and_first(driver, ends):
    stream, far = ends
    far.send(b"later")
    stream.unread(b"second ")
    stream.unread(b"first ")
    assert driver.run(stream.read()) == b"first second "
    assert driver.run(stream.read()) == b"later"


def test_a_large_write_waits_for_the_reader(driver, ends):
    stream, far = ends
    data = bytes(range(256)) * (1 << 16)
    writing, received = driver.start(stream.write(data)), bytearray()

    def arrived() -> bool:
        received.extend(receive(far) or b"")
        return len(received) == len(data)

    driver.settle()
    assert not writing.done
    driver.until(arrived)
    assert received == data
    driver.result(writing)


def test_an_end_is_not_the_end_of_the_other_direction(driver, ends):
    stream, far = ends
    stream.end()
    stream.end()
    assert receive(far) == b""
    far.send(b"still here")
    assert driver.run(stream.read()) == b"still here"


def test_an_orderly_close(driver, ends):
    stream, far = ends
    driver.run(stream.write(b"bye"))
    stream.close()
    stream.close()
    assert (receive(far), receive(far)) == (b"bye", b"")
    assert stream.fileno() == -1


def test_a_reset_cannot_be_taken_for_an_orderly_end(driver, ends):
    stream, far = ends
    stream.reset()
    stream.reset()
    with pytest.raises(ConnectionResetError):
        receive(far)


def test_a_reset_is_seen_by_whoever_reads_and_whoever_writes(driver, ends):
    stream, far = ends
    reading, writing = driver.start(stream.read()), driver.start(stream.write(bytes(1 << 24)))
    driver.settle()
    reset(far)
    for task in (reading, writing):
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            driver.result(task)


def test_the_end_of_a_broken_connection_is_no_error(driver, ends):
    stream, far = ends
    reset(far)
    driver.settle()
    stream.end()


def test_closing_is_told_once(driver, ends):
    stream, _ = ends
    told = []
    stream.on_close = lambda: told.append("closed")
    stream.reset()
    stream.close()
    assert told == ["closed"]


class TestConnect:
    @pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
    def test_a_connection(self, driver, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.create_server((address, 0), family=family) as listener:
            stream = driver.run(connect(driver.loop, ip_address(address), listener.getsockname()[1]))
            with listener.accept()[0] as far:
                far.send(b"hello")
                assert driver.run(stream.read()) == b"hello"
            stream.close()

    def test_a_refusal(self, driver):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            driver.run(connect(driver.loop, LOCALHOST, port))

    def test_a_cancelled_attempt_leaves_nothing_behind(self, driver):
        with full_listener() as port:
            attempt = driver.start(connect(driver.loop, LOCALHOST, port))
            driver.settle()
            attempt.cancel()
            with pytest.raises(Cancelled):
                driver.result(attempt)

    def test_a_wake_up_for_nothing_is_not_taken_for_a_connection(self, driver):
        with full_listener() as port:
            attempt = driver.start(connect(driver.loop, LOCALHOST, port))
            driver.settle()
            [watch] = [watch for watch in driver.loop._watches.values() if watch.on_writable]
            watch.on_writable()
            assert not attempt.done
            attempt.cancel()
            driver.settle()

    def test_a_peer_that_vanishes_will_be_noticed(self, driver):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            stream = driver.run(connect(driver.loop, LOCALHOST, listener.getsockname()[1]))
            assert stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
            stream.close()


@contextmanager
def full_listener() -> Iterator[int]:
    """Return the port of a listener whose queue is full, so that further connections wait."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
