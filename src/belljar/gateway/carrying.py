"""One connection from its decision to its end: dial, look at what the client says, relay.

Theory of operation
-------------------
The upstream connection is made first and its bytes flow to the client at once, so that servers that speak first can.
The client's own first bytes are held back until they have been read: a server name in TLS or a Host in HTTP that
differs from the name that was decided ends the connection, and nothing of it has reached the server but, at most, a
part of a line that no server can act on. The second hello of a TLS client is held to the same, if the server asks for
one (`retrying`). HTTP in plain text goes on request by request (`http`); everything else is joined by a `Relay` and
costs no coroutine any more.

From the first "yes" on, the flow is among the sandbox's live flows, and a change of policy can cut it at any time.
"""

from typing import Final

from belljar.gateway.claims import claimed_by, claimed_by_request
from belljar.gateway.denials import describe, say_goodbye
from belljar.gateway.dialing import DeniedError
from belljar.gateway.door import Door
from belljar.gateway.events import Ending
from belljar.gateway.firstbytes import (
    FirstBytes,
    FirstBytesReader,
    HttpClient,
    OtherClient,
    TlsClient,
    read_first_bytes,
)
from belljar.gateway.fronts import TRANSPARENT, Front
from belljar.gateway.http import AnyHead, HttpRelay
from belljar.gateway.jar import LiveFlow
from belljar.gateway.loop import Cancelled
from belljar.gateway.relay import Relay
from belljar.gateway.retrying import read_second_hello, server_asks_for_retry
from belljar.gateway.streams import Stream
from belljar.policy import Flow, Verdict

LAST_WORDS_SECONDS: Final = 1.0
"""How long a client may take to show in which protocol it would like to be turned away."""


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


async def deny(
    door: Door, client: Stream, verdict: Verdict, said: FirstBytes | None = None, front: Front = TRANSPARENT
) -> None:
    """Deny a connection, and say so in the protocol that the client speaks."""
    door.jar.observer.flow_denied(verdict)
    if said is None and front is TRANSPARENT:
        said = await first_bytes_within(door, client, LAST_WORDS_SECONDS)
    await _end_with(door, client, front.denial(verdict, door.jar.generation, said))


async def first_bytes_within(door: Door, client: Stream, seconds: float) -> FirstBytes:
    """Read what the client says first; one that takes too long, or has gone, says nothing that tells anything."""
    try:
        with door.loop.timeout(seconds):
            return await read_first_bytes(client)
    except OSError:
        return OtherClient(b"", ended=False)


async def _end_with(door: Door, client: Stream, message: bytes) -> None:
    if message:
        await say_goodbye(door.loop, client, message)
    else:
        client.reset()


