"""Clients for any place: enough to see whether something is there, and what it says."""

import socket

import dns.message
import dns.query

from tests.universe.addresses import RESOLVER
from tests.universe.places import Place

PATIENCE = 60.0
"""Seconds until a client gives up. No test should ever come to that."""


def dial(place: Place, address: str, port: int) -> socket.socket:
    """Connect from a place to an address."""
    return place.call(socket.create_connection, (address, port), PATIENCE)


def received(sock: socket.socket) -> bytes:
    """Return everything up to the end."""
    return b"".join(iter(lambda: sock.recv(65536), b""))


def fetch(sock: socket.socket, target: str, host: str = "plain.test") -> tuple[str, bytes]:
    """Ask a web server for a page, and return the head of the answer and what follows it up to the end."""
    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    head, _, body = received(sock).partition(b"\r\n\r\n")
    return head.decode(), body


def ask(place: Place, name: str, kind: str = "A", *, server: str = RESOLVER, tcp: bool = False) -> dns.message.Message:
    """Ask a DNS question from a place, and return the whole answer."""
    query = dns.message.make_query(name, kind, use_edns=True)
    return place.call(dns.query.tcp if tcp else dns.query.udp, query, server, PATIENCE)


def records(answer: dns.message.Message) -> list[str]:
    """Return the records of an answer in their order, as text."""
    return [record.to_text() for rrset in answer.answer for record in rrset]
