"""What the witness says on a connection, whatever the protocol: that it is the witness, and where it was reached."""

from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.network.clients import WITNESS_ALERT

_TLS_HANDSHAKE: Final = 22
_END_OF_HEAD: Final = b"\r\n\r\n"
_REDIRECTION: Final = b"/redirect-to/"
_TWICE: Final = b"/twice"
_SWITCH: Final = b"/switch"
_ASKED_TWICE: Final = f".retry.{places.ABOVE_GRANTED}".encode()

_RETRY: Final = bytes.fromhex(
    "160303003802000034" "0303" "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
    "00" "1301" "00" "000c" "002b00020304" "003300020017"
)  # fmt: skip
"""HelloRetryRequest: a wish for another hello, with a key on another curve."""


class Conversation:
    """One connection to the witness. Bytes in, bytes out."""

    def __init__(self, address: str, port: int, key: bytes = b"") -> None:
        """Answer requests that have a key in them, if there is to be one."""
        self.address, self.port, self._key = address, port, key
        self.received = bytearray()
        self._answered = 0
        self._has_asked_again = False

    def greeting(self) -> bytes:
        """Return what is said first: where SSH lives, servers do."""
        return b"SSH-2.0-witness\r\n" if self.port == places.SSH else b""

    def hear(self, data: bytes) -> bytes:
        """Take the next bytes, and return the answer to them."""
        self.received += data
        if not data:
            return b""
        if self.received[0] == _TLS_HANDSHAKE:
            return self._answer_hello()
        if b"HTTP/1." in self.received:
            return self._answer_requests()
        return f"{places.MARKER} {self.address} {self.port}\n.\n".encode()

    def _answer_hello(self) -> bytes:
        """Ask for a second hello where the name says so; no more can be said without a certificate."""
        if _ASKED_TWICE not in self.received or self._has_asked_again:
            return WITNESS_ALERT
        self._has_asked_again = True
        return _RETRY

    def _answer_requests(self) -> bytes:
        answers = b""
        while (end := self.received.find(_END_OF_HEAD, self._answered)) >= 0:
            head = bytes(self.received[self._answered : end])
            self._answered = end + len(_END_OF_HEAD)
            answers += self._answer(head)
        return answers

    def _answer(self, head: bytes) -> bytes:
        if self._key not in head:
            return b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        target = head.split(b" ")[1] if head.count(b" ") >= 2 else b""
        if target.startswith(_REDIRECTION):
            location = target.removeprefix(_REDIRECTION).decode("latin-1")
            return f"HTTP/1.1 302 Found\r\nLocation: http://{location}/\r\nContent-Length: 0\r\n\r\n".encode()
        body = f"{places.MARKER} {self.address} {self.port}\n.\n"
        answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        if target == _SWITCH:
            return b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n" + answer
        return answer * 2 if target == _TWICE else answer
