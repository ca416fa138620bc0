"""The sandbox's DNS server, over UDP and TCP.

Theory of operation
-------------------
All of a sandbox's DNS arrives here, whichever server it was sent to. A connection may idle for some seconds between
complete questions; sending bytes without completing one wins no time, and neither does leaving answers unread.

`Answering` knows the answers. What is to be forwarded (in allow-all only, and only where the gateway was given a way
to do so) is waited for in a task of its own, of which there is a limited number. A change of policy ends the waiting
for what it denies: nothing is asked again then, and whatever comes back is not passed on.
"""

import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from belljar.gateway.accepting import accept_for_ever
from belljar.gateway.audit.events import Transport
from belljar.gateway.dns.answering import Answering, type_name
from belljar.gateway.dns.wildcards import WildcardBudget
from belljar.gateway.io.loop import Loop, Task
from belljar.gateway.io.streams import Stream
from belljar.gateway.sandbox import SandboxState
from belljar.wire.dns.answer import DnsAnswer, refusal_answer
from belljar.wire.dns.framing import DnsFrames, frame
from belljar.wire.dns.question import MAX_QUERY, Query, RefusedQuery, parse_query
from belljar.wire.outcome import Refuse

Forward: TypeAlias = Callable[[Query], Coroutine[Any, Any, DnsAnswer]]
"""Asks a resolver outside; raises OSError, or TimeoutError, if that does not work."""

MAX_CONNECTIONS: Final = 64
MAX_FORWARDS: Final = 64
IDLE_SECONDS: Final = 10.0
FORWARD_SECONDS: Final = 5.0

_READ_BYTES: Final = 2048  # whose questions are answered together
_PAUSE_SECONDS: Final = 0.05
_CLOSING: Final = "the sandbox is being closed"


class _DeniedMeanwhileError(Exception):
    """A question that is being forwarded is denied by a new policy. Not an OSError: no other server is to be asked."""


