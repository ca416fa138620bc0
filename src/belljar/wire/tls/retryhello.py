"""The second ClientHello, which a server may ask for (HelloRetryRequest, RFC 8446, 4.1.4) and may take the name from.

Whoever looked at the first hello alone could be shown one name, and the server another. So the beginning of the
server's answer tells whether a second hello follows (`asks_for_retry`), and if so that one is read as well, behind
whatever may stand before it: a change_cipher_spec for middleboxes, and early data, which the server steps over.
"""

from typing import Final

from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse
from belljar.wire.tls.clienthello import MAX_HELLO, ClientHello, ClientHelloParser

ANSWER_BYTES: Final = 43
"""How much of a server's answer tells: a record's header, a message's header, a version, and the random number."""

_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The "random" number that makes a ServerHello a request for another hello: SHA-256 of "HelloRetryRequest"."""

_HEADER: Final = 5
_STEPPED_OVER: Final = (0x14, 0x17)  # change_cipher_spec, application data
_MAX_STEPPED_OVER: Final = 1024


def asks_for_retry(answer: bytes) -> bool | NeedMore:
    """Tell whether the beginning of a server's answer asks for another hello."""
    if not b"\x16".startswith(answer[:1]) or not b"\x02".startswith(answer[5:6]):
        return False  # an alert, say
    return answer[11:ANSWER_BYTES] == _RETRY if len(answer) >= ANSWER_BYTES else NEED_MORE


class RetriedHelloParser:
    """Reads a second hello from what a client sends behind its first."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._position = 0
        self._stepped_over = 0
        self._hello: ClientHelloParser | None = None

    def feed(self, data: bytes) -> ClientHello | NeedMore | Refuse:
        """Take the next piece of the stream."""
        if self._hello is not None:
            return _as_second(self._hello.feed(data))
        self._received += data
        while len(self._received) >= self._position + _HEADER:
            header = self._received[self._position : self._position + _HEADER]
            if header[0] not in _STEPPED_OVER:
                self._hello = ClientHelloParser()
                return _as_second(self._hello.feed(bytes(self._received[self._position :])))
            self._position += _HEADER + int.from_bytes(header[3:])
            self._stepped_over += 1
            if self._position > MAX_HELLO or self._stepped_over > _MAX_STEPPED_OVER:
                return Refuse(Fault.TOO_LARGE, "too much stands before the second ClientHello")
        return NEED_MORE


def _as_second(answer: ClientHello | NeedMore | Refuse) -> ClientHello | NeedMore | Refuse:
    """After a request for one, whatever is no hello cannot be another protocol any more."""
    if isinstance(answer, Refuse) and answer.fault is Fault.NOT_TLS:
        return Refuse(Fault.MALFORMED_TLS, "the server asked for a second ClientHello, and something else came")
    return answer
