"""The pump between a caller's descriptors and a connection whose other end is the test's: bytes, ends, full pipes."""

import os
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from belljar.backends.containers.exec.frames import STDERR, STDOUT, FrameReader
from belljar.backends.containers.exec.streaming import UNREAD, StreamPump
from belljar.backends.interface import Streams
from tests.backends.containers.test_frames import framed

PATIENCE = 60
A_MOMENT = 0.2
"""Long enough for what should not happen to be noticed; nothing fails if it is too short."""

MUCH = bytes(range(256)) * 4096 * 4
MORE_THAN_PIPES_HOLD = 2 << 20


def never() -> None:
    """Have nothing to look at."""


class Joined:
    """A pump, the engine's end of its connection, and the caller's ends of three pipes."""

    def __init__(self, early: bytes = b"", frames: FrameReader | None = None, **streams: int) -> None:
        self.engine, connection = socket.socketpair()
        self.engine.settimeout(PATIENCE)
        (stdin, self.stdin), (self.stdout, stdout), (self.stderr, stderr) = os.pipe(), os.pipe(), os.pipe()
        self.given = Streams(*({"stdin": stdin, "stdout": stdout, "stderr": stderr} | streams).values())
        self.pump = StreamPump(connection, early, self.given, frames)
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        self._thread: threading.Thread | None = None

    def carry(self, ended: int | None = None) -> None:
        """Begin to carry, on a thread."""
        self._begin(lambda: self.pump.carry(ended, never))

    def drain(self, seconds: float = PATIENCE) -> None:
        self._begin(lambda: self.pump.drain(seconds))

    def flush(self) -> None:
        self._begin(lambda: self.pump.flush(None))

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def close(self) -> None:
        self.engine.close()
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)
        if self._thread is not None:
            self.join()
        self.pump.close()

    def hang_up(self, *names: str) -> None:
        """Close the caller's own end of a stream."""
        for name in names:
            os.close(getattr(self, name))
            setattr(self, name, -1)

    def _begin(self, task: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=task, daemon=True)
        self._thread.start()


@pytest.fixture
def join() -> Iterator[Callable[..., Joined]]:
    """Return what makes one."""
    with ExitStack() as made:

        def join(*arguments, **options) -> Joined:
            joined = Joined(*arguments, **options)
            made.callback(joined.close)
            return joined

        yield join


def read_to_end(sock: socket.socket) -> bytes:
    content = b""
    while piece := sock.recv(1 << 20):
        content += piece
    return content


