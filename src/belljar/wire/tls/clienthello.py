"""The first flight of a TLS client: which server does it ask for?

Theory of operation. A ClientHello is a handshake message, carried by one or more TLS records, which arrive
in any number of pieces. Two layers are peeled off, the outer one as the bytes come, the inner one once:

* ``ClientHelloParser`` walks the records. What is not TLS is refused at the first byte that shows it, what
  is too large as soon as it says so. Payload moves to ``_message`` as it arrives and nothing is read twice,
  so the work is linear however the bytes are cut.
* ``_read_hello`` reads the complete message, strictly: every length must be filled exactly, nothing may be
  left over, no extension may be there twice. Readers disagree about sloppy hellos only, and no sloppy one
  passes.

The answer depends on the bytes alone, not on how they were cut. So nothing behind the last record of the
hello is looked at: early data, a change_cipher_spec for middleboxes or anything else is for the server to
judge, and changes nothing about what this hello asks for. (A server that answers with a HelloRetryRequest
gets a second hello, and OpenSSL takes the name from that one; `retryhello` reads it.) Bytes behind
the hello *inside* its last record are refused: no client sends a second message there (RFC 8446, 5.1), and
servers differ in what they make of one.

NOT_TLS means that *no* server would find a server name in the stream, so it may well be of another protocol.
MALFORMED_TLS means that some server might: OpenSSL takes any minor version in a record, s2n any version at all,
and some step over an alert, a change_cipher_spec or an empty record in front. Whoever let such a stream pass as
another protocol would let a name pass unread. (The hello of SSL 2.0, which OpenSSL still takes, has no place for a
name.) BAD_SERVER_NAME means that the structure holds but does not name exactly one host.
"""

import re
from dataclasses import dataclass
from struct import Struct
from typing import Final

from belljar.names import SpellingError, canonical_name
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse

MAX_HELLO: Final = 65536
"""The most bytes on the wire, record headers included, that a hello may take."""

MAX_RECORDS: Final = 256
"""The most records that a hello may take. Clients send one, those that hide it from filters a handful."""

_OPENING: Final = 6  # a record's header and the type of the first message in it: enough to know TLS by
_TLS_OF_SOME_KIND: Final = re.compile(rb"[\x14-\x18]\x03|\x16.{4}\x01|\x15..\x00\x02", re.DOTALL)
_RECORD_TYPES: Final = range(0x14, 0x19)
_RECORD_HEADER: Final = 5
_MAX_RECORD: Final = 2**14
_MESSAGE_HEADER: Final = 4
_CLIENT_HELLO: Final = 1
_VERSION_AND_RANDOM: Final = 2 + 32
_MAX_SESSION_ID: Final = 32

_MAX_ENTRIES: Final = 1024  # of extensions, and of application protocols: clients send some dozens
_SERVER_NAME: Final = 0x0000
_ALPN: Final = 0x0010
_ECH: Final = 0xFE0D
_ESNI: Final = 0xFFCE  # what ECH was called, and numbered, in its first drafts
_HOST_NAME: Final = 0

_EXTENSION_HEADER: Final = 4
_unpack_extension_header = Struct(">HH").unpack_from


@dataclass(frozen=True, slots=True)
class ClientHello:
    """What a client asks for in the clear."""

    server_name: str | None
    """In canonical spelling; None if the client names no server."""

    alpn: tuple[bytes, ...]
    """The application protocols offered, in the client's order."""

    ech: bool
    """Another name may be hidden in an encrypted ClientHello; a decoy (GREASE) looks the same."""


