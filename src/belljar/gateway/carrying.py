"""One connection from its decision to its end: dial, look at what the client says, relay.

Theory of operation
-------------------
The upstream connection is made first, and unless the client has spoken by then, the server's bytes flow to it at once,
so that servers that speak first can. The client's own first bytes are held back until they have been read: a server
name in TLS or a Host in HTTP that differs from the name that was decided ends the connection, and nothing of it has
reached the server but, at most, a part of a line that no server can act on. The second hello of a TLS client is held to
the same, if the server asks for one (`retrying`). HTTP in plain text goes on request by request (`http`); everything
else is joined by a `Relay` and costs no coroutine any more.

From the first "yes" on, the flow is among the sandbox's live flows, and a change of policy can cut it at any time: by
its addresses, too, as soon as they are known, and so before the first of them is dialled.
"""

from typing import Final

from belljar.gateway.accounts import Account
from belljar.gateway.claims import claimed_by, claimed_by_request, unreadable
from belljar.gateway.denials import describe
from belljar.gateway.dialing import DeniedError
from belljar.gateway.door import Door
from belljar.gateway.events import Ending
from belljar.gateway.firstbytes import FirstBytes, FirstBytesReader, HttpClient, OtherClient, TlsClient
from belljar.gateway.fronts import TRANSPARENT, Front
from belljar.gateway.http import AnyHead, HttpRelay
from belljar.gateway.jar import Carried
from belljar.gateway.loop import Cancelled
from belljar.gateway.refusing import end_with, last_words
from belljar.gateway.relay import Relay
from belljar.gateway.retrying import read_second_hello, server_asks_for_retry
from belljar.gateway.streams import Stream
from belljar.policy import Flow, Verdict
from belljar.wire.outcome import Fault, Refuse

_HASTY: Final = Refuse(Fault.MALFORMED_TLS, "the client does not wait for the server to agree to TLS")


async def carry(
    door: Door, client: Stream, flow: Flow, said: FirstBytes | None = None, front: Front = TRANSPARENT
) -> None:
    """Take an allowed flow to its end. `said` is what the client has said already, if it was asked."""
    carriage = _Carriage(door, client, flow, front)
    try:
        try:
            await carriage.run(said)
        except DeniedError as denied:
            await carriage.deny(denied.verdict)
        except OSError as error:
            await carriage.fail(error)
    except Cancelled:
        carriage.end("cut")
    except BaseException:  # a bug: nothing stays open because of it
        carriage.end("failed")
        raise


