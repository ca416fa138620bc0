"""The relay: every byte once and in order, ends and resets passed on as what they are, and nothing kept."""

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.gateway.io.budget import Buffers, Descriptors, Share
from belljar.gateway.io.pipes import PIPE_BYTES, SMALL_PIPE_BYTES, NoPipeError, Pipes
from belljar.gateway.io.relay import Relay
from belljar.gateway.io.streams import Stream
from tests.gateway.connections import fill, receive, reset, send, tcp_pair
from tests.gateway.driving import Driver, nothing_left_behind
from tests.universe.clients import received

MUCH = 1 << 30


class Joined:
    """A relay at work, the two programs at its ends, and what they have received so far."""

    def __init__(self, driver: Driver, budget: Descriptors, buffered_bytes: int = MUCH) -> None:
        self.driver = driver
        self.pipes = Pipes(Share(budget), Buffers(buffered_bytes))
        self.client, near_client = tcp_pair()
        self.server, near_server = tcp_pair()
        self.relay = Relay(driver.loop, self.pipes, Stream(driver.loop, near_client), Stream(driver.loop, near_server))
        self.ends: list[str] = []
        self.relay.on_end = lambda: self.ends.append("ended")
        self.relay.up.start()
        self.relay.down.start()

    def passed(self, source: socket.socket, sink: socket.socket, data: bytes) -> bytes:
        """Send all of it from one end; return what has arrived at the other by then."""
        rest, arrived = memoryview(data), bytearray()

        def done() -> bool:
            nonlocal rest
            rest = rest[send(source, rest) :] if rest else rest
            arrived.extend(receive(sink) or b"")
            return len(arrived) >= len(data)

        self.driver.until(done)
        return bytes(arrived)

    def close(self) -> None:
        self.relay.abort()
        self.client.close()
        self.server.close()
        self.pipes.close()


@contextmanager
def joining(budget: Descriptors | None = None, buffered_bytes: int = MUCH) -> Iterator[Joined]:
    driver, budget = Driver(), budget or Descriptors(MUCH)
    free = budget.free
    with nothing_left_behind(driver):
        joined = Joined(driver, budget, buffered_bytes)
        try:
            yield joined
        finally:
            joined.close()
    assert budget.free == free
    driver.loop.close()


@pytest.fixture
def joined():
    with joining() as joined:
        yield joined


class TestBytes:
    def test_both_directions(self, joined):
        assert joined.passed(joined.client, joined.server, b"question") == b"question"
        assert joined.passed(joined.server, joined.client, b"answer!") == b"answer!"
        assert (joined.relay.up.bytes, joined.relay.down.bytes) == (8, 7)

    def test_more_than_any_buffer_holds(self, joined):
        data = random.Random(1).randbytes(20 << 20)
        assert joined.passed(joined.client, joined.server, data) == data
        assert joined.passed(joined.server, joined.client, data) == data
        assert (joined.relay.up.bytes, joined.relay.down.bytes) == (len(data), len(data))

    @settings(max_examples=60, deadline=None)
    @given(
        script=st.lists(
            st.tuples(
                st.sampled_from(["client sends", "server sends", "client reads", "server reads", "turn"]),
                st.integers(1, 300_000),
            ),
            max_size=40,
        ),
        small=st.booleans(),
        seed=st.integers(),
    )
    def test_any_chunks_in_any_order(self, script, small, seed):
        """Whatever each side sends and reads, whenever: what arrives is a prefix of it, and in the end all of it."""
        source = random.Random(seed)
        with joining(buffered_bytes=0 if small else MUCH) as joined:
            ends = {"client": joined.client, "server": joined.server}
            other = {"client": "server", "server": "client"}
            sent = {"client": bytearray(), "server": bytearray()}
            got = {"client": bytearray(), "server": bytearray()}

            def read(side: str, size: int) -> None:
                try:
                    got[side] += ends[side].recv(size)
                except BlockingIOError:
                    return

            for step, size in script:
                side, _, what = step.partition(" ")
                if what == "sends":
                    data = source.randbytes(size)
                    sent[side] += data[: send(ends[side], data)]
                elif what == "reads":
                    read(side, size)
                else:
                    joined.driver.loop.turn()
            for end in ends.values():
                end.shutdown(1)

            def all_read() -> bool:
                for side in ends:
                    read(side, 1 << 20)
                return joined.ends == ["ended"] and all(len(got[side]) >= len(sent[other[side]]) for side in ends)

            joined.driver.until(all_read)
            assert got["server"] == sent["client"]
            assert got["client"] == sent["server"]
            assert (joined.relay.up.bytes, joined.relay.down.bytes) == (len(sent["client"]), len(sent["server"]))


