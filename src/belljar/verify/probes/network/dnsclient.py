"""A small client for DNS: questions of any type, to any server, over UDP and TCP."""

import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding
from belljar.verify.probes.network.clients import PATIENCE, counted, describe, dial

RECORD_TYPES: Final = {"A": 1, "NS": 2, "CNAME": 5, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33,
                       "SVCB": 64, "HTTPS": 65, "AXFR": 252, "ANY": 255}  # fmt: skip

_RCODES: Final = {0: "no error", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


class HeardAnswer(NamedTuple):
    """What came of a question."""

    code: int
    records: int

    def __str__(self) -> str:
        return f"{_RCODES.get(self.code, self.code)}, {self.records} records"


def question(name: str, kind: str, *, edns: bool = False) -> bytes:
    """Return a question as it goes over the wire; labels may hold anything but dots."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode("utf-8").split(b"."))
    option = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0) if edns else b""
    head = struct.pack("!6H", random.getrandbits(16), 0x0100, 1, 0, 0, 1 if edns else 0)
    return head + labels + b"\0" + struct.pack("!2H", RECORD_TYPES[kind], 1) + option


def look_up(server: str, message: bytes, *, tcp: bool = False, port: int = places.DNS) -> HeardAnswer:
    """Ask a server. Raises OSError."""
    if tcp:
        with dial(server, port) as sock:
            sock.sendall(len(message).to_bytes(2, "big") + message)
            answer = sock.recv(65536)[2:]
    else:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((server, port))
            sock.send(message)
            answer = sock.recv(65536)
    if len(answer) < 12:
        raise OSError("closed without a word")
    _, flags, _, records, _, _ = struct.unpack_from("!6H", answer)
    return HeardAnswer(flags & 0xF, records)


def unanswered(questions: Iterable[Callable[[], HeardAnswer]]) -> Finding:
    """Expect that nobody has a record for any of these questions."""
    outcomes = Counter[str]()
    for ask_it in questions:
        try:
            answer = ask_it()
        except OSError as error:
            outcomes[describe(error)] += 1
            continue
        if answer.records:
            return Finding(holds=False, evidence=f"answered: {answer}")
        outcomes[_RCODES.get(answer.code, str(answer.code))] += 1
    return Finding(holds=True, evidence=counted(outcomes))
