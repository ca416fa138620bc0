"""One connection from its decision to its end: dial, look at what the client says, relay.

Theory of operation
-------------------
The upstream connection is made first, and unless the client has spoken by then, the server's bytes flow to it at once,
so that servers that speak first can. The client's own first bytes are held back until they have been read: a server
name in TLS or a Host in HTTP that differs from the name that was decided ends the connection, and nothing of it has
reached the server but, at most, a part of a line that no server can act on. The second hello of a TLS client is held to
the same, if the server asks for one (`retrying`). HTTP in plain text goes on request by request (`http`); everything
else is joined by a `Relay` and costs no coroutine any more.

From the first "yes" on, the flow is among the sandbox's live flows (`flows`), and a change of policy can cut it at any
time: by its addresses, too, as soon as they are known, and so before the first of them is dialled.
"""

from functools import partial
from typing import Final

from belljar.gateway.audit.events import Ending
from belljar.gateway.flows import Carried, DeniedError, LiveFlow
from belljar.gateway.io.loop import Cancelled, Task
from belljar.gateway.io.relay import Relay
from belljar.gateway.io.streams import Stream, describe
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.tcp.claims import claimed_by, claimed_by_request, unreadable
from belljar.gateway.tcp.denials import NOTHING_SAID, TRANSPARENT, Cause, Front, Unreachable, turn_away
from belljar.gateway.tcp.firstbytes import FirstBytes, FirstBytesReader, HttpClient, OtherClient, TlsClient
from belljar.gateway.tcp.http import AnyHead, HttpRelay
from belljar.gateway.tcp.retrying import read_second_hello, server_asks_for_retry
from belljar.policy import Verdict
from belljar.wire.outcome import Fault, Refuse

_HASTY: Final = Refuse(Fault.MALFORMED_TLS, "the client does not wait for the server to agree to TLS")


