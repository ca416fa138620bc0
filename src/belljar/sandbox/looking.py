"""A look at a sandbox as it is: what the kernel tells of its processes, and what becomes of packets sent inside.

What is sent goes to addresses that no policy opens, and asks for a name that none does. So the gateway itself answers,
whatever the policy says, and nothing leaves. Where there is an interface to leave by, nothing is sent at all.

In a container this is a program that the toolbox's Python runs; it imports as little as it can.
"""

import json
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Final

from belljar.linux.interfaces import others_up

NOWHERE: Final = {socket.AF_INET: "192.0.0.100", socket.AF_INET6: "3fff::1"}
"""Addresses that nobody has: one of the range for protocols themselves, and one of a range for documentation."""

NO_NAME: Final = "inspect.localhost"
"""A name that no policy opens."""

_FIELDS: Final = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_SECONDS: Final = 3.0
_HTTP: Final = b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
_MOST_BYTES: Final = 65536
_NUMBER: Final = 0x626A
_QUESTION: Final = (
    struct.pack("!6H", _NUMBER, 0x0100, 1, 0, 0, 1)
    + b"".join(b"%c%s" % (len(label), label.encode()) for label in NO_NAME.split("."))
    + b"\0"
    + struct.pack("!2H", 1, 1)  # A, IN
    + struct.pack("!B2HIH", 0, 41, 1232, 0, 0)  # EDNS: who speaks it is told why
)


def main() -> None:
    """Print what is seen from inside."""
    seen = {"first": look_at_process(1), "command": look_at_process("self"), "network": look_at_network()}
    sys.stdout.write(json.dumps(seen))


def look_at_process(process: int | str) -> dict[str, Any]:
    """Return what the kernel tells of a process: its rights, its filter and whom its user stands for."""
    try:
        status = Path(f"/proc/{process}/status").read_text(errors="replace").splitlines()
        users = Path(f"/proc/{process}/uid_map").read_text().splitlines()
    except OSError as error:
        return {"error": str(error)}
    pairs = (line.partition(":") for line in status)
    told = {name: value.strip() for name, _, value in pairs if name in _FIELDS}
    return {**told, "users": [[int(number) for number in line.split()] for line in users]}


def look_at_network() -> dict[str, Any]:
    """Return what becomes of packets in the network namespace of the calling thread."""
    if ways_out := others_up():
        return {"ways_out": ways_out}
    return {
        "ways_out": [],
        "tcp": [_connect(family, address) for family, address in NOWHERE.items()],
        "udp": [_send(family, address) for family, address in NOWHERE.items()],
        "dns": [_ask(family, address) for family, address in NOWHERE.items()],
    }


def _connect(family: int, address: str) -> dict[str, Any]:
    """Tell whether a connection to a host that is not there is led elsewhere, and why we are turned away there."""
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(_SECONDS)
        try:
            client.connect((address, 80))
        except OSError as error:
            return {"led_elsewhere": isinstance(error, ConnectionRefusedError), "said": str(error)}
        try:
            client.sendall(_HTTP % address.encode())
            answer = b"".join(iter(lambda: client.recv(_MOST_BYTES), b""))
            return {"led_elsewhere": True, "said": str(json.loads(answer.partition(b"\r\n\r\n")[2])["reason"])}
        except (OSError, ValueError, KeyError, TypeError) as error:
            return {"led_elsewhere": True, "said": str(error)}


def _send(family: int, address: str) -> dict[str, Any]:
    """Tell whether a datagram is refused."""
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(_SECONDS)
        try:
            client.connect((address, 9))
            client.send(b"belljar")
            client.recv(1)
        except TimeoutError:
            return {"refused": False}
        except OSError as error:
            return {"refused": True, "said": error.strerror}
    return {"refused": False}


def _ask(family: int, address: str) -> dict[str, Any]:
    """Tell whether a question to a name server that is not there is answered by our own."""
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(_SECONDS)
        try:
            client.connect((address, 53))  # or we are not told that nobody is there
            client.send(_QUESTION)
            answer = client.recv(_MOST_BYTES)
        except OSError as error:
            return {"answered": False, "said": str(error)}
    is_ours = answer[:2] == _QUESTION[:2] and b"reserved_name" in answer
    return {"answered": is_ours, "said": "reserved_name" if is_ours else "something else"}


if __name__ == "__main__":
    main()
