"""The load: clients that connect, ask, or receive, as often and as much as they can in a given time.

Runs as a program, `python -m bench.load WORK`, that takes a `Work` in JSON and prints `Done` in JSON. Each client is a
process with blocking sockets: that is the least there can be between the clock and the kernel. That nobody waits for
ever is the kernel's business, too: Python's own timeouts would make two system calls of each.
"""

import json
import multiprocessing
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from bench.origin import REPLY

_PATIENCE = struct.pack("ll", 5, 0)
"""Seconds and microseconds to wait for an answer at most."""


@dataclass(frozen=True)
class Work:
    """What the clients are to do."""

    kind: str
    """answer, stream, idle or dns"""

    address: str
    port: int
    message: str
    """In hexadecimal: a ClientHello, or a DNS question."""

    connect_to: str = ""
    """For proxies that are asked with CONNECT: the name and port."""

    clients: int = 1
    seconds: float = 1.0


@dataclass(frozen=True)
class Done:
    """What the clients have done."""

    count: int
    """Connections, questions or bytes."""

    seconds: float
    """How long a client was at it, on average."""

    times: list[float] = field(default_factory=list)
    """Seconds from the first packet to the answer, of each connection or question."""

    @property
    def rate(self) -> float:
        """How much of it there was in a second."""
        return self.count / self.seconds


def dial(work: Work) -> socket.socket:
    """Connect, through a proxy if that is what it takes, and send the ClientHello."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
    sock.connect((work.address, work.port))
    if work.connect_to:
        sock.sendall(f"CONNECT {work.connect_to} HTTP/1.1\r\nHost: {work.connect_to}\r\n\r\n".encode())
        answer = sock.recv(4096)
        if b" 200 " not in answer[:16]:
            raise ConnectionError(f"the proxy says {answer[:60]!r}")
    sock.sendall(bytes.fromhex(work.message))
    return sock


def connect_again_and_again(work: Work) -> Done:
    """Connect, take the answer, see the end; and once more."""
    clock, times = time.perf_counter, []
    began = now = clock()
    while now < began + work.seconds:
        with dial(work) as sock:
            if sock.recv(4096) != REPLY:
                raise ConnectionError("not the answer of the origin")
            times.append(clock() - now)
            if sock.recv(4096):
                raise ConnectionError("more than the answer came")
        now = clock()
    return Done(len(times), now - began, times)


def receive(work: Work) -> Done:
    """Receive as much as comes."""
    clock, room, count = time.perf_counter, bytearray(1 << 18), 0
    with dial(work) as sock:
        began = now = clock()
        while now < began + work.seconds:
            size = sock.recv_into(room)
            if not size:
                raise ConnectionError("the stream has ended")
            count += size
            now = clock()
    return Done(count, now - began)


def ask_again_and_again(work: Work) -> Done:
    """Ask a DNS question, take the answer; and once more."""
    clock, question, times = time.perf_counter, bytes.fromhex(work.message), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        sock.connect((work.address, work.port))
        began = now = clock()
        while now < began + work.seconds:
            sock.send(question)
            answer = sock.recv(4096)
            asked, now = now, clock()
            times.append(now - asked)
            if answer[:2] != question[:2] or answer[3] & 15:
                raise ConnectionError(f"not answered, but {answer[:12].hex()}")
    return Done(len(times), now - began, times)


KINDS: dict[str, Callable[[Work], Done]] = {
    "answer": connect_again_and_again,
    "stream": receive,
    "dns": ask_again_and_again,
}


def hold(work: Work) -> None:
    """Open connections, say so, and hold them until the standard input ends."""
    held = []
    for _ in range(work.clients):
        sock = dial(work)
        if sock.recv(4096) != REPLY:
            raise ConnectionError("not the answer of the origin")
        held.append(sock)
    print("ready", flush=True)
    sys.stdin.read()


def perform(work: Work) -> Done:
    """Have all clients work at the same time, and add up what they did. Raises OSError if one has failed."""
    fork = multiprocessing.get_context("fork")
    start = fork.Barrier(work.clients)
    reports = []
    for _ in range(work.clients):
        here, there = fork.Pipe(duplex=False)
        fork.Process(target=_client, args=(work, start, there), daemon=True).start()
        there.close()
        reports.append(here)
    results: list[Done] = [_checked(report.recv()) for report in reports]
    return Done(
        sum(done.count for done in results),
        sum(done.seconds for done in results) / len(results),
        [seconds for done in results for seconds in done.times],
    )


def _client(work: Work, start: Barrier, report: Connection) -> None:
    start.wait()
    try:
        report.send(KINDS[work.kind](work))
    except OSError as error:
        report.send(error)


def _checked(outcome: Done | OSError) -> Done:
    if isinstance(outcome, OSError):
        raise outcome
    return outcome


if __name__ == "__main__":
    given = Work(**json.loads(sys.argv[1]))
    if given.kind == "idle":
        hold(given)
    else:
        print(json.dumps(asdict(perform(given))))
