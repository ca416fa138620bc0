"""The audit log: what a reader of the file or of the pipe sees."""

import errno
import json
import os
import re
import select
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.audit.events import (
    AuditLost,
    DnsAnswered,
    DnsRefused,
    Event,
    FlowDenied,
    LimitReached,
    PolicyChanged,
    SandboxClosed,
)
from belljar.gateway.audit.log import AuditLog, keep_flushed, open_log
from belljar.gateway.audit.reading import read_event
from tests.gateway.driving import Driver

EVENT = LimitReached("connections", 1)
NOON = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC).timestamp()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.ndjson"


class Pipe:
    """A pipe, and a log that writes to it without blocking."""

    def __init__(self, **options: Any) -> None:
        self.reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.log = AuditLog(writer, clock=lambda: NOON, **options)

    def fill(self) -> int:
        """Write until nothing more fits, and return how many lines that were."""
        lines = 0
        while not self.log.waiting:
            self.log.write("jar", EVENT)
            lines += 1
        return lines

    def read(self) -> list[dict[str, Any]]:
        """Return the lines that have arrived, after making sure that the rest follows."""
        received = b""
        while True:
            self.log.flush()
            try:
                received += os.read(self.reader, 1 << 20)
            except BlockingIOError:
                break
        assert received.endswith(b"\n")
        return [json.loads(line) for line in received.splitlines()]

    def close(self) -> None:
        os.close(self.reader)
        self.log.close()


@pytest.fixture
def pipe():
    pipe = Pipe(queue_lines=10)
    yield pipe
    pipe.close()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def written(path: Path, *events: Event, clock: Callable[[], float] = lambda: NOON) -> list[dict[str, Any]]:
    log = AuditLog(open_log(str(path)), clock=clock)
    for event in events:
        assert log.write("jar-1", event)
    log.close()
    return read(path)


def test_a_line_has_the_common_fields_and_those_of_its_event(path):
    event = FlowDenied("tcp", None, ("203.0.113.7",), 443, None, "not_allowed_address", "mode", "No.")
    [record] = written(path, event)
    assert list(record.items()) == [
        ("v", 1),
        ("time", "2026-11-15T12:00:00.000Z"),
        ("event", "flow.denied"),
        ("sandbox", "jar-1"),
        ("protocol", "tcp"),
        ("name", None),
        ("addresses", ["203.0.113.7"]),
        ("port", 443),
        ("claimed", None),
        ("reason", "not_allowed_address"),
        ("rule", "mode"),
        ("sentence", "No."),
    ]


def test_an_event_without_fields_of_its_own(path):
    [record] = written(path, SandboxClosed())
    assert list(record) == ["v", "time", "event", "sandbox"]


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_utc_with_milliseconds(milliseconds):
    reader, writer = os.pipe2(os.O_CLOEXEC)
    log = AuditLog(writer, clock=lambda: milliseconds / 1000)
    log.write("jar", EVENT)
    log.close()
    shown = json.loads(os.read(reader, 4096))["time"]
    os.close(reader)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown)
    assert abs(datetime.fromisoformat(shown).timestamp() - milliseconds / 1000) <= 0.0011


def test_times_go_on(path):
    clock = iter([NOON, NOON + 0.25, NOON + 1.5, NOON + 60, NOON + 61])  # the last is for the end of the log
    records = written(path, EVENT, EVENT, EVENT, EVENT, clock=lambda: next(clock))
    assert [record["time"][14:] for record in records] == ["00:00.000Z", "00:00.250Z", "00:01.500Z", "01:00.000Z"]


EVIL = [
    pytest.param('\n{"v":1,"event":"flow.allowed"}', id="a line of its own"),
    pytest.param("\x1b[2J\x1b]0;owned\x07", id="terminal"),
    pytest.param("\x00\r\x7f\x85\u2028\u2029\u202e", id="controls"),
    pytest.param('quote " backslash \\', id="JSON"),
    pytest.param("%s %d {field}", id="templates"),
    pytest.param("\ud800", id="half a character"),
]


