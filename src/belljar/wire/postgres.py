"""What PostgreSQL's clients say before TLS: may I?

Eight bytes ask the server for encryption, it answers with one, and then comes the ClientHello. There are services that
have one address for all of their customers and tell them apart by its server name; so it has to be looked at here as
well. What asks for encryption names nobody, and can be passed on before. No client asks twice for the same.
"""

from typing import Final

from belljar.wire.outcome import Fault, Refuse

_REQUESTS: Final = (bytes.fromhex("0000000804d2162f"), bytes.fromhex("0000000804d21630"))
"""For TLS, and for encryption by GSSAPI, which is what is asked for first where both are possible."""

_SIZE: Final = 8


class Prelude:
    """Takes the requests for encryption off the start of a stream."""

    __slots__ = ("_left", "_undecided", "ended", "refusal")

    def __init__(self) -> None:
        self._undecided = b""
        self._left = set(_REQUESTS)
        self.ended = False
        """Whether something else has come."""
        self.refusal: Refuse | None = None

    @property
    def requests(self) -> int:
        """How many there were. The client has to wait for an answer to each, of one byte."""
        return len(_REQUESTS) - len(self._left)

    def feed(self, data: bytes) -> bytes:
        """Take the next piece; return what belongs to something else."""
        if self.ended:
            return data
        self._undecided += data
        while (request := self._undecided[:_SIZE]) in _REQUESTS:
            if request not in self._left:
                self.ended = True
                self.refusal = Refuse(Fault.MALFORMED_TLS, "the client asks for the same encryption twice")
                return b""
            self._left.remove(request)
            self._undecided = self._undecided[_SIZE:]
        if len(self._undecided) < _SIZE and any(request.startswith(self._undecided) for request in _REQUESTS):
            return b""
        self.ended = True
        rest, self._undecided = self._undecided, b""
        return rest