class TcpFlow(LiveFlow):
    """A connection that was allowed."""

    __slots__ = ("_client", "_front", "_http", "_relay", "_said", "_task", "_told_client")

    def __init__(self, sandbox: SandboxState, client: Stream, verdict: Verdict, front: Front = TRANSPARENT) -> None:
        self._client, self._front = client, front
        self._task: Task | None = sandbox.loop.current
        self._said: FirstBytes | None = None
        self._relay: Relay | None = None
        self._http: HttpRelay | None = None
        self._told_client = False
        """Whether the client has been told that it is connected."""
        super().__init__(sandbox, verdict)
        client.watch.on_error = partial(self.end, "closed")

    async def carry(self, said: FirstBytes | None = None) -> None:
        """Take the flow to its end. `said` is what the client has said already, if it was asked."""
        self._said = said
        try:
            try:
                relay = await self._connect()
                if said is not None:
                    unpassed = said.received
                else:
                    said, unpassed = await self._listen(relay)
                    self._said = said
                self.decide_again(claimed_by(self.flow, said))
                self.tell_allowed()
                if isinstance(said, TlsClient):
                    await self._run_tls(relay, said, unpassed)
                elif isinstance(said, HttpClient):
                    del unpassed  # the connection may be a long one
                    await self._run_http(relay, said)
                else:
                    await _pass_on(relay, unpassed)
                    self._join(relay, said)
            except DeniedError as denied:
                self.tell_denied(denied.verdict)
                await self._turn_away(denied.verdict, "denied")
            except OSError as error:
                await self._turn_away(Unreachable(self.flow, error), "failed")
        except Cancelled:
            self.end("cut")
        except BaseException:  # a bug: nothing stays open because of it
            self.end("failed")
            raise

    async def _connect(self) -> Relay:
        """Connect to the destination, and tell a client so that waits to hear it. Raises DeniedError and OSError."""
        sandbox = self.sandbox
        sandbox.admit_dial()
        try:
            with sandbox.loop.timeout(sandbox.limits.dial_seconds):
                upstream = await sandbox.dialler.dial(self)
        finally:
            sandbox.dial_ended()
        relay = self._relay = Relay(sandbox.loop, sandbox.pipes, self._client, upstream)
        relay.on_end = partial(self.end, "closed")
        if self._front.connected:
            await self._client.write(self._front.connected)
            self._told_client = True
        return relay

    @property
    def _leads_to_broker(self) -> bool:
        """Whether the other side is a broker: it never speaks first, and owes an answer to all that is asked."""
        return self.service is not None and self.service.is_broker

    async def _listen(self, relay: Relay) -> tuple[FirstBytes, bytes]:
        """Read what the client says first, and pass on what may be before it is complete; return what may not."""
        reader, client, sandbox = FirstBytesReader(), self._client, self.sandbox
        data = client.read_now()
        said = reader.feed(data) if data is not None else None
        if data is not None and client.kept is not None:
            client.kept.keep(data)
        if said is None and not self._leads_to_broker:  # it may wait for the server to speak first
            relay.down.start()
        while said is None and reader.is_harmless:
            await _pass_on(relay, reader.take())
            if reader.names_nobody:
                self._let_go()
            said = reader.feed(await client.read_to_keep())
        if said is None:  # half a sentence, which is held back, and so has to be complete before long
            with sandbox.handshake(), sandbox.loop.timeout(sandbox.limits.first_bytes_seconds):
                while said is None:
                    said = reader.feed(await client.read_to_keep())
        if relay.down.bytes < reader.answers_due:
            raise DeniedError(unreadable(self.flow, _HASTY))
        return said, reader.take()

    async def _run_http(self, relay: Relay, said: HttpClient) -> None:
        if relay.down.bytes or relay.down.finished:
            raise ConnectionResetError("a server that speaks first does not speak HTTP")
        relay.down.pause()
        self._http = HttpRelay(self.sandbox, relay, self._check_request, answer_is_owed=self._leads_to_broker)
        await self._http.run(said)

    async def _run_tls(self, relay: Relay, said: TlsClient, unpassed: bytes) -> None:
        """Pass on a hello, and the second one, if the server asks for it and it names nobody else."""
        loop = self.sandbox.loop
        relay.down.pause()
        await _pass_on(relay, unpassed.removesuffix(said.trailing))
        behind, said.received, said.trailing = said.trailing, b"", b""
        with loop.timeout(self.sandbox.limits.dial_seconds):
            if await server_asks_for_retry(loop, relay.upstream):
                relay.down.start()
                second = await read_second_hello(self._client, behind)
                self.decide_again(claimed_by(self.flow, second))
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
        self.decide_again(claimed_by_request(self.flow, head))

    async def _turn_away(self, cause: Cause, how: Ending) -> None:
        """End the flow because it is denied, now that more is known about it, or its destination is not to be had."""
        if isinstance(cause, Unreachable):
            self.failure = describe(cause.error)
        # Inside a tunnel, whoever was told of a gateway before speaks the inner protocol now.
        said, front = self._said, TRANSPARENT if self._told_client else self._front
        relay = self._relay
        if relay is not None:
            relay.on_end = _nothing
            relay.down.pause()
            relay.upstream.reset()
        if self.is_connected:  # nobody waits for words that would only tell the protocol
            said = said or NOTHING_SAID
        if relay is not None and self._is_in_the_middle(relay):
            self._client.reset()
        else:
            await turn_away(self.sandbox, self._client, cause, said, front)
        self.end(how)

    def _is_in_the_middle(self, relay: Relay) -> bool:
        """Tell whether the client has a part of what the server says, so that nothing can be put in its place."""
        return relay.down.bytes > 0 if self._http is None else self._http.is_answering

    def _release(self, how: Ending) -> None:
        relay = self._relay
        if relay is not None:
            relay.on_end = _nothing
            relay.abort()
            if how != "denied":  # a client that never said anything was allowed, too
                self.tell_allowed()
        self._client.reset()
        if self._task is not None and not self._task.done:
            self._task.cancel()

    def carried(self) -> Carried:
        """Return how many bytes have passed."""
        return Carried(self._relay.up.bytes, self._relay.down.bytes) if self._relay is not None else Carried()


async def _pass_on(relay: Relay, data: bytes) -> None:
    relay.up.bytes += len(data)
    await relay.upstream.write(data)


def _nothing() -> None:
    pass
