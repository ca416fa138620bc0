"""What runs inside a sandbox while its server is measured: a program for the host's own Python, given as text.

Its clock is the host's monotonic one, so that what is seen inside can be compared to what is done outside.
"""

import asyncio
import json
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

STAMP = 8
"""A message is the nanosecond at which it was sent."""


def watch(name: str, port: str) -> None:
    """Keep a connection open: tell when it is, and when it was cut."""
    address = socket.gethostbyname(name)
    while True:
        with suppress(OSError), socket.create_connection((address, int(port))) as connection:
            connection.send(_stamp())
            if connection.recv(STAMP):
                print("open", flush=True)
                with suppress(OSError):
                    connection.recv(STAMP)
                print(time.monotonic(), flush=True)
        time.sleep(0.001)


async def talk(name: str, port: str, flows: str, contested_name: str, contested_port: str, contested: str) -> None:
    """Talk on flows that must last, and on some that are cut and opened again; tell at the end how that went."""
    lost, sent = 0, 0
    address, contested_address = socket.gethostbyname(name), socket.gethostbyname(contested_name)

    async def last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lost
        try:
            while True:
                writer.write(_stamp())
                await reader.readexactly(STAMP)
                await asyncio.sleep(0.1)
        except (OSError, EOFError):
            lost += 1

    async def insist() -> None:
        nonlocal sent
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(contested_address, int(contested_port))
                while not reader.at_eof() and reader.exception() is None:
                    writer.write(_stamp())
                    sent += 1
                    await asyncio.sleep(0.002)
                writer.close()
            await asyncio.sleep(0.002)

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    open_ones = [await asyncio.open_connection(address, int(port)) for _ in range(int(flows))]
    tasks = [asyncio.create_task(last(*one)) for one in open_ones]
    tasks += [asyncio.create_task(insist()) for _ in range(int(contested))]
    print("ready", flush=True)
    await stopped.wait()
    print(json.dumps({"lost": lost, "sent": sent}), flush=True)
    for task in tasks:
        task.cancel()


def flood(count: str, per_second: str) -> None:
    """Ask for names that are denied, at a steady rate."""
    resolver = Path("/etc/resolv.conf").read_text().partition("nameserver")[2].split()[0]
    family = socket.AF_INET6 if ":" in resolver else socket.AF_INET
    begun = time.monotonic()
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5.0)
        for number in range(int(count)):
            time.sleep(max(0.0, begun + number / float(per_second) - time.monotonic()))
            label = b"n%d" % number
            name = bytes([len(label)]) + label + b"\x06denied\x04test\x00"
            question = number.to_bytes(2) + b"\x01\x00\x00\x01" + bytes(6) + name + b"\x00\x01\x00\x01"
            sock.sendto(question, (resolver, 53))
            sock.recv(512)


def _stamp() -> bytes:
    return time.monotonic_ns().to_bytes(STAMP)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "talk":
        asyncio.run(talk(*words))
    else:
        {"watch": watch, "flood": flood}[what](*words)
