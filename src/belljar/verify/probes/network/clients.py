"""Small clients: enough to ask for something and to tell whether it was had."""

import json
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark

PATIENCE: Final = 5.0
"""Seconds until a client takes silence for an answer."""

_ALERTS: Final = {49: "access_denied", 112: "unrecognized_name"}
_TLS_ALERT: Final = 21

WITNESS_ALERT: Final = bytes([21, 3, 3, 0, 2, 2, 40])
"""Fatal, handshake_failure. A gateway that denies says something else."""

Action = Callable[[], bytes]
"""Tries something, and returns what came back. Raises OSError if nothing could."""


class TurnedAwayError(OSError):
    """A proxy said no."""


def reached(action: Action) -> Finding:
    """Expect an answer of the witness."""
    try:
        answer = action()
    except OSError as error:
        return Finding(holds=False, evidence=describe(error))
    return Finding(is_witness(answer), summary(answer))


def refused(*actions: Action, but_from: str | None = None) -> Finding:
    """Expect that the witness answers none of these; `but_from` is an address at which it may be reached."""
    outcomes = Counter[str]()
    for action in actions:
        try:
            answer = action()
        except OSError as error:
            outcomes[describe(error)] += 1
            continue
        if is_witness(answer) and (but_from is None or f"{places.MARKER} {but_from} ".encode() not in answer):
            return Finding(holds=False, evidence=summary(answer))
        outcomes[summary(answer)] += 1
    return Finding(holds=True, evidence=counted(outcomes))


def is_witness(answer: bytes) -> bool:
    """Tell whether an answer is the witness's; to a TLS client, which it cannot serve, it sends an alert."""
    return places.MARKER.encode() in answer or answer == WITNESS_ALERT


def counted(outcomes: "Counter[str]") -> str:
    """Return outcomes and how often each was had."""
    return ", ".join(f"{outcome} ({times} times)" if times > 1 else outcome for outcome, times in outcomes.items())


def describe(error: OSError) -> str:
    """Return an error in words."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return str(error.strerror or error).lower() if error.errno else str(error)


def summary(answer: bytes) -> str:
    """Return what an answer amounts to."""
    if answer.startswith(b"HTTP/") and b'"reason"' in answer:
        problem = json.loads(answer.partition(b"\r\n\r\n")[2])
        return f"{problem['status']} {problem['reason']}"
    if answer == WITNESS_ALERT:
        return "answered by the witness, with a TLS alert"
    if len(answer) >= 7 and answer[0] == _TLS_ALERT:
        return f"TLS alert {_ALERTS.get(answer[6], answer[6])}"
    if (start := answer.find(places.MARKER.encode())) >= 0:
        _, address, port = answer[start:].split()[:3]
        return f"answered by the witness at {address.decode()} port {port.decode()}"
    first_line = answer.splitlines()[0][:60].decode("latin-1") if answer else ""
    return f"answered: {first_line}" if first_line else "closed without a word"


def dial(host: str, port: int, family: int = 0) -> socket.socket:
    """Connect to a name or an address."""
    last: OSError = OSError("no address")
    for kind, _, _, _, address in socket.getaddrinfo(host, port, _socket_family(family), socket.SOCK_STREAM):
        sock = socket.socket(kind, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE)
        try:
            sock.connect(address)
        except OSError as error:
            sock.close()
            last = error
        else:
            return sock
    raise last


def say(sock: socket.socket, *data: bytes) -> bytes:
    """Send, end, and return all that comes back; a reset ends it only if nothing came before."""
    received = b""
    with sock:
        try:
            for piece in data:
                sock.sendall(piece)
            while len(received) < 1 << 16 and (more := sock.recv(65536)):
                received += more
                if received.endswith(b"\n.\n") or received[0] == _TLS_ALERT:  # the witness has said all it says
                    break
        except OSError:
            if not received:
                raise
    return received


def ask(host: str, port: int, *data: bytes, family: int = 0) -> bytes:
    """Connect, say something, and return what comes back."""
    return say(dial(host, port, family), *data)


def request(host: str, path: str = "/", *, method: str = "GET", more: str = "") -> bytes:
    """Return a request in HTTP/1.1, the last on its connection."""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode()


def send(host: str, port: int, data: bytes) -> bytes:
    """Send a datagram, and return the answer to it."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.settimeout(1)
        sock.connect(address)
        sock.send(data)
        return sock.recv(65536)


def through_http_proxy(mark: Mark, authority: str) -> socket.socket:
    """Ask the HTTP proxy for a tunnel. Raises TurnedAwayError."""
    proxy = dial(loopback(mark.family), places.HTTP_PROXY)
    proxy.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("latin-1"))
    head = proxy.recv(65536)
    if not head.startswith(b"HTTP/1.1 200"):
        proxy.close()
        raise TurnedAwayError(summary(head))
    return proxy


def through_socks(mark: Mark, host: str, port: int) -> socket.socket:
    """Ask the SOCKS proxy for a connection to a name, or to an address that is spelled out. Raises TurnedAwayError."""
    proxy = dial(loopback(mark.family), places.SOCKS_PROXY)
    proxy.sendall(b"\5\1\0")
    if proxy.recv(2) != b"\5\0":
        proxy.close()
        raise TurnedAwayError("SOCKS: no")
    proxy.sendall(b"\5\1\0" + _socks_address(host.encode("latin-1")) + struct.pack("!H", port))
    reply = proxy.recv(64)
    if reply[1:2] != b"\0":
        proxy.close()
        raise TurnedAwayError(f"SOCKS reply {reply[1]}" if len(reply) > 1 else "SOCKS: closed")
    return proxy


def ask_proxy(mark: Mark, authority: str, *data: bytes) -> bytes:
    """Say something through a tunnel of the HTTP proxy, and return what comes back."""
    return say(through_http_proxy(mark, authority), *data)


def ask_socks(mark: Mark, host: str, port: int, *data: bytes) -> bytes:
    """Say something through the SOCKS proxy, and return what comes back."""
    return say(through_socks(mark, host, port), *data)


def _socks_address(host: bytes) -> bytes:
    try:
        packed = ip_address(host.decode()).packed
    except ValueError:
        return b"\3" + bytes([len(host)]) + host
    return bytes([1 if len(packed) == 4 else 4]) + packed


def loopback(family: int) -> str:
    """Return this machine's address for itself."""
    return "127.0.0.1" if family == 4 else "::1"


def bracketed(address: str) -> str:
    """Return an address as it is written in front of a port."""
    return f"[{address}]" if ":" in address else address


def hello(server_name: str | None) -> bytes:
    """Return what a TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=server_name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _socket_family(family: int) -> int:
    return {4: socket.AF_INET, 6: socket.AF_INET6}.get(family, 0)
