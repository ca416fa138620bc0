"""Programs in a sandbox that take as much of the gateway as they can get.

They run as `python -m tests.universe.hogs KIND ADDRESS PORT HOST`. Each says when it is at work, and is at it until its
standard input ends.
"""

import itertools
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import dns.message

from tests.universe.places import Place

SIZE = 65536
ASKS_FOR_ENCRYPTION = bytes.fromhex("0000000804d2162f") * (SIZE // 8)
ONE_BYTE_CHUNKS = b"1\r\nX\r\n" * (SIZE // 6)
ONE_BYTE_RECORDS = (b"\x16\x03\x01\0\x01\x01\x16\x03\x01\0\x01\0" + b"\x16\x03\x01\0\x01\x20" * (SIZE // 6))[:SIZE]
UPLOAD = b"POST / HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: chunked\r\n\r\n"


def send_for_ever(address: tuple[str, int], opening: bytes, data: bytes) -> None:
    """Send the same again and again, on new connections if it has to be."""
    while True:
        with suppress(OSError), socket.create_connection(address) as sock:
            sock.sendall(opening)
            while True:
                sock.sendall(data)


def send_once_on_many(address: tuple[str, int], data: bytes, count: int = 64) -> None:
    """Send on many connections at once, and then on as many others."""
    while True:
        with ExitStack() as stack:
            for _ in range(count):
                with suppress(OSError):
                    sock = stack.enter_context(socket.create_connection(address))
                    sock.setblocking(False)
                    sock.send(data)


def send_bytewise_on_many(address: tuple[str, int], count: int = 200) -> None:
    """Have something arrive on many connections all the time, one byte of a hello after the other."""
    while True:
        with ExitStack() as stack, suppress(OSError):
            socks = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
            for position in range(SIZE):
                for sock in socks:
                    sock.send(ONE_BYTE_RECORDS[position : position + 1])


def ask_for_ever(address: tuple[str, int], names: Iterator[str]) -> None:
    """Ask, and do not wait for answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        for name in names:
            with suppress(OSError):
                sock.send(dns.message.make_query(name, "A").to_wire())


def send_datagrams_for_ever(address: tuple[str, int]) -> None:
    """Send datagrams from a few ports."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(16)]
        for sock in itertools.cycle(socks):
            with suppress(OSError):
                sock.sendto(bytes(1000), address)


def download_for_ever(address: tuple[str, int], opening: bytes, count: int = 8) -> None:
    """Receive as much as comes, on some connections."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        room = bytearray(1 << 18)
        for sock in socks:
            sock.sendall(opening)
        while True:
            for sock in select.select(socks, [], [])[0]:
                sock.recv_into(room)


KINDS: dict[str, Callable[[tuple[str, int], str], None]] = {
    "requests for encryption": lambda address, _: send_for_ever(address, b"", ASKS_FOR_ENCRYPTION),
    "one-byte chunks": lambda address, host: send_for_ever(address, UPLOAD % host.encode(), ONE_BYTE_CHUNKS),
    "one-byte records": lambda address, _: send_once_on_many(address, ONE_BYTE_RECORDS),
    "one-byte segments": lambda address, _: send_bytewise_on_many(address),
    "connections": lambda address, _: send_once_on_many(address, b""),
    "questions": lambda address, host: ask_for_ever(address, itertools.repeat(host)),
    "datagrams": lambda address, _: send_datagrams_for_ever(address),
    "denied datagrams": lambda address, _: send_datagrams_for_ever(address),
    "downloads": lambda address, host: download_for_ever(address, bytes.fromhex(host)),
}


@contextmanager
def hogging(
    place: Place, kind: str, address: str, port: int, host: str = "", before: Sequence[str] = ()
) -> Iterator[None]:
    """Have a hog at work somewhere, for the length of a block."""
    command = [*before, sys.executable, "-m", "tests.universe.hogs", kind, address, str(port), host]
    process = place.call(lambda: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def main(kind: str, address: str, port: str, host: str) -> None:
    """Begin, and go on until whoever has started us is gone."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Thread(target=KINDS[kind], args=[(address, int(port)), host], daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