class _Carriage:
    """The state of one connection that was allowed."""

    def __init__(self, door: Door, client: Stream, flow: Flow, front: Front) -> None:
        self._door, self._client, self._front = door, client, front
        self._task = door.loop.current
        self._account = Account(door, flow, self._cut, lambda: self.end("cut"), self._carried)
        self._said: FirstBytes | None = None
        self._relay: Relay | None = None
        self._http: HttpRelay | None = None
        self._told_client = False
        """Whether the client has been told that it is connected."""
        self._error: str | None = None
        self._ended = False
        client.watch.on_error = lambda: self.end("closed")

    async def run(self, said: FirstBytes | None) -> None:
        """Connect, look and join. Raises DeniedError and OSError."""
        self._said = said
        relay = await self._connect()
        if self._front.connected:
            await self._client.write(self._front.connected)
            self._told_client = True
        if said is not None:
            unpassed = said.received
        else:
            said, unpassed = await self._listen(relay)
            self._said = said
        self._account.update(claimed_by(self._account.flow, said))
        self._account.tell_allowed()
        if isinstance(said, HttpClient):
            del unpassed  # the connection may be a long one
            await self._run_http(relay, said)
        elif isinstance(said, TlsClient):
            await self._run_tls(relay, said, unpassed)
        else:
            await _pass_on(relay, unpassed)
            self._join(relay, said)

    async def _connect(self) -> Relay:
        door = self._door
        with door.jar.dialling(), door.loop.timeout(door.jar.limits.dial_seconds):
            flow, upstream = await door.dialler.dial(door.jar, self._account.flow, self._account.update)
        relay = self._relay = Relay(door.loop, door.pipes, self._client, upstream)
        relay.on_end = lambda: self.end("closed")
        self._account.update(flow)  # by the policy of now: it may be another one than before the dial
        return relay

    async def _listen(self, relay: Relay) -> tuple[FirstBytes, bytes]:
        """Read what the client says first, and pass on what may be before it is complete; return what may not."""
        reader = FirstBytesReader()
        data = self._client.read_now()
        said = reader.feed(data) if data is not None else None
        if data is not None and self._client.kept is not None:
            self._client.kept.keep(data)
        if said is None:  # it may wait for the server to speak first
            relay.down.start()
        while said is None and reader.is_harmless:
            await _pass_on(relay, reader.take())
            if reader.names_nobody:
                self._let_go()
            said = reader.feed(await self._client.read_to_keep())
        if said is None:  # half a sentence, which is held back, and so has to be complete before long
            jar = self._door.jar
            with jar.handshake(), self._door.loop.timeout(jar.limits.first_bytes_seconds):
                while said is None:
                    said = reader.feed(await self._client.read_to_keep())
        if relay.down.bytes < reader.answers_due:
            raise DeniedError(unreadable(self._account.flow, _HASTY))
        return said, reader.take()

    async def _run_http(self, relay: Relay, said: HttpClient) -> None:
        if relay.down.bytes or relay.down.finished:
            raise ConnectionResetError("a server that speaks first does not speak HTTP")
        relay.down.pause()
        self._http = HttpRelay(self._door, relay, self._check_request)
        await self._http.run(said)

    async def _run_tls(self, relay: Relay, said: TlsClient, unpassed: bytes) -> None:
        """Pass on a hello, and the second one, if the server asks for it and it names nobody else."""
        relay.down.pause()
        await _pass_on(relay, unpassed.removesuffix(said.trailing))
        behind, said.received, said.trailing = said.trailing, b"", b""
        with self._door.loop.timeout(self._door.jar.limits.dial_seconds):
            if await server_asks_for_retry(self._door.loop, relay.upstream):
                relay.down.start()
                second = await read_second_hello(self._client, behind)
                self._account.update(claimed_by(self._account.flow, second))
                behind = second.received
        if behind:
            await _pass_on(relay, behind)
        relay.down.start()
        self._join(relay, said)

    def _join(self, relay: Relay, said: FirstBytes) -> None:
        if isinstance(said, OtherClient) and said.ended:
            relay.upstream.end()
        if not relay.down.bytes and not relay.down.finished:
            relay.down.start()
        self._task = None
        said.received = b""
        self._let_go()
        relay.up.start()

    def _let_go(self) -> None:
        """Take note that nothing is kept of what the client has said."""
        if self._client.kept is not None:
            self._client.kept.let_go()

    def _check_request(self, head: AnyHead) -> None:
        self._account.update(claimed_by_request(self._account.flow, head))

    def _cut(self, verdict: Verdict) -> None:
        """End the flow because a new policy denies it."""
        try:
            self._door.jar.observer.flow_denied(verdict)
        finally:
            self.end("cut")

    async def deny(self, verdict: Verdict) -> None:
        """End the flow because more is known about it now."""
        self._door.jar.observer.flow_denied(verdict)
        await self._listen_for_last_words()
        await self._stop(self._front_now().denial(verdict, self._door.jar.generation, self._said), "denied")

    async def fail(self, error: OSError) -> None:
        """End the flow because its destination could not be reached, or was lost."""
        await self._listen_for_last_words()
        self._error = describe(error)
        await self._stop(self._front_now().failure(self._account.flow, error, self._said), "failed")

    async def _listen_for_last_words(self) -> None:
        if self._said is None and self._relay is None and self._front is TRANSPARENT:
            self._said = await last_words(self._door, self._client)

    def _front_now(self) -> Front:
        """Inside a tunnel, whoever was told of a gateway before speaks the inner protocol now."""
        return TRANSPARENT if self._told_client else self._front

    async def _stop(self, message: bytes, how: Ending) -> None:
        if self._relay is not None:
            self._relay.on_end = lambda: None
            self._relay.down.pause()
            self._relay.upstream.reset()
            if self._is_in_the_middle(self._relay):
                message = b""
        await end_with(self._door, self._client, message)
        self.end(how)

    def _is_in_the_middle(self, relay: Relay) -> bool:
        """Tell whether the client has a part of what the server says, so that nothing can be put in its place."""
        return relay.down.bytes > 0 if self._http is None else self._http.is_answering

    def end(self, how: Ending) -> None:
        """Release everything, once."""
        if self._ended:
            return
        self._ended = True
        relay = self._relay
        self._account.leave()
        if relay is not None:
            relay.on_end = lambda: None
            relay.abort()
            if how != "denied":  # a client that never said anything was allowed, too
                self._account.tell_allowed()
        self._client.reset()
        if self._task is not None and not self._task.done:
            self._task.cancel()
        self._account.tell_closed(how, self._carried(), self._error)

    def _carried(self) -> Carried:
        return Carried(self._relay.up.bytes, self._relay.down.bytes) if self._relay is not None else Carried()


async def _pass_on(relay: Relay, data: bytes) -> None:
    relay.up.bytes += len(data)
    await relay.upstream.write(data)