class TestEnds:
    @pytest.mark.parametrize("first", ["client", "server"])
    def test_half_closes_in_either_order(self, joined, first):
        one, other = (joined.client, joined.server) if first == "client" else (joined.server, joined.client)
        one.send(b"last words")
        one.shutdown(1)
        joined.driver.settle()
        assert (receive(other), receive(other)) == (b"last words", b"")
        assert joined.passed(other, one, b"a late answer") == b"a late answer"
        assert joined.ends == []
        other.shutdown(1)
        joined.driver.settle()
        assert receive(one) == b""
        assert joined.ends == ["ended"]

    @pytest.mark.parametrize("who", ["client", "server"])
    def test_a_reset_is_passed_on(self, joined, who):
        one, other = (joined.client, joined.server) if who == "client" else (joined.server, joined.client)
        assert joined.passed(one, other, b"so far") == b"so far"
        reset(one)
        joined.driver.settle()
        with pytest.raises(ConnectionResetError):
            receive(other)
        assert joined.ends == ["ended"]

    @pytest.mark.parametrize("who", ["client", "server"])
    def test_a_reset_after_a_half_close_is_passed_on(self, joined, who):
        one, other = (joined.client, joined.server) if who == "client" else (joined.server, joined.client)
        one.shutdown(1)
        joined.driver.settle()
        assert receive(other) == b""
        reset(one)
        joined.driver.settle()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            other.send(b"x")
        assert joined.ends == ["ended"]

    @pytest.mark.parametrize("who", ["client", "server"])
    def test_a_reset_is_passed_on_although_the_other_side_does_not_read(self, joined, who):
        one, other = (joined.client, joined.server) if who == "client" else (joined.server, joined.client)
        sent = 0
        while more := fill(one):
            sent += more
            joined.driver.settle()
        reset(one)
        joined.driver.settle()
        assert joined.ends == ["ended"]
        with pytest.raises(ConnectionResetError):
            received(other)

    @pytest.mark.parametrize("who", ["client", "server"])
    def test_what_was_sent_before_a_reset_arrives_if_there_is_room(self, joined, who):
        """As without a relay: a server that answers and hangs up has answered."""
        one, pump = (joined.client, joined.relay.up) if who == "client" else (joined.server, joined.relay.down)
        one.send(b"the answer")
        reset(one)
        joined.driver.settle()
        assert joined.ends == ["ended"]
        assert pump.bytes == len(b"the answer")

    def test_an_abort_resets_both_sides_and_tells_once(self, joined):
        joined.relay.abort()
        joined.relay.abort()
        joined.relay.close()
        for end in (joined.client, joined.server):
            with pytest.raises(ConnectionResetError):
                receive(end)
        assert joined.ends == ["ended"]

    def test_a_direction_that_starts_too_late_does_nothing(self, joined):
        watch = joined.relay.client.watch
        joined.relay.abort()
        joined.relay.up.start()
        assert (watch.on_readable, watch.on_writable, watch.on_error) == (None, None, None)


class TestBackPressure:
    def test_a_sink_that_does_not_read_stops_the_source(self, joined):
        sent = 0
        while more := fill(joined.client):
            sent += more
            joined.driver.settle()
        assert sent < 64 << 20
        joined.driver.settle()
        assert fill(joined.client) == 0
        arrived = len(joined.passed(joined.client, joined.server, b"x" * sent))
        assert arrived >= sent

    def test_one_direction_stuck_does_not_stop_the_other(self, joined):
        while fill(joined.client):
            joined.driver.settle()
        assert joined.passed(joined.server, joined.client, b"hello") == b"hello"


class TestPipes:
    def test_an_idle_relay_holds_no_pipe(self, joined):
        joined.passed(joined.client, joined.server, b"x")
        joined.driver.settle()
        assert (joined.relay.up._pipe, joined.relay.down._pipe) == (None, None)

    def test_an_empty_pipe_is_used_again(self):
        share = Share(Descriptors(100))
        pipes = Pipes(share, Buffers(MUCH))
        pipe = pipes.borrow()
        pipes.give_back(pipe, empty=True)
        assert pipes.borrow() == pipe
        pipes.give_back(pipe, empty=True)
        pipes.close()
        assert share.held == 0

    def test_a_pipe_that_still_holds_bytes_is_never_used_again(self, joined):
        """Or they would turn up in somebody else's connection."""
        while fill(joined.client):
            joined.driver.settle()
        joined.relay.abort()
        pipes = [joined.pipes.borrow() for _ in range(3)]
        for pipe in pipes:
            with pytest.raises(BlockingIOError):
                os.read(pipe.read_end, 1)
            joined.pipes.give_back(pipe, empty=True)

    def test_beyond_the_limit_pipes_are_small_but_bytes_flow(self):
        with joining(buffered_bytes=PIPE_BYTES) as joined:
            taken = joined.pipes.borrow()
            small = joined.pipes.borrow()
            assert (taken.size, small.size) == (PIPE_BYTES, SMALL_PIPE_BYTES)
            data = random.Random(2).randbytes(1 << 20)
            assert joined.passed(joined.client, joined.server, data) == data
            for pipe in (taken, small):
                joined.pipes.give_back(pipe, empty=True)

    def test_without_a_pipe_the_bytes_wait_and_nothing_is_lost(self):
        budget = Descriptors(8)
        with joining(budget) as joined:
            joined.pipes.close()
            others = Share(budget)
            others.hold(budget.free)
            joined.client.send(b"patience")
            joined.driver.settle()
            assert receive(joined.server) is None
            with pytest.raises(NoPipeError):
                joined.pipes.borrow()
            others.give_back(others.held)
            joined.driver.advance(1)
            assert receive(joined.server) == b"patience"