@pytest.mark.parametrize("text", EVIL)
def test_what_a_sandbox_says_cannot_forge_anything(path, text):
    [record] = written(path, DnsRefused("udp", text, None, "malformed_dns", text))
    assert (record["name"], record["detail"]) == (text, text)
    assert re.fullmatch(rb"[ -~]+\n", path.read_bytes())


@given(st.text(), st.lists(st.text(), max_size=3).map(tuple), st.one_of(st.none(), st.integers(0, 65535)))
def test_every_value_comes_back_as_it_was(name, addresses, port):
    reader, writer = os.pipe2(os.O_CLOEXEC)
    log = AuditLog(writer)
    event = FlowDenied(None, name, addresses, port, None, "", None, name)
    log.write(name, event)
    log.close()
    line = os.read(reader, 1 << 16)
    os.close(reader)
    assert re.fullmatch(rb"[ -~]+\n", line)
    record = json.loads(line)
    assert (record["sandbox"], record["addresses"], record["port"]) == (name, list(addresses), port)
    assert record["sentence"] == name
    assert read_event(line) == event


@pytest.mark.parametrize(
    "line", [b"", b"null", b"[]", b'{"event": []}', b'{"event": "other"}', b'{"event": "flow.denied"}', b"\xff"]
)
def test_what_tells_no_event_is_read_as_none(line):
    assert read_event(line) is None


def test_the_longest_line_is_written_whole(path):
    """Pipes take 4096 bytes whole or not at all."""
    longest_name = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    sentence = f"{longest_name}:65535 was dialled, but the first bytes of the connection name {longest_name}:65535."
    rule = "egress.allowed_domains[99999]"
    addresses = ("2001:db8:1111:2222:3333:4444:5555:6666",) * 8
    denied = FlowDenied("tcp", longest_name, addresses, 65535, longest_name, "name_mismatch", rule, sentence)
    refused = DnsRefused("udp", r"\255" * 254, "TYPE65535", "unsupported_dns", "x" * 100)
    written(path, denied, refused)
    assert max(map(len, path.read_bytes().splitlines())) < select.PIPE_BUF - len("sandbox-id" * 10)


def test_several_logs_can_append_to_one_file(path):
    first, second = (AuditLog(open_log(str(path))) for _ in range(2))
    for number in range(20):
        first.write("first", LimitReached("connections", number))
        second.write("second", LimitReached("connections", number))
    first.close()
    second.close()
    assert [(record["sandbox"], record["times"]) for record in read(path)] == [
        (sandbox, number) for number in range(20) for sandbox in ("first", "second")
    ]


