"""The question in a DNS message: which name, which type, and how may it be answered?

Theory of operation. A datagram or a TCP frame is a whole message, so it is read in one go: a header, one
question and perhaps one OPT record (EDNS), with nothing before, between or behind. Everything else that
the format would allow in a query (compression, several questions, signatures, records that come along) no
stub resolver sends, and two readers could disagree about it; it is refused. So are all classes but IN,
and with them the chaos queries for a server's version.

A question can be good DNS without asking for a host: ``_http._tcp.example.org``, the root, labels with
dots, spaces or arbitrary bytes in them. Such a question is found like any other, so that it can be
answered, but its ``name`` is None. Nothing that matches, resolves or dials ever sees its labels;
``qname`` spells them for the log.

Every query of every sandbox passes here. Hence named tuples, which are made in a third of the time of a
frozen dataclass, and exceptions inside, which cost nothing where none is raised.
"""

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

from belljar.names import MAX_LABEL, SpellingError, canonical_name
from belljar.wire.dns.format import (
    CLASS_IN,
    HEADER,
    MAX_WIRE_NAME,
    OPT,
    OPTION,
    TYPE_AND_CLASS,
    Flag,
    Rcode,
    RecordType,
)
from belljar.wire.outcome import Fault, Refuse

MAX_QUERY: Final = 4096
"""The most bytes a query may have; with every option that clients send, real ones have a few hundred."""

_MAX_OPTIONS: Final = 64  # of EDNS; real queries have a handful
_NOT_A_QUERY: Final = Flag.QR | Flag.OPCODE
_HEADER_SIZE: Final = HEADER.size
_unpack_header = HEADER.unpack_from
_unpack_type_and_class = TYPE_AND_CLASS.unpack_from
_unpack_opt = OPT.unpack_from
_OPT_TYPE: Final = int(RecordType.OPT)  # to look up a member of an enumeration takes its time
_NOT_PLAIN: Final = re.compile(rb"[^A-Za-z0-9_-]")
_SERVICE: Final = re.compile(rb"_[A-Za-z0-9_-]+")


class Edns(NamedTuple):
    """What a client that speaks EDNS (RFC 6891) can take."""

    udp_payload: int
    """The largest datagram, as the client says; it may say less than the 512 bytes that everyone can take."""

    dnssec_ok: bool
    version: int


class Query(NamedTuple):
    """One question, and what its answer has to repeat."""

    id: int
    name: str | None
    """In canonical spelling; None if what is asked for is not a host name."""

    qtype: int
    qclass: int
    question: bytes
    """The question section as it came: answers repeat it to the letter, since clients check the case."""

    recursion_desired: bool
    checking_disabled: bool
    edns: Edns | None

    @property
    def qname(self) -> str:
        r"""The name as it was asked for, whatever it holds, in about a thousand ASCII characters at most.

        Letters, digits, hyphens and underscores stand for themselves, all other bytes are written ``\DDD``.
        """
        labels, _ = _read_labels(self.question, 0)
        return ".".join(_NOT_PLAIN.sub(_escape, label).decode("ascii") for label in labels) or "."

    @property
    def service_host(self) -> str | None:
        """The host in the name of one of its services, ``_sip._tcp.example.org``; None if it is nothing of the kind."""
        labels, _ = _read_labels(self.question, 0)
        services = list(takewhile(_SERVICE.fullmatch, labels))
        return _host_name(labels[len(services) :]) if services else None


@dataclass(frozen=True, slots=True)
class RefusedQuery(Refuse):
    """A message that is not acceptable as a query, and what can be said to its sender."""

    rcode: Rcode | None
    """How to answer it; None if it cannot or must not be answered."""

    query: Query | None = None
    """The question, where the message was understood but asks for what is not done here."""


def parse_query(message: bytes) -> Query | RefusedQuery:
    """Read a complete message from a client; a Query is in class IN, with EDNS version 0 or without EDNS."""
    try:
        return _read_query(message)
    except _UnacceptableError as unacceptable:
        return unacceptable.refusal


class _UnacceptableError(Exception):
    def __init__(self, refusal: RefusedQuery) -> None:
        self.refusal = refusal


def _malformed(detail: str) -> _UnacceptableError:
    return _UnacceptableError(RefusedQuery(Fault.MALFORMED_DNS, detail, Rcode.FORMERR))


def _unsupported(detail: str, rcode: Rcode, query: Query | None = None) -> _UnacceptableError:
    return _UnacceptableError(RefusedQuery(Fault.UNSUPPORTED_DNS, detail, rcode, query))


