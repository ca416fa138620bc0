"""The lines of an HTTP/1 request head: a stricter grammar than servers have (RFC 9112).

Servers forgive: they end lines at a bare LF, join folded ones, skip blank ones, trim what surrounds a name.
Each does so in its own way, and smuggling lives in the difference. This grammar has one spelling for all that
decides where a request goes or where it ends, and refuses the others.

Two faults differ in what may be done with the bytes. NOT_HTTP says that no server that knows its methods would take
them for a request, so they may well be of another protocol. MALFORMED_HTTP says that some server might: whoever let
them pass as another protocol would let a request pass unread. So a binary protocol is told from HTTP at the first
byte that cannot be part of a method, but one of text only where its first line ends: there are servers that take any
word for a method, even ``SSH-2.0-OpenSSH_9.6``, and any bytes for a target. And there are servers that take far more
than a space for whitespace (RFC 9112, 3, lets them): those that read the line as Latin-1 text in Python even take
U+001C to U+001F, U+0085 and U+00A0 for it.
"""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from belljar.wire.outcome import Fault, Refuse

MAX_HEADER_LINES: Final = 256
MAX_LIST_MEMBERS: Final = 256
"""The most words in all headers of a name that are lists of words."""

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names in lower case and values without the whitespace around them, in order."""

DECISIVE: Final = {
    b"host": Fault.BAD_HTTP_HOST,
    b"content-length": Fault.AMBIGUOUS_HTTP_LENGTH,
    b"transfer-encoding": Fault.AMBIGUOUS_HTTP_LENGTH,
}
"""The headers that decide where a request goes and where it ends, and what it means if one is in doubt."""

_CR: Final = 0x0D
_LINE_ENDS: Final = {_CR: "a bare CR", 0x0A: "a bare LF"}
_WHITESPACE: Final = b" \t"
_TOKEN_CHARACTER: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_TOKEN: Final = re.compile(rb"%b+" % _TOKEN_CHARACTER)
_BLANKS: Final = rb"\t\x0b-\r\x1c- \x85\xa0"  # all that some server takes for whitespace within a line
_FIRST_WORD: Final = re.compile(rb"[%b]{0,15}(?:%b{1,255}(?:[\n%b]|\Z)|\Z)" % (_BLANKS, _TOKEN_CHARACTER, _BLANKS))
_LONG_WORD: Final = re.compile(rb"[%b]{0,15}%b{256}" % (_BLANKS, _TOKEN_CHARACTER))
_BLANK_START: Final = re.compile(rb"\s|[%b]{16}" % _BLANKS)  # a binary protocol may well begin with one of the others
# Told by its version, however that is written. HTTP/0.9, which still has servers, knows only GET, or a path.
_MAY_BE_REQUEST_LINE: Final = re.compile(
    rb"[%b]*+(?:GET[%b]|[A-Za-z]++[%b]++/|.*(?i:http))" % (_BLANKS, _BLANKS, _BLANKS), re.DOTALL
)
_METHOD: Final = re.compile(rb"[A-Z][A-Z-]{0,31}")
_TARGET: Final = re.compile(rb'[!"$-~]+')  # visible ASCII without "#"
_CLEAN: Final = re.compile(rb"(?:[\t -~\x80-\xff]++|\r\n)*+")


class RefusedHeadError(Exception):
    """Carries a refusal up to the parser's feed()."""

    def __init__(self, fault: Fault, detail: str) -> None:
        self.refusal = Refuse(fault, detail)


def malformed(detail: str) -> RefusedHeadError:
    """Return the exception for a head that is HTTP, but not well-formed."""
    return RefusedHeadError(Fault.MALFORMED_HTTP, detail)


def check_first_word(received: bytearray) -> None:
    """Refuse a stream that does not begin with a method, at the first byte that shows it."""
    if _BLANK_START.match(received):
        raise malformed("whitespace or an empty line stands before the request line")
    if _FIRST_WORD.match(received):
        return
    if _LONG_WORD.match(received):
        raise malformed("the method has more than 255 characters")
    raise RefusedHeadError(Fault.NOT_HTTP, "the first bytes are not the method of a request")


