"""The head of an HTTP/1 response: what kind is it, and where will its body end?

Servers are forgiven what clients forgive them, such as folded lines and line ends without CR; but two ways to read
where the body ends are refused. Who wrote the head may mean ill, and whoever reads it holds up everybody else. So each
byte is looked at a fixed number of times: no expression here can go back over what it has read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from belljar.wire.outcome import Fault, Refuse

MAX_LINES: Final = 256

_TEXT: Final = rb"[^\x00\n\x0b\f\r]*+"
_STATUS_LINE: Final = re.compile(rb"HTTP/([0-9]\.[0-9]) ([1-9][0-9]{2})(?: %b)?+" % _TEXT)
_HEADER: Final = re.compile(rb"([!#$%%&'*+.^_`|~0-9A-Za-z-]++):(%b)" % _TEXT)
_LENGTH: Final = re.compile(rb"[0-9]{1,20}")
_BLANKS: Final = b" \t"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a response's head says about the end of the response."""

    status: int
    length: int | None
    """Of the body, if it is told."""

    chunked: bool
    keep_alive: bool
    """Whether another response may follow on the connection."""

    @property
    def is_interim(self) -> bool:
        """Whether the response proper is still to come, or a switch to another protocol."""
        return self.status < 200


class _RefusedError(Exception):
    """Says what is wrong with a head."""


def read_response_head(head: bytes) -> ResponseHead | Refuse:
    """Read a whole head, with the empty line at its end."""
    try:
        return _read(head)
    except _RefusedError as refused:
        return Refuse(Fault.MALFORMED_HTTP, str(refused))


def _read(head: bytes) -> ResponseHead:
    if head.count(b"\n") > MAX_LINES:
        raise _RefusedError(f"the response has more than {MAX_LINES} header lines")
    first_line, *lines = [line.removesuffix(b"\r") for line in head.split(b"\n")[:-2]]
    found = _STATUS_LINE.fullmatch(first_line)
    if found is None:
        raise _RefusedError("the first line is no status line")
    lengths: set[bytes] = set()
    codings: list[bytes] = []
    options: set[bytes] = set()
    for name, value in _headers(lines):
        match name:
            case b"content-length":
                lengths.update(length.strip(_BLANKS) for length in value.split(b","))
            case b"transfer-encoding":
                codings.append(value.lower())
            case b"connection":
                options.update(option.strip(_BLANKS) for option in value.lower().split(b","))
    return ResponseHead(
        status=int(found[2]),
        length=_length(lengths),
        chunked=_is_chunked(codings),
        keep_alive=found[1] >= b"1.1" and b"close" not in options,
    )


def _headers(lines: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for line in _unfolded(lines):
        found = _HEADER.fullmatch(line)
        if found is None:
            raise _RefusedError("a line is no header")
        yield found[1].lower(), found[2].strip(_BLANKS)


def _unfolded(lines: list[bytes]) -> Iterator[bytes]:
    """Join lines with those before them that they continue."""
    parts: list[bytes] = []
    for line in lines:
        if line.startswith((b" ", b"\t")):
            if not parts:
                raise _RefusedError("the first header line continues none")
            parts.append(line.lstrip(_BLANKS))
            continue
        if parts:
            yield b" ".join(parts)
        parts = [line]
    if parts:
        yield b" ".join(parts)


def _length(lengths: set[bytes]) -> int | None:
    if not lengths:
        return None
    if len(lengths) > 1:
        raise _RefusedError("there are several lengths")
    [length] = lengths
    if not _LENGTH.fullmatch(length):
        raise _RefusedError("Content-Length is not a number")
    return int(length)


def _is_chunked(codings: list[bytes]) -> bool:
    if codings and codings != [b"chunked"]:
        raise _RefusedError("Transfer-Encoding is not just chunked")
    return bool(codings)
