"""The numbers and layouts of DNS messages that reading and writing share."""

import struct
from enum import IntEnum
from typing import Final

HEADER: Final = struct.Struct("!6H")
"""Identifier, flags, and how many questions, answers, authorities and additional records follow."""

TYPE_AND_CLASS: Final = struct.Struct("!2H")
"""What stands behind the name, in questions and in records."""

OPT: Final = struct.Struct("!B2H2B2H")
"""Name (the root), type, UDP payload, upper bits of the rcode, version, flags, length of the options."""

OPTION: Final = struct.Struct("!2H")
"""Code of an EDNS option, length of its value."""

CLASS_IN: Final = 1

MAX_WIRE_NAME: Final = 255
"""The most bytes of a name on the wire, where every label has its length in front, and the root is a label, too."""

MAX_DATAGRAM: Final = 1232
"""What travels without fragments on any path: the smallest MTU of IPv6, less the headers of IP and UDP."""


class Flag:
    """Bits of the header's flags (RFC 1035, 4.1.1) and, last, of those of an OPT record (RFC 3225)."""

    QR: Final = 0x8000  # this is an answer
    OPCODE: Final = 0x7800  # all zero in a query
    TC: Final = 0x0200  # truncated: ask again over TCP
    RD: Final = 0x0100  # recursion desired
    RA: Final = 0x0080  # recursion available
    CD: Final = 0x0010  # checking disabled
    DO: Final = 0x8000  # DNSSEC records wanted


class RecordType(IntEnum):
    """What a question asks for; types that mean nothing to Belljar are plain numbers."""

    A = 1
    CNAME = 5
    SOA = 6
    PTR = 12
    AAAA = 28
    OPT = 41


class Rcode(IntEnum):
    """How a question is answered (RFC 1035, 4.1.1; RFC 6891, 9)."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


class InfoCode(IntEnum):
    """Why it is answered that way: an Extended DNS Error (RFC 8914, 4)."""

    OTHER = 0
    BLOCKED = 15  # by the policy of whoever runs the resolver
    FILTERED = 17  # by a policy that the client asked for
    PROHIBITED = 18  # to this client
    NOT_SUPPORTED = 21
    NO_REACHABLE_AUTHORITY = 22
    NETWORK_ERROR = 23


def wire_name(name: str) -> bytes:
    """Encode a name, a canonical one but for its case, without compression."""
    labels = name.encode("ascii").split(b".")
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
