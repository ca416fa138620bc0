"""Unusual spellings of what a TLS client says first."""

from typing import Final

_RECORD_HEAD: Final = 5
_ENCRYPTED_CLIENT_HELLO: Final = 0xFE0D


def in_records(hello: bytes, size: int) -> bytes:
    """Return the same message in records of so many bytes each."""
    kind, message = hello[:3], hello[_RECORD_HEAD:]
    pieces = (message[at : at + size] for at in range(0, len(message), size))
    return b"".join(kind + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def with_encrypted_name(hello: bytes) -> bytes:
    """Return the same hello with an extension that holds another one, encrypted."""
    inner = bytes.fromhex("00000100012a") + (32).to_bytes(2, "big") + bytes(32)
    inner += (64).to_bytes(2, "big") + bytes(range(64))
    extension = _ENCRYPTED_CLIENT_HELLO.to_bytes(2, "big") + len(inner).to_bytes(2, "big") + inner
    body = hello[_RECORD_HEAD + 4 :]
    at = 2 + 32
    at += 1 + body[at]  # the session
    at += 2 + int.from_bytes(body[at : at + 2], "big")  # the ciphers
    at += 1 + body[at]  # compression
    extensions = body[at + 2 :] + extension
    body = body[:at] + len(extensions).to_bytes(2, "big") + extensions
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return hello[:3] + len(message).to_bytes(2, "big") + message