class ClientHelloParser:
    """Reads one ClientHello from the start of a stream."""

    __slots__ = ("_answer", "_message", "_position", "_received", "_record_left", "_records")

    def __init__(self) -> None:
        self._received = bytearray()
        self._position = 0  # of the next byte in _received to read
        self._record_left = 0  # payload bytes of the current record still to read
        self._records = 0
        self._message = bytearray()
        self._answer: ClientHello | NeedMore | Refuse = NEED_MORE

    @property
    def received(self) -> bytes:
        """Every byte fed, up to and including the piece that brought the answer: what to replay upstream."""
        return bytes(self._received)

    @property
    def trailing(self) -> bytes:
        """What came behind the hello in the piece that completed it."""
        return bytes(self._received[self._position :])

    def feed(self, data: bytes) -> ClientHello | NeedMore | Refuse:
        """Take the next piece of the stream. Once there is an answer, it stays, and pieces are not kept."""
        if self._answer is NEED_MORE:
            self._received += data
            try:
                self._answer = self._advance()
            except _RefusedError as refused:
                self._answer = Refuse(refused.fault, refused.detail)
        return self._answer

    def _advance(self) -> ClientHello | NeedMore:
        while self._position < len(self._received):
            if not self._record_left and not self._open_record():
                return NEED_MORE
            self._take_payload()
            if self._message_is_complete():
                return _read_hello(bytes(self._message))
        return NEED_MORE

    def _open_record(self) -> bool:
        """Read a record's header, checking what is there of it; false if some is still to come."""
        header = self._received[self._position : self._position + _RECORD_HEADER]
        if not b"\x16\x03".startswith(header[:2]) or (len(header) > 2 and header[2] > 4):
            return self._open_odd_record()
        if len(header) < _RECORD_HEADER:
            return False
        self._record_left = int.from_bytes(header[3:])
        if not 0 < self._record_left <= _MAX_RECORD:
            raise _malformed("a record is empty or longer than 16384 bytes")
        self._position += _RECORD_HEADER
        self._records += 1
        if self._records > MAX_RECORDS:
            raise _RefusedError(Fault.TOO_LARGE, f"the ClientHello takes more than {MAX_RECORDS} records")
        return True

    def _open_odd_record(self) -> bool:
        """Refuse what is not a handshake record, as soon as it is known what to call it; false until then."""
        if self._position:
            raise _malformed("another record interrupts the ClientHello")
        if _TLS_OF_SOME_KIND.match(self._received):
            raise _malformed("the first record is not a handshake, or not of TLS 1.0 to 1.3")
        if self._received[0] in _RECORD_TYPES and len(self._received) < _OPENING:
            return False
        raise _RefusedError(Fault.NOT_TLS, "the first bytes are not a TLS handshake record")

    def _take_payload(self) -> None:
        payload = self._received[self._position : self._position + self._record_left]
        self._message += payload
        self._position += len(payload)
        self._record_left -= len(payload)

    def _message_is_complete(self) -> bool:
        message = self._message
        if message and message[0] != _CLIENT_HELLO:
            raise _malformed("the first handshake message is not a ClientHello")
        if len(message) < _MESSAGE_HEADER:
            return False
        # Reading on within a record lowers `left` and _record_left, and raises _position, by the same amount:
        # these verdicts do not depend on where in the record a piece ends.
        left = _MESSAGE_HEADER + int.from_bytes(message[1:_MESSAGE_HEADER]) - len(message)
        if self._position + left > MAX_HELLO:
            raise _RefusedError(Fault.TOO_LARGE, f"the ClientHello takes more than {MAX_HELLO} bytes")
        if self._record_left > left:
            raise _malformed("bytes follow the ClientHello in its last record")
        return left == 0


class _RefusedError(Exception):
    """Carries a refusal up to feed(); never leaves this module."""

    def __init__(self, fault: Fault, detail: str) -> None:
        self.fault = fault
        self.detail = detail


def _malformed(detail: str) -> _RefusedError:
    return _RefusedError(Fault.MALFORMED_TLS, detail)


def _bad_name(detail: str) -> _RefusedError:
    return _RefusedError(Fault.BAD_SERVER_NAME, detail)


def _read_hello(message: bytes) -> ClientHello:
    extensions = _read_extensions(_extension_block(message))
    server_name = extensions.get(_SERVER_NAME)
    alpn = extensions.get(_ALPN)
    return ClientHello(
        server_name=None if server_name is None else _read_server_name(server_name),
        alpn=() if alpn is None else _read_alpn(alpn),
        ech=_ECH in extensions or _ESNI in extensions,
    )


