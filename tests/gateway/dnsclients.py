"""A DNS service on loopback sockets, asked by dnspython."""

import json
import os
import socket
import struct
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype

from belljar.gateway.audit.log import AuditLog
from belljar.gateway.audit.metrics import Metrics
from belljar.gateway.audit.observing import Observer
from belljar.gateway.dns.service import DnsService, Forward
from belljar.gateway.dns.wildcards import WildcardBudget
from belljar.gateway.limits import Limits
from belljar.gateway.sandbox import SandboxState
from belljar.policy import CompiledPolicy
from belljar.turns import Owner
from tests.gateway.driving import Driver

BLOCK_ALL = 'mode: block-all\negress: {allowed_domains: [api.example.org, "*.zone.example.org"]}'
ALLOW_ALL = "mode: allow-all\negress: {denied_domains: [evil.example]}"


class Service:
    """One sandbox's DNS service, with its clients, its clock, its audit log and its metrics."""

    def __init__(self, policy: CompiledPolicy | None, forward: Forward | None = None, **limits: Any) -> None:
        self.driver = Driver()
        self.metrics = Metrics()
        self._log, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._audit = AuditLog(writer, clock=self.driver.clock)
        observer = Observer("jar", audit=self._audit, metrics=self.metrics, clock=self.driver.clock)
        self.jar = SandboxState("jar", policy, observer, Limits(**limits))
        self.udp = {family: _bound(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)}
        self.tcp = {family: _bound(family, socket.SOCK_STREAM) for family in (socket.AF_INET, socket.AF_INET6)}
        self.service = DnsService(
            self.driver.loop, self.jar, WildcardBudget(self.jar.limits.names_under_wildcard), forward
        )
        with self.driver.loop.working_for(Owner()):
            self.service.serve(self.udp.values(), self.tcp.values())
        self.driver.settle()

    def close(self) -> None:
        self.service.close()
        self.driver.settle()
        for listener in (*self.udp.values(), *self.tcp.values()):
            listener.close()
        self.driver.loop.close()
        os.close(self._log)
        self._audit.close()

    def datagram(self, message: bytes, family: socket.AddressFamily = socket.AF_INET) -> bytes | None:
        """Send a datagram; return the one that comes back, None if there is none."""
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            client.connect(self.udp[family].getsockname())
            client.setblocking(False)
            client.send(message)
            self.driver.settle()
            try:
                return client.recv(65535)
            except BlockingIOError:
                return None

    def connect(self, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
        client = socket.socket(family, socket.SOCK_STREAM)
        client.connect(self.tcp[family].getsockname())
        client.setblocking(False)
        self.driver.settle()
        return client

    def over_tcp(self, message: bytes, family: socket.AddressFamily = socket.AF_INET) -> bytes:
        with self.connect(family) as client:
            client.sendall(framed(message))
            self.driver.settle()
            [reply] = frames(client.recv(1 << 20))
            return reply

    def ask(self, name: str, kind: str = "A", *, edns: bool = True, tcp: bool = False) -> dns.message.Message:
        """Ask as dnspython does, and check that the answer is one to the question."""
        query = dns.message.make_query(name, kind, use_edns=0 if edns else False)
        message = query.to_wire()
        reply = self.over_tcp(message) if tcp else self.datagram(message)
        assert reply is not None
        answer = dns.message.from_wire(reply)
        assert query.is_response(answer)
        assert answer.question[0].name.to_wire() == query.question[0].name.to_wire()  # to the letter
        assert answer.flags & dns.flags.RA
        return answer

    def log(self) -> list[dict[str, Any]]:
        """Return the audit lines since the last time."""
        try:
            return [json.loads(line) for line in os.read(self._log, 1 << 20).splitlines()]
        except BlockingIOError:
            return []

    def count(self, metric: str, **labels: str) -> float:
        shown = ",".join(f'{label}="{value}"' for label, value in {"sandbox": "jar", **labels}.items())
        for line in self.metrics.render().splitlines():
            if line.startswith(f"{metric}{{{shown}}} "):
                return float(line.rpartition(" ")[2])
        return 0


def addresses(answer: dns.message.Message) -> list[str]:
    assert answer.rcode() == dns.rcode.NOERROR
    return [record.address for rrset in answer.answer for record in rrset]


def error(answer: dns.message.Message) -> tuple[int, str] | None:
    """Return the extended error: its code and text."""
    found = [option for option in answer.options if isinstance(option, dns.edns.EDEOption)]
    return (int(found[0].code), found[0].text or "") if found else None


def framed(message: bytes) -> bytes:
    return struct.pack("!H", len(message)) + message


def frames(data: bytes) -> list[bytes]:
    found = []
    while data:
        (length,) = struct.unpack_from("!H", data)
        found.append(data[2 : 2 + length])
        assert len(found[-1]) == length
        data = data[2 + length :]
    return found


def _bound(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    listener = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    if kind == socket.SOCK_STREAM:
        listener.listen(256)
    return listener