def read_exactly(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count:
        assert select.select([descriptor], [], [], PATIENCE)[0], f"{len(content)} of {count} bytes came"
        piece = os.read(descriptor, count - len(content))
        assert piece, f"{len(content)} of {count} bytes came"
        content += piece
    return content


def fill(descriptor: int) -> int:
    """Write for as long as anybody takes it, and return how much that was."""
    sent = 0
    while sent < len(MUCH) and select.select([], [descriptor], [], A_MOMENT)[1]:
        sent += os.write(descriptor, MUCH[sent : sent + 4096])
    return sent


@contextmanager
def a_file(content: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


@contextmanager
def a_pipe(content: bytes) -> Iterator[int]:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    yield reading
    writer.join(PATIENCE)
    os.close(reading)


@contextmanager
def a_socket(content: bytes) -> Iterator[int]:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def write() -> None:
            ours.sendall(content)
            ours.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=write)
        writer.start()
        yield theirs.fileno()
        writer.join(PATIENCE)


@pytest.mark.parametrize("kind", [a_file, a_pipe, a_socket])
@pytest.mark.parametrize("content", [b"", b"\0\xff\n", MUCH], ids=len)
def test_input_of_every_kind_comes_to_its_end(join, kind, content):
    with kind(content) as stdin:
        joined = join(stdin=stdin)
        joined.carry()
        assert read_to_end(joined.engine) == content


@pytest.mark.parametrize("path", ["/dev/null", "/"])
def test_input_that_has_nothing(join, path):
    stdin = os.open(path, os.O_RDONLY)
    joined = join(stdin=stdin)
    os.close(stdin)
    joined.carry()
    assert read_to_end(joined.engine) == b""


def test_input_goes_through_while_it_is_open(join):
    joined = join()
    joined.carry()
    for word in (b"one", b"two"):
        os.write(joined.stdin, word)
        assert joined.engine.recv(100) == word


def test_input_that_nobody_takes_is_held_back(join):
    joined = join()
    joined.carry()
    sent = fill(joined.stdin)
    assert sent < MORE_THAN_PIPES_HOLD
    assert read_exactly(joined.engine.fileno(), sent) == MUCH[:sent]


def test_output_comes_in_order_and_is_one_without_frames(join):
    joined = join(b"early ")
    joined.carry()
    joined.engine.sendall(b"late")
    joined.engine.shutdown(socket.SHUT_WR)
    joined.join()
    joined.pump.flush(None)
    assert os.read(joined.stdout, 100) == b"early late"


def test_two_outputs(join):
    joined = join(framed(STDOUT, b"early "), FrameReader())
    joined.carry()
    joined.engine.sendall(framed(STDERR, b"error") + framed(STDOUT, b"late"))
    joined.engine.close()
    joined.join()
    joined.pump.flush(None)
    assert (os.read(joined.stdout, 100), os.read(joined.stderr, 100)) == (b"early late", b"error")


def test_two_outputs_into_one_file_keep_their_order(join):
    with tempfile.TemporaryFile() as file:
        joined = join(b"", FrameReader(), stdout=file.fileno(), stderr=file.fileno())
        joined.carry()
        for number in range(100):
            joined.engine.sendall(framed(1 + number % 2, b"%d " % number))
        joined.engine.close()
        joined.join()
        joined.pump.flush(None)
        file.seek(0)
        assert file.read().split() == [b"%d" % number for number in range(100)]


def test_a_reader_that_takes_nothing_holds_the_engine_back(join):
    joined = join()
    joined.carry()
    sent = fill(joined.engine.fileno())
    assert sent < MORE_THAN_PIPES_HOLD
    assert read_exactly(joined.stdout, sent) == MUCH[:sent]


def test_what_is_left_of_an_ended_command_is_taken_whether_it_is_read_or_not(join):
    joined = join()
    joined.drain()
    joined.engine.sendall(MUCH)
    joined.engine.close()
    joined.join()
    assert not joined.pump.is_open
    joined.flush()
    assert read_exactly(joined.stdout, len(MUCH)) == MUCH


def test_there_is_an_end_to_what_is_kept(join):
    joined = join()
    joined.drain()
    joined.engine.sendall(MUCH)
    joined.engine.sendall(MUCH)
    assert fill(joined.engine.fileno()) < MORE_THAN_PIPES_HOLD
    joined.hang_up("stdout")


def test_an_end_is_not_waited_for_without_end(join):
    joined = join()
    joined.pump.drain(0.01)
    assert joined.pump.is_open


def test_the_end_of_the_command_is_noticed_while_the_stream_is_open(join):
    joined, ended = join(), os.eventfd(0)
    joined.carry(ended)
    os.write(joined.stdin, b"before")
    assert joined.engine.recv(100) == b"before"
    os.eventfd_write(ended, 1)
    joined.join()
    assert joined.pump.is_open
    os.close(ended)


def test_a_reader_that_is_gone_disturbs_nobody_else(join):
    joined = join(b"", FrameReader())
    joined.hang_up("stdout")
    joined.carry()
    joined.engine.sendall(framed(STDOUT, MUCH) + framed(STDERR, b"still here"))
    assert read_exactly(joined.stderr, 10) == b"still here"
    joined.engine.sendall(framed(STDOUT, MUCH))
    joined.engine.close()
    joined.join()


def test_a_disk_that_is_full_disturbs_nobody_else(join):
    full = os.open("/dev/full", os.O_WRONLY)
    joined = join(b"", FrameReader(), stdout=full)
    os.close(full)
    joined.carry()
    joined.engine.sendall(framed(STDOUT, b"lost") + framed(STDERR, b"kept"))
    assert read_exactly(joined.stderr, 4) == b"kept"


def test_patience_with_a_reader_has_an_end(join):
    joined = join()
    joined.drain()
    joined.engine.sendall(MUCH)
    joined.engine.close()
    joined.join()
    joined.pump.flush(0)
    joined.pump.close()
    with os.fdopen(os.dup(joined.stdout), "rb") as file:
        taken = file.read()
    assert taken
    assert MUCH.startswith(taken)


def test_an_engine_that_hangs_up_on_input_has_its_output_written(join):
    joined = join()
    os.write(joined.stdin, b"unread")
    joined.engine.sendall(b"the last words")
    joined.carry()
    assert read_exactly(joined.stdout, 14) == b"the last words"
    joined.engine.close()
    joined.join()
    assert not joined.pump.is_open


@pytest.mark.parametrize(("count", "said"), [(1000, b""), (100_000, UNREAD)])
def test_output_that_podman_may_have_lost_is_told_of(join, count, said):
    reset = b"Error: read unixpacket @->/proc/self/fd/16/attach: read: connection reset by peer\n"
    with a_file(MUCH[:count]) as stdin:
        joined = join(b"", FrameReader(), stdin=stdin)
        joined.carry()
        read_to_end(joined.engine)
        joined.engine.sendall(framed(STDOUT, b"out") + framed(STDERR, reset))
        joined.engine.close()
        joined.join()
        joined.pump.flush(None)
        joined.pump.close()
        assert os.read(joined.stdout, 100) == b"out"
        assert os.read(joined.stderr, 100) == said


def test_descriptors_stay_as_the_caller_has_them(join):
    nonblocking = os.pipe2(os.O_NONBLOCK)
    blocking = os.pipe()
    joined = join(b"", FrameReader(), stdout=nonblocking[1], stderr=blocking[1])
    joined.carry()
    sent = threading.Thread(target=joined.engine.sendall, args=(framed(STDOUT, MUCH) + framed(STDERR, b"end"),))
    sent.start()
    assert read_exactly(nonblocking[0], len(MUCH)) == MUCH
    assert read_exactly(blocking[0], 3) == b"end"
    sent.join(PATIENCE)
    assert [os.get_blocking(descriptor) for descriptor in (nonblocking[1], blocking[1])] == [False, True]
    joined.engine.close()
    joined.join()
    joined.pump.close()
    assert os.write(nonblocking[1], b"still mine")
    for descriptor in (*nonblocking, *blocking):
        os.close(descriptor)


def test_nothing_stays_open(join):
    before = len([*Path("/proc/self/fd").iterdir()])
    joined = Joined()
    joined.carry()
    joined.engine.shutdown(socket.SHUT_WR)
    joined.join()
    joined.close()
    assert len([*Path("/proc/self/fd").iterdir()]) == before
