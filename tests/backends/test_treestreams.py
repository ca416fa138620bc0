"""Archives on their way: a process at the other end that stops, or goes on for ever, keeps nobody waiting."""

import os
import threading
from contextlib import contextmanager, suppress

import pytest

from belljar.backends import treestreams
from belljar.backends.interface import LostError, PathError
from belljar.backends.treestreams import archive_pipe


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(treestreams, "_STALL_TIMEOUT", 0.3)


@pytest.fixture
def file(tmp_path):
    with (tmp_path / "archive").open("w+b", buffering=0) as opened:
        yield opened


@contextmanager
def running(work):
    """Do something on another thread until the caller is done."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def answer():
    """A descriptor at which no answer arrives."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def test_a_process_that_writes_nothing_is_given_up(file):
    with archive_pipe() as pipe, pytest.raises(LostError, match=r"0\.3 seconds"):
        pipe.receive(file.fileno(), 1 << 30)


def test_a_process_that_reads_nothing_is_given_up(file, answer):
    file.truncate(1 << 21)
    with archive_pipe() as pipe, pytest.raises(LostError):
        pipe.send(file.fileno(), answer)


def test_a_process_that_writes_hardly_anything_is_given_up(file):
    with archive_pipe() as pipe:

        def trickle(done):
            while not done.wait(0.01):
                os.write(pipe.sending.fileno(), b".")

        with running(trickle), pytest.raises(LostError):
            pipe.receive(file.fileno(), 1 << 30)


def test_a_process_that_writes_for_ever_exceeds_the_limit(file):
    with archive_pipe() as pipe:

        def flood(done):
            os.set_blocking(pipe.sending.fileno(), False)
            while not done.is_set():
                with suppress(BlockingIOError):
                    os.write(pipe.sending.fileno(), bytes(4096))

        with running(flood), pytest.raises(PathError, match="more than 3000000 bytes"):
            pipe.receive(file.fileno(), 3_000_000)
    assert file.seek(0, os.SEEK_END) <= 3_000_000


def test_a_transfer_that_moves_has_all_the_time_that_it_takes(file):
    """It takes several times as long as it may stall."""
    with archive_pipe() as pipe:

        def work(done):
            for _ in range(12):
                done.wait(0.1)
                left = memoryview(bytes(treestreams._PORTION))
                while left:
                    left = left[os.write(pipe.sending.fileno(), left) :]
            pipe.sending.close()

        with running(work):
            pipe.receive(file.fileno(), 1 << 30)
    assert file.tell() == 12 * treestreams._PORTION


def test_nothing_is_sent_to_a_process_that_has_answered(file, answer):
    file.truncate(1 << 24)
    reading, writing = os.pipe()
    os.write(writing, b"no")
    with archive_pipe() as pipe:
        pipe.send(file.fileno(), reading)
        pipe.receiving.close()
        pipe.send(file.fileno(), answer)
    os.close(reading)
    os.close(writing)
