"""One connection from its decision to its end: dial, look at what the client says, relay.

Theory of operation
-------------------
The upstream connection is made first and its bytes flow to the client at once, so that servers that speak first can.
The client's own first bytes are held back until they have been read: a server name in TLS or a Host in HTTP that
differs from the name that was decided ends the connection, and nothing of it has reached the server. HTTP in plain
text goes on request by request (`http`); everything else is joined by a `Relay` and costs no coroutine any more.

From the first "yes" on, the flow is among the sandbox's live flows, and a change of policy can cut it at any time.
"""

from dataclasses import dataclass, replace
from typing import Final

from belljar.gateway.denials import TLS_ACCESS_DENIED, http_response, say_goodbye, unreachable_response
from belljar.gateway.dialing import DeniedError, Dialler
from belljar.gateway.events import Ending
from belljar.gateway.firstbytes import (
    FirstBytes,
    FirstBytesReader,
    HttpClient,
    OtherClient,
    TlsClient,
    read_first_bytes,
)
from belljar.gateway.http import HttpRelay
from belljar.gateway.jar import Jar, LiveFlow
from belljar.gateway.loop import Cancelled, Loop
from belljar.gateway.relay import Pipes, Relay
from belljar.gateway.streams import Stream
from belljar.policy import Action, Flow, Reason, Verdict
from belljar.wire.httphead import Http2Preface, RequestHead
from belljar.wire.outcome import Refuse


@dataclass(frozen=True, slots=True)
class Door:
    """What every way out of one sandbox uses."""

    loop: Loop
    jar: Jar
    dialler: Dialler
    pipes: Pipes


class Front:
    """How a kind of client is told what became of its connection. This one is for those who know of no gateway."""

    connected = b""
    """What a client is told before the bytes of the server."""

    def denial(self, door: Door, verdict: Verdict, said: FirstBytes | None) -> bytes:
        """Return the denial in the protocol that the client speaks; nothing where it can only be a reset."""
        if isinstance(said, TlsClient):
            return TLS_ACCESS_DENIED
        if isinstance(said, HttpClient):
            return http_response(verdict, door.jar.generation)
        return b""

    def failure(self, flow: Flow, error: BaseException, said: FirstBytes | None) -> bytes:
        """Return what a client is told when the destination could not be reached."""
        return unreachable_response(flow, error) if isinstance(said, HttpClient) else b""


TRANSPARENT: Final = Front()

LAST_WORDS_SECONDS: Final = 1.0
"""How long a client may take to show in which protocol it would like to be turned away."""


async def carry(
    door: Door, client: Stream, flow: Flow, said: FirstBytes | None = None, front: Front = TRANSPARENT
) -> None:
    """Take an allowed flow to its end. `said` is what the client has said already, if it was asked."""
    carriage = _Carriage(door, client, flow, front)
    try:
        await carriage.run(said)
    except DeniedError as denied:
        await carriage.deny(denied.verdict)
    except (OSError, TimeoutError) as error:
        await carriage.fail(error)
    except Cancelled:
        carriage.end("cut")


async def deny(
    door: Door, client: Stream, verdict: Verdict, said: FirstBytes | None = None, front: Front = TRANSPARENT
) -> None:
    """Deny a connection, and say so in the protocol that the client speaks."""
    door.jar.observer.flow_denied(verdict)
    if said is None and front is TRANSPARENT:
        said = await first_bytes_within(door, client, LAST_WORDS_SECONDS)
    await _end_with(door, client, front.denial(door, verdict, said))


async def first_bytes_within(door: Door, client: Stream, seconds: float) -> FirstBytes | None:
    """Read what the client says first; None if it takes too long or has gone."""
    try:
        with door.loop.timeout(seconds):
            return await read_first_bytes(client)
    except (OSError, TimeoutError):
        return None


async def _end_with(door: Door, client: Stream, message: bytes) -> None:
    if message:
        await say_goodbye(door.loop, client, message)
    else:
        client.reset()


def claimed_by(flow: Flow, said: FirstBytes) -> Flow:
    """Return the flow with the name that the client claims. Raises DeniedError if its claim cannot be read."""
    if isinstance(said, TlsClient):
        if isinstance(said.hello, Refuse):
            raise DeniedError(_unreadable(flow, said.hello))
        return replace(flow, claimed=said.hello.server_name)
    if isinstance(said, HttpClient):
        if isinstance(said.head, Refuse):
            raise DeniedError(_unreadable(flow, said.head))
        if isinstance(said.head, RequestHead):
            return _claimed_by_request(flow, said.head)
        raise DeniedError(Verdict(Action.DENY, Reason.PROTOCOL_REFUSED, None, flow, "HTTP/2 in plain text"))
    return flow


def _claimed_by_request(flow: Flow, head: RequestHead) -> Flow:
    claimed = str(head.host)
    if head.port is not None and head.port != flow.port:
        claimed = f"{claimed}:{head.port}"
    return replace(flow, claimed=claimed if flow.name is not None or isinstance(head.host, str) else None)


