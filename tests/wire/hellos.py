"""ClientHellos: made by hand, field by field, so that any field can be wrong; and made by OpenSSL."""

import ssl
import warnings
from collections.abc import Sequence
from contextlib import suppress

SESSION_ID = bytes(range(32))
CIPHER_SUITES = bytes.fromhex("130113021303c02bc02f")
X25519_MLKEM768 = 0x11EC


def vector(width: int, content: bytes) -> bytes:
    """Put the content's length, in so many bytes, before it."""
    return len(content).to_bytes(width) + content


def extension(kind: int, content: bytes = b"") -> bytes:
    return kind.to_bytes(2) + vector(2, content)


def server_name(*names: bytes, kind: int = 0) -> bytes:
    """Make a server_name extension; a proper one has exactly one name."""
    return extension(0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in names)))


def alpn(*protocols: bytes) -> bytes:
    return extension(16, vector(2, b"".join(vector(1, protocol) for protocol in protocols)))


def ech(kind: int = 0xFE0D) -> bytes:
    """Make an encrypted_client_hello extension as a client sends it, real or GREASE."""
    return extension(kind, bytes.fromhex("00 0001 0001 2a") + vector(2, bytes(32)) + vector(2, bytes(240)))


def post_quantum_key_share() -> bytes:
    hybrid = X25519_MLKEM768.to_bytes(2) + vector(2, bytes(1184 + 32))
    classic = b"\0\x1d" + vector(2, bytes(32))
    return extension(51, vector(2, hybrid + classic))


def padding(size: int) -> bytes:
    """Make an extension that takes so many bytes, its header included."""
    return extension(21, bytes(size - 4))


def hello_body(
    *extensions: bytes,
    version: int = 0x0303,
    session_id: bytes = vector(1, SESSION_ID),
    cipher_suites: bytes = vector(2, CIPHER_SUITES),
    compression_methods: bytes = vector(1, b"\0"),
    tail: bytes | None = None,
) -> bytes:
    """Make a ClientHello without its message header; a tail stands in for the whole block of extensions."""
    if tail is None:
        tail = vector(2, b"".join(extensions))
    return version.to_bytes(2) + bytes(32) + session_id + cipher_suites + compression_methods + tail


def message(body: bytes, kind: int = 1) -> bytes:
    return bytes([kind]) + vector(3, body)


def record(payload: bytes, kind: int = 22, version: int = 0x0301) -> bytes:
    return bytes([kind]) + version.to_bytes(2) + vector(2, payload)


def records(payload: bytes, size: int = 2**14) -> bytes:
    """Cut a payload into records of at most so many bytes."""
    return b"".join(record(payload[at : at + size]) for at in range(0, len(payload), size))


def hello(*extensions: bytes, record_size: int = 2**14) -> bytes:
    """Make a proper ClientHello with these extensions."""
    return records(message(hello_body(*extensions)), record_size)


def browser_hello(name: bytes) -> bytes:
    """Make a hello of the size and variety that browsers send: GREASE, ECH, post-quantum, about 1.7 KB."""
    return hello(
        extension(0x0A0A),
        server_name(name),
        extension(23),
        extension(65281, b"\0"),
        extension(10, vector(2, X25519_MLKEM768.to_bytes(2) + b"\0\x1d\0\x17")),
        alpn(b"h2", b"http/1.1"),
        extension(43, vector(1, b"\x0a\x0a\x03\x04\x03\x03")),
        ech(),
        post_quantum_key_share(),
        extension(0x1A1A, b"\0"),
    )


def hello_of_wire_size(size: int, record_size: int = 2**14) -> bytes:
    """Make a hello for big.corp.example that takes exactly so many bytes, record headers included."""
    payload = size - 5 * -(-size // (record_size + 5))
    bare = len(message(hello_body(server_name(b"big.corp.example"))))
    made = hello(server_name(b"big.corp.example"), padding(payload - bare), record_size=record_size)
    assert len(made) == size
    return made


def by_openssl(
    name: str | None,
    *,
    protocols: Sequence[str] = (),
    oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> bytes:
    """Return the first flight of the standard library's TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.set_ciphers("DEFAULT@SECLEVEL=0")  # or there is no TLS 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that the old versions are old is why they are here
        context.minimum_version, context.maximum_version = oldest, newest
    if protocols:
        context.set_alpn_protocols(list(protocols))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


class OpenSSLServer:
    """The other reader: what does OpenSSL take a client's bytes to ask for?"""

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.sni_callback = self._note

    def _note(self, _connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        self._names.append(name)

    def names_seen(self, stream: bytes) -> list[str | None]:
        """Return the one name that was asked for (None for no name), or nothing if the bytes were refused."""
        self._names.clear()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        incoming.write(stream)
        with suppress(ssl.SSLError):  # always one, if only because there is no certificate
            self._context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
        return list(self._names)