class _Carriage:
    """The state of one connection that was allowed."""

    def __init__(self, door: Door, client: Stream, flow: Flow, front: Front) -> None:
        self._door, self._client, self._front = door, client, front
        self._started = door.loop.clock()
        self._task = door.loop.current
        self._live = LiveFlow(flow, self._cut, lambda: self.end("cut"))
        self._said: FirstBytes | None = None
        self._relay: Relay | None = None
        self._http: HttpRelay | None = None
        self._told_client = False
        """Whether the client has been told that it is connected."""
        self._told_observer = False
        self._error: str | None = None
        self._ended = False
        client.watch.on_error = lambda: self.end("closed")
        door.jar.flows.add(self._live)
        if flow.name is not None:
            door.jar.names.hold(flow.name)

    async def run(self, said: FirstBytes | None) -> None:
        """Connect, look and join. Raises DeniedError and OSError."""
        self._said = said
        relay = await self._connect()
        await self._client.write(self._front.connected)
        self._told_client = bool(self._front.connected)
        if said is not None:
            unpassed = said.received
        else:
            relay.down.start()
            said, unpassed = await self._listen(relay)
            self._said = said
        self._check(claimed_by(self._live.flow, said))
        self._tell_observer()
        if isinstance(said, HttpClient):
            await self._run_http(relay, said)
        elif isinstance(said, TlsClient):
            await self._run_tls(relay, said, unpassed)
        else:
            await _pass_on(relay, unpassed)
            self._join(relay, said)

    async def _connect(self) -> Relay:
        door = self._door
        with door.jar.dialling(), door.loop.timeout(door.jar.limits.dial_seconds):
            flow, upstream = await door.dialler.dial(door.jar, self._live.flow)
        relay = self._relay = Relay(door.loop, door.pipes, self._client, upstream)
        relay.on_end = lambda: self.end("closed")
        self._check(flow)  # with its addresses, by the policy of now: it may be another one than before the dial
        return relay

    async def _listen(self, relay: Relay) -> tuple[FirstBytes, bytes]:
        """Read what the client says first, and pass on what may be before it is complete; return what may not."""
        reader = FirstBytesReader()
        while (said := reader.feed(await self._client.read())) is None and reader.is_harmless:
            await _pass_on(relay, reader.take())
        if said is None:  # half a sentence, which is held back, and so has to be complete before long
            jar = self._door.jar
            with jar.handshake(), self._door.loop.timeout(jar.limits.first_bytes_seconds):
                while said is None:
                    said = reader.feed(await self._client.read())
        return said, reader.take()

    async def _run_http(self, relay: Relay, said: HttpClient) -> None:
        if relay.down.bytes or relay.down.finished:
            raise ConnectionResetError("a server that speaks first does not speak HTTP")
        relay.down.pause()
        self._http = HttpRelay(self._door.loop, relay, self._check_request)
        await self._http.run(said)

    async def _run_tls(self, relay: Relay, said: TlsClient, unpassed: bytes) -> None:
        """Pass on a hello, and the second one, if the server asks for it and it names nobody else."""
        relay.down.pause()
        await _pass_on(relay, unpassed.removesuffix(said.trailing))
        behind = said.trailing
        with self._door.loop.timeout(self._door.jar.limits.dial_seconds):
            if await server_asks_for_retry(self._door.loop, relay.upstream):
                relay.down.start()
                second = await read_second_hello(self._client, said)
                self._check(claimed_by(self._live.flow, second))
                behind = second.received
        await _pass_on(relay, behind)
        relay.down.start()
        self._join(relay, said)

    def _join(self, relay: Relay, said: FirstBytes) -> None:
        if isinstance(said, OtherClient) and said.ended:
            relay.upstream.end()
        if not relay.down.bytes and not relay.down.finished:
            relay.down.start()
        self._task = None
        relay.up.start()

    def _check_request(self, head: AnyHead) -> None:
        self._check(claimed_by_request(self._live.flow, head))

    def _check(self, flow: Flow) -> None:
        verdict = self._door.jar.decide(flow)
        if not verdict.allowed:
            raise DeniedError(verdict)
        self._live.flow = flow

    def _tell_observer(self) -> None:
        """Have it on record that the flow is allowed and connected, once."""
        if self._told_observer:
            return
        verdict = self._door.jar.decide(self._live.flow)
        if verdict.allowed:
            self._told_observer = True
            self._door.jar.observer.flow_allowed(verdict)

    def _cut(self, verdict: Verdict) -> None:
        """End the flow because a new policy denies it."""
        self._door.jar.observer.flow_denied(verdict)
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
        await self._stop(self._front_now().failure(self._live.flow, error, self._said), "failed")

    async def _listen_for_last_words(self) -> None:
        if self._said is None and self._relay is None and self._front is TRANSPARENT:
            self._said = await first_bytes_within(self._door, self._client, LAST_WORDS_SECONDS)

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
        await _end_with(self._door, self._client, message)
        self.end(how)

    def _is_in_the_middle(self, relay: Relay) -> bool:
        """Tell whether the client has a part of what the server says, so that nothing can be put in its place."""
        return relay.down.bytes > 0 if self._http is None else self._http.is_answering

    def end(self, how: Ending) -> None:
        """Release everything, once."""
        if self._ended:
            return
        self._ended = True
        flow, relay = self._live.flow, self._relay
        self._door.jar.flows.discard(self._live)
        self._live.let_go()
        if flow.name is not None:
            self._door.jar.names.release(flow.name)
        if relay is not None:
            relay.on_end = lambda: None
            relay.abort()
            if how != "denied":  # a client that never said anything was allowed, too
                self._tell_observer()
        self._client.reset()
        if self._task is not None and not self._task.done:
            self._task.cancel()
        seconds = self._door.loop.clock() - self._started
        up, down = (relay.up.bytes, relay.down.bytes) if relay is not None else (0, 0)
        if self._error is None:
            self._door.jar.observer.flow_closed(flow, up, down, seconds, how)
        else:
            self._door.jar.observer.flow_failed(flow, up, down, seconds, self._error)


async def _pass_on(relay: Relay, data: bytes) -> None:
    relay.up.bytes += len(data)
    await relay.upstream.write(data)