def end_of_first_line(received: bytearray, start: int, end: int) -> int | None:
    """Look for the end of the first line between two positions; refuse a line that is not a request line."""
    line_feed = received.find(b"\n", start, end)
    if line_feed < 0:
        return None
    line = bytes(received[:line_feed]).removesuffix(b"\r")
    check_may_be_request_line(line)
    check_characters(received, 0, line_feed + 1)
    read_request_line(line)
    return len(line)


def check_may_be_request_line(line: bytes) -> None:
    """Refuse a first line, or what there is of one, that no server would take for that of a request."""
    if not _MAY_BE_REQUEST_LINE.match(line):
        raise RefusedHeadError(Fault.NOT_HTTP, "the first line is not a request line")


def check_characters(received: bytearray, start: int, end: int) -> int:
    """Refuse control characters, and line ends other than CR LF, between two positions.

    Returns the position to go on from: the end, or one less if the last byte is the first half of a line end.
    """
    clean = _CLEAN.match(received, start, end)
    stop = clean.end() if clean else start
    if stop == end or (stop == end - 1 and received[stop] == _CR):
        return stop
    name = _LINE_ENDS.get(received[stop], f"control character 0x{received[stop]:02x}")
    raise malformed(f"{name} stands in the head")


def read_request_line(line: bytes) -> tuple[str, str, str]:
    """Return the method, the target and the version ("1.0" or "1.1")."""
    parts = line.split(b" ")
    if len(parts) != 3:
        raise malformed("the request line is not three words with single spaces between them")
    method, target, version = parts
    if not _METHOD.fullmatch(method):
        raise malformed("the method is not a word of at most 32 capital letters and hyphens")
    if not _TARGET.fullmatch(target):
        raise malformed("the target has a fragment, or a character that is not visible ASCII")
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise malformed("the version is neither HTTP/1.0 nor HTTP/1.1")
    return method.decode("ascii"), target.decode("ascii"), version[5:].decode("ascii")


def read_headers(lines: list[bytes]) -> Headers:
    """Read the lines between the request line and the empty line."""
    if len(lines) > MAX_HEADER_LINES:
        raise RefusedHeadError(Fault.TOO_LARGE, f"the head has more than {MAX_HEADER_LINES} header lines")
    headers = []
    decisive: set[bytes] = set()
    for line in lines:
        raw_name, colon, raw_value = line.partition(b":")
        if not (colon and _TOKEN.fullmatch(raw_name)):
            raise malformed(_what_is_wrong(line))
        name, value = raw_name.lower(), raw_value.strip(_WHITESPACE)
        if name.replace(b"_", b"-") in DECISIVE:
            _check_decisive(name, value, raw_value, decisive)
            decisive.add(name)
        headers.append((name, value))
    return tuple(headers)


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of all headers of that name."""
    return [value for header, value in headers if header == name]


def list_members(lists: Iterable[bytes]) -> frozenset[bytes]:
    """Read comma-separated lists of words, in any case; empty members do not mean anything."""
    joined = b",".join(lists)
    if joined.count(b",") >= MAX_LIST_MEMBERS:
        raise RefusedHeadError(Fault.TOO_LARGE, f"a header is a list of more than {MAX_LIST_MEMBERS} words")
    members = {member.strip(_WHITESPACE).lower() for member in joined.split(b",")} - {b""}
    if not all(map(_TOKEN.fullmatch, members)):
        raise malformed("a header that is a list of words contains something else")
    return frozenset(members)


def _check_decisive(name: bytes, value: bytes, raw_value: bytes, seen: set[bytes]) -> None:
    """Refuse a header that another reader might find elsewhere, twice, or not at all."""
    if name not in DECISIVE:
        # What reaches a program as a CGI variable has lost the difference between "-" and "_".
        raise malformed("a header's name could be taken for Host, Content-Length or Transfer-Encoding")
    label = name.decode("ascii").title()
    if name in seen:
        raise RefusedHeadError(DECISIVE[name], f"there is more than one {label} header")
    if raw_value not in (value, b" " + value):
        raise RefusedHeadError(DECISIVE[name], f"whitespace surrounds the value of {label}")


def _what_is_wrong(line: bytes) -> str:
    name, colon, _ = line.partition(b":")
    if line.startswith((b" ", b"\t")):
        return "a header line is folded, or begins with whitespace"
    if not colon:
        return "a header line has no colon"
    if name.endswith((b" ", b"\t")):
        return "whitespace stands before the colon of a header"
    return "the name of a header is empty or not a word"