def test_a_log_is_for_its_owner_only_and_follows_no_link(path, tmp_path):
    os.close(open_log(str(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        open_log(str(tmp_path / "link"))


def test_a_named_pipe_without_a_reader_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError) as caught:
        open_log(str(tmp_path / "fifo"))
    assert caught.value.errno == errno.ENXIO


def test_lines_wait_for_a_slow_reader_and_keep_their_order(pipe):
    lines = pipe.fill()
    for number in range(3):
        assert pipe.log.write("jar", LimitReached("handshakes", number))
    records = pipe.read()
    assert [record["times"] for record in records] == [1] * lines + [0, 1, 2]
    assert pipe.log.waiting == 0


def test_what_does_not_fit_in_the_queue_is_lost_and_the_loss_is_told(pipe):
    lines = pipe.fill()
    kept = sum(pipe.log.write("jar", EVENT) for _ in range(100))
    assert 0 < kept < 10
    assert pipe.log.waiting < 10
    assert len(pipe.read()) == lines + kept
    assert pipe.log.write("jar", PolicyChanged(2, "d", 0))
    lost, next_one = pipe.read()
    assert (lost["event"], lost["sandbox"], lost["lines"], lost["cause"]) == ("audit.lost", None, 100 - kept, "full")
    assert next_one["event"] == "policy.changed"


def test_what_waits_is_written_before_long_without_another_event(pipe):
    driver = Driver()
    flushing = driver.start(keep_flushed(driver.loop, pipe.log))
    pipe.fill()
    assert pipe.log.write("jar", PolicyChanged(2, "d", 0))
    assert pipe.log.waiting
    driver.settle()
    os.read(pipe.reader, 1 << 20)
    driver.advance(1.0)
    assert pipe.log.waiting == 0
    assert json.loads(os.read(pipe.reader, 1 << 20).splitlines()[-1])["event"] == "policy.changed"
    flushing.cancel()
    driver.settle()
    driver.loop.close()


def test_the_last_loss_is_told_at_the_end():
    pipe = Pipe(queue_lines=10)
    pipe.fill()
    while pipe.log.write("jar", EVENT):
        pass
    os.read(pipe.reader, 1 << 20)
    pipe.log.close()
    last = os.read(pipe.reader, 1 << 20).splitlines()[-1]
    os.close(pipe.reader)
    assert json.loads(last)["event"] == "audit.lost"


def test_a_pipe_that_nobody_reads_any_more_is_no_trouble():
    pipe = Pipe(queue_lines=10)
    os.close(pipe.reader)
    kept = [pipe.log.write("jar", EVENT) for _ in range(30)]
    assert kept.count(False) == 30 - pipe.log.waiting
    pipe.reader = os.open("/dev/null", os.O_RDONLY)
    pipe.close()


class Disk:
    """Stands in for `os.write` to a disk with so much room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.written = b""

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = data[: self.room]
        self.room -= len(taken)
        self.written += taken
        return len(taken)

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written.splitlines()]


@pytest.mark.parametrize("room", [0, 1, 150, 200])
def test_a_full_disk_loses_lines_but_tears_none(monkeypatch, path, room):
    disk = Disk(room)
    monkeypatch.setattr(os, "write", disk.write)
    log = AuditLog(open_log(str(path)), queue_lines=5)
    kept = sum(log.write("jar", EVENT) for _ in range(50))
    disk.room = 1 << 20
    log.write("jar", SandboxClosed())
    log.close()
    events = [record["event"] for record in disk.records()]
    assert events == ["limit.reached"] * kept + ["audit.lost", "sandbox.closed"]
    assert disk.records()[-2]["lines"] == 50 - kept


def test_a_loss_is_told_where_it_happened(monkeypatch, path):
    disk = Disk(0)
    monkeypatch.setattr(os, "write", disk.write)
    log = AuditLog(open_log(str(path)), queue_lines=5)
    while log.write("jar", EVENT):
        pass
    disk.room = 250  # for two lines of those that wait
    assert log.write("jar", PolicyChanged(2, "d", 0))
    disk.room = 1 << 20
    log.write("jar", SandboxClosed())
    log.close()
    events = [record["event"] for record in disk.records()]
    assert events == ["limit.reached"] * 4 + ["audit.lost", "policy.changed", "sandbox.closed"]


def test_a_full_disk_is_not_waited_for(monkeypatch, path):
    monkeypatch.setattr(os, "write", Disk(0).write)
    log = AuditLog(open_log(str(path)), queue_lines=5, on_full="block")
    assert not all(log.write("jar", EVENT) for _ in range(10))
    log.close()


def test_a_slow_reader_can_be_waited_for():
    pipe = Pipe(queue_lines=10, on_full="block")
    received = bytearray()

    def read_to_the_end() -> None:
        os.set_blocking(pipe.reader, True)
        while data := os.read(pipe.reader, 1024):
            received.extend(data)

    lines = pipe.fill()
    reading = threading.Thread(target=read_to_the_end)
    reading.start()
    assert all(pipe.log.write("jar", EVENT) for _ in range(2000))
    while pipe.log.waiting:
        pipe.log.flush()
    pipe.log.close()
    reading.join()
    os.close(pipe.reader)
    assert received.count(b"\n") == lines + 2000


def test_every_line_is_one_write(monkeypatch, path):
    writes: list[bytes] = []
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    written(path, EVENT, DnsAnswered("udp", "api.example.org", "A", "address", "allowed_domain"), AuditLost(1, "flood"))
    assert [data.count(b"\n") for data in writes] == [1, 1, 1]
    assert b"".join(writes) == path.read_bytes()