class DnsService:
    """Answers the DNS of one sandbox."""

    def __init__(
        self, loop: Loop, sandbox: SandboxState, wildcards: WildcardBudget, forward: Forward | None = None
    ) -> None:
        self._loop, self._sandbox = loop, sandbox
        self._forward = forward
        self._answering = Answering(sandbox, wildcards, loop.clock, can_forward=forward is not None)
        self._servers: list[Task] = []
        self._listeners: list[socket.socket] = []
        self._connections: set[Task] = set()
        self._forwards: set[Task] = set()
        self._asking: dict[Task, Query] = {}
        """Who waits for the resolver outside, over UDP or TCP, and what was asked."""

    def serve(self, udp: Iterable[socket.socket], tcp: Iterable[socket.socket]) -> None:
        """Begin to answer on listeners, which stay the caller's."""
        for listener in udp:
            self._listeners.append(listener)
            self._servers.append(self._loop.spawn(self._answer_datagrams(listener)))
        for listener in tcp:
            self._listeners.append(listener)
            self._servers.append(self._loop.spawn(accept_for_ever(self._loop, self._sandbox, listener, self._converse)))

    def close(self) -> None:
        """Stop answering; do so before the listeners are closed."""
        for task in (*self._servers, *self._connections, *self._forwards):
            task.cancel()
        for listener in self._listeners:
            self._loop.unwatch(listener)

    def stop_forwarding(self) -> Sequence[Callable[[], None]]:
        """Forward nothing from now on; return calls that let the questions fail that wait for an answer, one each."""
        self._forward = _fail
        return [partial(self._interrupt, task, query, OSError(_CLOSING)) for task, query in self._asking.items()]

    def policy_changed(self) -> Sequence[Callable[[], None]]:
        """Return what ends the forwarding of the questions that the policy denies now, one by one.

        That has to be called before anything else is done for the sandbox.
        """
        return [
            partial(self._interrupt, task, query, _DeniedMeanwhileError())
            for task, query in self._asking.items()
            if not self._answering.still_forwards(query)
        ]

    def _interrupt(self, task: Task, query: Query, error: Exception) -> None:
        if self._asking.get(task) is query:
            task.throw_now(error)

    # UDP.

    async def _answer_datagrams(self, listener: socket.socket) -> None:
        watch = self._loop.watch(listener)
        while True:
            try:
                message, client = listener.recvfrom(MAX_QUERY + 1)
                self._answer_datagram(listener, message, client)
                if self._loop.clock() >= self._loop.slice_ends:
                    await self._loop.give_way()
            except BlockingIOError:
                await self._loop.readable(watch)
            except OSError:  # the kernel has no memory to spare, say
                await self._loop.sleep(_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 - a bug that one question meets is not the end of the others
                self._sandbox.observer.bug_found(error)

    def _answer_datagram(self, listener: socket.socket, message: bytes, client: Any) -> None:
        query = parse_query(message)
        if isinstance(query, RefusedQuery):
            reply = self._refuse(message, query, "udp")
        elif (answer := self._answering.answer(query, "udp")) is not None:
            reply = answer.datagram()
        elif len(self._forwards) < MAX_FORWARDS:
            self._start_forward(listener, query, client)
            return
        else:
            reply = self._answering.overloaded(query, "udp").datagram()
        if reply is not None:
            _send(listener, reply, client)

    def _start_forward(self, listener: socket.socket, query: Query, client: Any) -> None:
        async def forward_and_answer() -> None:
            try:
                _send(listener, (await self._forwarded(query, "udp")).datagram(), client)
            finally:
                self._forwards.discard(task)

        task = self._loop.spawn(forward_and_answer())
        self._forwards.add(task)

    # TCP.

    async def _converse(self, client: Stream) -> None:
        task = self._loop.current
        if task is None or len(self._connections) >= MAX_CONNECTIONS:
            self._sandbox.observer.limit_reached("dns_connections")
            client.reset()
            return
        self._connections.add(task)
        try:
            with suppress(OSError):
                await self._answer_stream(client)
        finally:
            client.close()
            self._connections.discard(task)

    async def _answer_stream(self, client: Stream) -> None:
        frames = DnsFrames()
        while messages := await self._next_messages(client, frames):
            replies: list[bytes] = []
            for message in messages:
                if isinstance(message, Refuse):
                    self._sandbox.observer.dns_refused("tcp", None, None, message.fault, message.detail)
                    return
                reply = self._reply_over_tcp(message)
                if isinstance(reply, Query):
                    # Nothing is kept while somebody outside is waited for: a new policy could deny it.
                    await self._write(client, replies)
                    reply = (await self._forwarded(reply, "tcp")).message()
                    await self._write(client, [frame(reply)])
                    replies = []
                elif reply is not None:
                    replies.append(frame(reply))
                if self._loop.clock() >= self._loop.slice_ends:
                    await self._loop.give_way()
            await self._write(client, replies)

    async def _write(self, client: Stream, replies: Sequence[bytes]) -> None:
        with self._loop.timeout(IDLE_SECONDS):
            await client.write(b"".join(replies))

    async def _next_messages(self, client: Stream, frames: DnsFrames) -> list[bytes | Refuse]:
        """Return what is complete next; nothing at the end of the stream."""
        with self._loop.timeout(IDLE_SECONDS):
            while data := await client.read(_READ_BYTES):
                if messages := frames.feed(data):
                    return messages
        return []

    def _reply_over_tcp(self, message: bytes) -> bytes | Query | None:
        """Return the reply to a message, or the question that is to be forwarded for it."""
        query = parse_query(message)
        if isinstance(query, RefusedQuery):
            return self._refuse(message, query, "tcp")
        answer = self._answering.answer(query, "tcp")
        return answer.message() if answer is not None else query

    # Both.

    async def _forwarded(self, query: Query, transport: Transport) -> DnsAnswer:
        task = self._loop.current
        if self._forward is None or task is None:
            raise RuntimeError("nothing is to be forwarded where nobody can")
        if self._answering.still_forwards(query):  # it was, but the policy may have changed before this task began
            self._asking[task] = query
            try:
                with self._loop.timeout(FORWARD_SECONDS):
                    answer = await self._forward(query)
            except OSError:
                return self._answering.failed(query, transport)
            except _DeniedMeanwhileError:
                pass
            else:
                self._answering.answered(query, transport, "forwarded")
                return answer
            finally:
                del self._asking[task]
        return self._answering.answer(query, transport) or self._answering.failed(query, transport)

    def _refuse(self, message: bytes, refused: RefusedQuery, transport: Transport) -> bytes | None:
        query = refused.query
        name, kind = (query.qname, type_name(query.qtype)) if query else (None, None)
        self._sandbox.observer.dns_refused(transport, name, kind, refused.fault, refused.detail)
        return refusal_answer(message, refused)


async def _fail(_query: Query) -> DnsAnswer:
    raise OSError(_CLOSING)


def _send(listener: socket.socket, reply: bytes, client: Any) -> None:
    with suppress(OSError):  # a client that is gone, or does not read: it may ask again
        listener.sendto(reply, client)