class _Carriage:
    """The state of one connection that was allowed."""

    def __init__(self, door: Door, client: Stream, flow: Flow, front: Front) -> None:
        self._door, self._client, self._front = door, client, front
        self._started = door.loop.clock()
        self._task = door.loop.current
        self._relay: Relay | None = None
        self._said: FirstBytes | None = None
        self._told = False
        """Whether the client has been told that it is connected."""
        self._live = LiveFlow(flow, self._cut, lambda: self.end("cut"))
        self._http: HttpRelay | None = None
        self._ended = False
        door.jar.flows.add(self._live)
        if flow.name is not None:
            door.jar.names.hold(flow.name)

    async def run(self, said: FirstBytes | None) -> None:
        door = self._door
        self._said = said
        with door.loop.timeout(door.jar.limits.dial_seconds):
            self._live.flow, upstream = await door.dialler.dial(door.jar, self._live.flow)
        relay = self._relay = Relay(door.loop, door.pipes, self._client, upstream)
        relay.on_end = lambda: self.end("closed")
        await self._client.write(self._front.connected)
        self._told = bool(self._front.connected)
        passed = 0
        if said is None:
            relay.down.start()
            said, passed = await self._listen(upstream)
        self._said = said
        self._check(claimed_by(self._live.flow, said))
        door.jar.observer.flow_allowed(self._door.jar.decide(self._live.flow))
        if isinstance(said, HttpClient):
            await self._run_http(relay, said, passed)
            return
        await upstream.write(said.received[passed:])
        if isinstance(said, OtherClient) and said.ended:
            upstream.end()
        if not relay.down.bytes and not relay.down.finished:
            relay.down.start()
        self._task = None
        relay.up.start()

    async def _listen(self, upstream: Stream) -> tuple[FirstBytes, int]:
        """Read what the client says first; return also how many bytes of it have been passed on already."""
        reader, passed = FirstBytesReader(), 0
        while (said := reader.feed(await self._client.read())) is None:
            if reader.is_harmless:
                await upstream.write(bytes(reader.received[passed:]))
                passed = len(reader.received)
        return said, passed

    async def _run_http(self, relay: Relay, said: HttpClient, passed: int) -> None:
        if relay.down.bytes or relay.down.finished:
            raise ConnectionResetError("a server that speaks first does not speak HTTP")
        relay.down.pause()
        self._http = HttpRelay(self._door.loop, relay, self._check_request)
        await self._http.run(said, passed)

    def _check_request(self, head: RequestHead | Http2Preface | Refuse) -> None:
        self._check(claimed_by(self._live.flow, HttpClient(b"", head)))

    def _check(self, flow: Flow) -> None:
        verdict = self._door.jar.decide(flow)
        if not verdict.allowed:
            raise DeniedError(verdict)
        self._live.flow = flow

    def _cut(self, verdict: Verdict) -> None:
        """End the flow because a new policy denies it."""
        self._door.jar.observer.flow_denied(verdict)
        self.end("cut")

    async def deny(self, verdict: Verdict) -> None:
        """End the flow because more is known about it now."""
        self._door.jar.observer.flow_denied(verdict)
        await self._listen_for_last_words()
        await self._stop(self._front_now().denial(self._door, verdict, self._said), "denied")

    async def fail(self, error: BaseException) -> None:
        """End the flow because its destination could not be reached, or was lost."""
        await self._listen_for_last_words()
        await self._stop(self._front_now().failure(self._live.flow, error, self._said), "failed")

    async def _listen_for_last_words(self) -> None:
        if self._said is None and self._relay is None and self._front is TRANSPARENT:
            self._said = await first_bytes_within(self._door, self._client, LAST_WORDS_SECONDS)

    def _front_now(self) -> Front:
        """Inside a tunnel, whoever was told of a gateway before speaks the inner protocol now."""
        return TRANSPARENT if self._told else self._front

    async def _stop(self, message: bytes, how: Ending) -> None:
        if self._relay is not None:
            self._relay.on_end = lambda: None
            self._relay.down.pause()
            self._relay.upstream.reset()
            if self._relay.down.bytes and self._http is None:
                message = b""  # the client is in the middle of the server's bytes
        await _end_with(self._door, self._client, message)
        self.end(how)

    def end(self, how: Ending) -> None:
        """Release everything, once."""
        if self._ended:
            return
        self._ended = True
        flow, relay = self._live.flow, self._relay
        self._door.jar.flows.discard(self._live)
        if flow.name is not None:
            self._door.jar.names.release(flow.name)
        if relay is not None:
            relay.on_end = lambda: None
            relay.abort()
        self._client.reset()
        if self._task is not None and not self._task.done:
            self._task.cancel()
        seconds = self._door.loop.clock() - self._started
        up, down = (relay.up.bytes, relay.down.bytes) if relay is not None else (0, 0)
        self._door.jar.observer.flow_closed(flow, up, down, seconds, how)


def _unreadable(flow: Flow, refusal: Refuse) -> Verdict:
    return Verdict(Action.DENY, Reason.PROTOCOL_REFUSED, None, flow, f"{refusal.detail} ({refusal.fault})")