def _extension_block(message: bytes) -> bytes:
    """Check all that stands before the extensions (RFC 5246, 7.4.1.2; RFC 8446, 4.1.2), and return them."""
    version = int.from_bytes(message[_MESSAGE_HEADER : _MESSAGE_HEADER + 2])
    if not 0x0301 <= version <= 0x0304:
        raise _malformed("the ClientHello is not of TLS 1.0 to 1.3")
    session_id, at = _vector(message, _MESSAGE_HEADER + _VERSION_AND_RANDOM, 1)
    if len(session_id) > _MAX_SESSION_ID:
        raise _malformed("the session id is longer than 32 bytes")
    cipher_suites, at = _vector(message, at, 2)
    if not cipher_suites or len(cipher_suites) % 2:
        raise _malformed("the cipher suites are empty or cut in half")
    compression_methods, at = _vector(message, at, 1)
    if not compression_methods:
        raise _malformed("there are no compression methods")
    return b"" if at == len(message) else _only_vector(message, at, 2)


def _read_extensions(block: bytes) -> dict[int, bytes]:
    extensions: dict[int, bytes] = {}
    at, end = 0, len(block)
    while at + _EXTENSION_HEADER <= end:
        kind, size = _unpack_extension_header(block, at)
        if kind in extensions:
            raise _malformed("an extension is there twice")
        if len(extensions) == _MAX_ENTRIES:
            raise _RefusedError(Fault.TOO_LARGE, f"the ClientHello has more than {_MAX_ENTRIES} extensions")
        at += _EXTENSION_HEADER
        extensions[kind] = block[at : at + size]
        at += size
    if at != end:  # the last one is cut off, or claims more than there is
        raise _malformed("the extensions do not fill their block exactly")
    return extensions


def _read_server_name(extension: bytes) -> str:
    """Read a list of exactly one host name (RFC 6066, 3)."""
    names = _only_vector(extension, 0, 2)
    if not names:
        raise _bad_name("the list of server names is empty")
    name, end = _vector(names, 1, 2)
    if end < len(names):
        raise _bad_name("something follows the first server name")
    if names[0] != _HOST_NAME:
        raise _bad_name("the server name is not of type host_name")
    try:
        return canonical_name(name.decode("ascii"))
    except (UnicodeDecodeError, SpellingError):
        # Not the reader's own words: they quote what the client sent.
        raise _bad_name("the server name is not a host name (an IP address is none)") from None


def _read_alpn(extension: bytes) -> tuple[bytes, ...]:
    """Read a list of at least one protocol name (RFC 7301, 3.1)."""
    names = _only_vector(extension, 0, 2)
    if not names:
        raise _malformed("the list of application protocols is empty")
    protocols: list[bytes] = []
    at, end = 0, len(names)
    while at < end:
        start = at + 1
        at = start + names[at]
        protocols.append(names[start:at])
        if len(protocols) > _MAX_ENTRIES:
            raise _RefusedError(Fault.TOO_LARGE, f"the client offers more than {_MAX_ENTRIES} application protocols")
    if at != end:
        raise _malformed("the application protocols do not fill their list exactly")
    if b"" in protocols:
        raise _malformed("an application protocol has an empty name")
    return tuple(protocols)


def _vector(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """Read what a length of so many bytes announces; return it and where it ends."""
    start = at + width
    end = start + int.from_bytes(data[at:start])
    if end > len(data):  # also if the length itself is cut off
        raise _malformed("a length inside the ClientHello reaches beyond what holds it")
    return data[start:end], end


def _only_vector(data: bytes, at: int, width: int) -> bytes:
    """Read a vector that must fill all the rest of the data."""
    content, end = _vector(data, at, width)
    if end != len(data):
        raise _malformed("bytes are left over behind a list inside the ClientHello")
    return content
