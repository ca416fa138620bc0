"""One name server is asked for the addresses of a name, or for its records of any other type.

Both families are asked for at once. Each question has a port of its own that the kernel chooses at random. The sockets
are connected, so the kernel drops what comes from any other address or port. What has a wrong identifier is ignored. If
what has the right one is no complete and proper answer, or if wrong ones come in numbers, the question is asked again
over TCP, where nobody can put in an answer from outside.
"""

import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Final, Generic, TypeAlias, TypeVar

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream, connect
from belljar.gateway.upstream.hostfiles import Server
from belljar.wire.dns.format import Rcode, RecordType
from belljar.wire.dns.forwarded import Forwarded, read_records
from belljar.wire.dns.framing import frame
from belljar.wire.dns.response import (
    Answer,
    NoData,
    NoSuchName,
    Resolution,
    SentQuery,
    ServerFailure,
    Truncated,
    build_query,
    read_response,
)
from belljar.wire.outcome import Refuse

Found_co = TypeVar("Found_co", covariant=True)
"""What an answer comes to: addresses, or records of any type."""

_NoAnswer: TypeAlias = ServerFailure | Truncated | Refuse
_Reader: TypeAlias = Callable[[bytes, SentQuery], Found_co | _NoAnswer]

_KINDS: Final = (RecordType.A, RecordType.AAAA)
_MAX_DATAGRAM: Final = 4096  # more than was offered; what is larger is cut, and so is asked for again
_MAX_FORGERIES: Final = 32


class NoDnsAnswerError(Exception):
    """A server was of no help; the text goes on after "the server"."""

    def __init__(self, text: str, *, silent: bool = False) -> None:
        super().__init__(text)
        self.silent = silent
        """Nothing came from it, so that it may be worth another try."""


async def ask(loop: Loop, server: Server, name: str, seconds: float) -> Answer:
    """Ask a server for all addresses of a canonical name, for so long at most. Raises NoDnsAnswerError."""
    deadline = loop.clock() + seconds
    try:
        with ExitStack() as open_questions:
            questions = [
                open_questions.enter_context(closing(_Question[Answer](loop, server, name, kind, read_response)))
                for kind in _KINDS
            ]
            # One after the other is soon enough: what comes for the second meanwhile is kept in its socket.
            replies = [await _reply(loop, question, deadline) for question in questions]
    except OSError as error:
        raise NoDnsAnswerError(f"cannot be reached: {error.strerror}") from None
    return _combine(replies)


async def ask_for_records(loop: Loop, server: Server, name: str, kind: int, seconds: float) -> Forwarded:
    """Ask a server for the records of one type, for so long at most. Raises NoDnsAnswerError."""
    try:
        with closing(_Question[Forwarded](loop, server, name, kind, read_records)) as question:
            reply = await _reply(loop, question, loop.clock() + seconds)
    except OSError as error:
        raise NoDnsAnswerError(f"cannot be reached: {error.strerror}") from None
    if isinstance(reply, NoDnsAnswerError):
        raise reply
    return reply


def _combine(replies: Sequence[Answer | NoDnsAnswerError]) -> Answer:
    """Make one answer of those for the two families; addresses of one will do if the other cannot be known."""
    found = [reply for reply in replies if isinstance(reply, Resolution)]
    if found:
        addresses = [address for resolution in found for address in resolution.addresses]
        return Resolution(tuple(addresses), min(resolution.ttl for resolution in found))
    for reply in replies:
        if isinstance(reply, NoSuchName):  # is true of the name, whatever the type
            return reply
    for reply in replies:
        if isinstance(reply, NoDnsAnswerError):
            raise reply
    return NoData(min(reply.ttl for reply in replies if isinstance(reply, NoData)))


async def _reply(loop: Loop, question: "_Question[Found_co]", deadline: float) -> Found_co | NoDnsAnswerError:
    try:
        with loop.timeout(deadline - loop.clock()):
            response = await question.response()
    except TimeoutError:
        return NoDnsAnswerError("does not answer", silent=True)
    except OSError as error:
        return NoDnsAnswerError(f"cannot be reached: {error.strerror}")
    match response:
        case Refuse(detail=detail):
            return NoDnsAnswerError(f"sends an answer that {detail}")
        case Truncated():
            return NoDnsAnswerError("sends an answer that is truncated")
        case ServerFailure(rcode):
            return NoDnsAnswerError(f"answers {_rcode_name(rcode)}")
        case answer:
            return answer


class _Question(Generic[Found_co]):
    """A question of one type to one server: sent when it is made, and open until it is closed."""

    def __init__(self, loop: Loop, server: Server, name: str, kind: int, read: _Reader[Found_co]) -> None:
        self._loop, self._server, self._name, self._kind, self._read = loop, server, name, kind, read
        self._sent = build_query(_mix_case(name), kind, secrets.randbits(16))
        family = socket.AF_INET if server.address.version == 4 else socket.AF_INET6
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.connect((str(server.address), server.port))
            self._socket.send(self._sent.message)
            self._watch = loop.watch(self._socket)
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        """Stop waiting for an answer."""
        self._loop.unwatch(self._socket)
        self._socket.close()

    async def response(self) -> Found_co | _NoAnswer:
        """Wait for what the server says. Raises OSError."""
        for _ in range(_MAX_FORGERIES):
            datagram = await self._receive()
            if self._sent.has_id_of(datagram):
                response = self._read(datagram, self._sent)
                if not isinstance(response, Refuse | Truncated):
                    return response
                break
        return await self._response_over_tcp()

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._socket.recv(_MAX_DATAGRAM)
            except BlockingIOError:
                await self._loop.readable(self._watch)

    async def _response_over_tcp(self) -> Found_co | _NoAnswer:
        # In lower case: there is nobody to guard against here, and a server that does not keep the case gets along.
        sent = build_query(self._name, self._kind, secrets.randbits(16))
        stream = await connect(self._loop, self._server.address, self._server.port)
        try:
            await stream.write(frame(sent.message))
            length = int.from_bytes(await _read_exactly(stream, 2), "big")
            return self._read(await _read_exactly(stream, length), sent)
        finally:
            stream.close()


async def _read_exactly(stream: Stream, size: int) -> bytes:
    """Read so many bytes, or those that there are if the stream ends before."""
    received = b""
    while len(received) < size and (more := await stream.read(size - len(received))):
        received += more
    return received


def _mix_case(name: str) -> str:
    """Spell a name in a way that nobody can guess."""
    upper = secrets.randbits(len(name))
    return "".join(letter.upper() if upper >> index & 1 else letter for index, letter in enumerate(name))


def _rcode_name(rcode: int) -> str:
    try:
        return Rcode(rcode).name
    except ValueError:
        return f"with error {rcode}"