def _read_query(message: bytes) -> Query:
    size = len(message)
    if size < _HEADER_SIZE:
        raise _UnacceptableError(RefusedQuery(Fault.MALFORMED_DNS, "ends within the header", None))
    ident, flags, questions, answers, authorities, additional = _unpack_header(message)
    if flags & _NOT_A_QUERY or questions != 1 or answers or authorities or additional > 1 or size > MAX_QUERY:
        raise _bad_header(flags, questions, additional, size)
    labels, position = _read_labels(message, _HEADER_SIZE)
    end = position + TYPE_AND_CLASS.size
    if size < end:
        raise _malformed("ends within the question")
    if size > end and not additional:
        raise _malformed("goes on behind its end")
    qtype, qclass = _unpack_type_and_class(message, position)
    question = message[_HEADER_SIZE:end]
    edns = _read_edns(message, end, size) if additional else None
    name = _host_name(labels)
    query = Query(ident, name, qtype, qclass, question, flags & Flag.RD != 0, flags & Flag.CD != 0, edns)
    if qclass != CLASS_IN:
        raise _unsupported("asks in a class other than IN", Rcode.REFUSED, query)
    if edns is not None and edns.version:
        raise _unsupported("has an EDNS version other than 0", Rcode.BADVERS, query)
    return query


def _bad_header(flags: int, questions: int, additional: int, size: int) -> _UnacceptableError:
    if flags & Flag.QR:  # stays without an answer, or two servers could go on answering each other
        return _UnacceptableError(RefusedQuery(Fault.MALFORMED_DNS, "is an answer, not a query", None))
    if flags & Flag.OPCODE:
        return _unsupported("asks for an operation other than QUERY", Rcode.NOTIMP)
    if size > MAX_QUERY:
        return _UnacceptableError(RefusedQuery(Fault.TOO_LARGE, f"has more than {MAX_QUERY} bytes", Rcode.FORMERR))
    if questions != 1:
        return _malformed(f"has {questions} questions, not one")
    if additional > 1:
        return _unsupported("has more than one additional record", Rcode.FORMERR)
    return _malformed("has records that belong in an answer")


def _read_labels(message: bytes, position: int) -> tuple[list[bytes], int]:
    """Return the labels of the name that starts at a position, and the position behind it."""
    labels = []
    began = position
    try:
        while length := message[position]:
            if length > MAX_LABEL:
                raise _malformed("has a compressed or unknown label in its question")
            start = position + 1
            position = start + length
            labels.append(message[start:position])
    except IndexError:
        raise _malformed("ends within the name") from None
    end = position + 1
    if end - began > MAX_WIRE_NAME:
        raise _malformed(f"has a name of more than {MAX_WIRE_NAME} bytes")
    return labels, end


def _host_name(labels: list[bytes]) -> str | None:
    joined = b".".join(labels)
    if joined.count(b".") != len(labels) - 1:  # the root, or a dot within a label, where it separates nothing
        return None
    try:
        return canonical_name(joined.decode("ascii"))
    except (UnicodeDecodeError, SpellingError):
        return None


def _read_edns(message: bytes, position: int, size: int) -> Edns:
    """Read all that is left of a message, from a position on, as one OPT record."""
    options = position + OPT.size
    if size < options:
        raise _malformed("ends within the additional record")
    root, kind, udp_payload, _, version, flags, length = _unpack_opt(message, position)
    if root or kind != _OPT_TYPE:
        raise _unsupported("has an additional record that is not EDNS", Rcode.FORMERR)
    if options + length != size:
        raise _malformed("has an EDNS record that does not end with the message")
    if length and not version:  # what other versions write there is not known
        _check_options(message, options, size)
    return Edns(udp_payload, flags & Flag.DO != 0, version)


def _check_options(message: bytes, position: int, size: int) -> None:
    """Step from option to option (cookies, padding, a client's subnet); none of them means anything here."""
    for _ in range(_MAX_OPTIONS):
        if position + OPTION.size > size:
            break
        _, length = OPTION.unpack_from(message, position)
        position += OPTION.size + length
    else:
        raise _malformed(f"has more than {_MAX_OPTIONS} EDNS options")
    if position != size:
        raise _malformed("has an EDNS option that does not end with its record")


def _escape(byte: re.Match[bytes]) -> bytes:
    return b"\\%03d" % byte[0][0]
