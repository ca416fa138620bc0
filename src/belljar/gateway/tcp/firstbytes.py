"""What a client says first: whom it wants, in TLS or in HTTP, or neither.

The bytes are kept, because they are forwarded once the destination is settled, and are forgotten then. What no server
can act on may be forwarded before, and is forgotten at once if there is much of it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from belljar.gateway.io.streams import Stream
from belljar.wire.http.head import Http2Preface, RequestHead, RequestHeadParser
from belljar.wire.http.longlines import LongLine
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse
from belljar.wire.postgres import Prelude
from belljar.wire.tls.clienthello import ClientHello, ClientHelloParser


@dataclass(slots=True)
class TlsClient:
    """The client speaks TLS."""

    received: bytes
    hello: ClientHello | Refuse
    trailing: bytes
    """What stands behind the hello in what was received."""


@dataclass(slots=True)
class HttpClient:
    """The client speaks HTTP in plain text."""

    received: bytes
    head: RequestHead | Http2Preface | Refuse


@dataclass(slots=True)
class OtherClient:
    """The client speaks something else, or nothing: it ended the stream first."""

    received: bytes
    ended: bool


FirstBytes: TypeAlias = TlsClient | HttpClient | OtherClient


class FirstBytesReader:
    """Reads the client's bytes until it is clear what it speaks and whom it wants."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._passed = 0
        self._line_ended = False
        self._prelude, self._line = Prelude(), LongLine()
        self._tls, self._http = ClientHelloParser(), RequestHeadParser()
        self._hello: ClientHello | NeedMore | Refuse = NEED_MORE
        self._head: RequestHead | Http2Preface | NeedMore | Refuse = NEED_MORE

    def feed(self, data: bytes) -> FirstBytes | None:
        """Take the next bytes, none for the end of the stream; return the answer once there is one."""
        self._received += data
        self._line_ended = self._line_ended or b"\r" in data or b"\n" in data
        if not data:
            head = self._http.end()
            if not _is(head, Fault.NOT_HTTP):
                return HttpClient(bytes(self._received), head)
            return OtherClient(bytes(self._received), ended=True)
        data = self._prelude.feed(data)
        if self._prelude.refusal is not None:
            return TlsClient(bytes(self._received), self._prelude.refusal, b"")
        if not data:
            return None
        if self._hello is NEED_MORE:
            self._hello = self._tls.feed(data)
            if self._hello is not NEED_MORE and not _is(self._hello, Fault.NOT_TLS):
                return TlsClient(bytes(self._received), self._hello, self._tls.trailing)
        if self._head is NEED_MORE:
            self._head = self._http.feed(self._line.feed(data))
            if self._head is not NEED_MORE and not _is(self._head, Fault.NOT_HTTP):
                return HttpClient(bytes(self._received), self._head)
        if self._hello is NEED_MORE or self._head is NEED_MORE:
            return None
        return OtherClient(bytes(self._received), ended=False)

    @property
    def is_harmless(self) -> bool:
        """Whether no server can act on what has come so far: it is not TLS, and not a whole line of HTTP.

        Any word can be the method of a request, so a text is known not to be HTTP only when its first line is
        complete. A protocol that waits for an answer to less than a line must not wait for ever.
        """
        if not self._prelude.ended:
            return True
        return self._hello is not NEED_MORE and not self._line_ended

    @property
    def names_nobody(self) -> bool:
        """Whether what comes next cannot name anybody to whoever is not connected with the server already."""
        return self._line.is_long or self._prelude.requests > 0

    @property
    def answers_due(self) -> int:
        """How many bytes the server has to say before the client may go on."""
        return self._prelude.requests

    def take(self) -> bytes:
        """Return what has not been taken so far, to be passed on."""
        taken = bytes(self._received[self._passed :])
        if self._line.is_long or not self._prelude.ended:
            self._received.clear()
        self._passed = len(self._received)
        return taken


async def read_first_bytes(client: Stream) -> FirstBytes:
    """Read until there is an answer, or it is clear that there will be none. Raises OSError."""
    reader = FirstBytesReader()
    while (answer := reader.feed(await client.read_to_keep())) is None:
        if reader.names_nobody:
            return OtherClient(reader.take(), ended=False)
    return answer


def _is(answer: object, fault: Fault) -> bool:
    return isinstance(answer, Refuse) and answer.fault is fault
