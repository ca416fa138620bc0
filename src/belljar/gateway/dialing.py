"""From a decision to a connection: resolve, check every address, dial one of those that were checked.

The name is resolved here and nowhere else, the policy is asked again with what it resolved to, and an address that
passed is what is dialled. Nothing that the client said about addresses plays a part, so there is nothing to rebind.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from belljar.gateway.jar import Jar
from belljar.gateway.loop import Loop, Task
from belljar.gateway.resolver import Resolver
from belljar.gateway.streams import Stream, connect
from belljar.names import Address
from belljar.policy import Flow, Verdict
from belljar.policy.reserved import HOST_NAMES

HEAD_START: Final = 0.25
"""Seconds before the next address is tried beside one that has not answered (RFC 8305)."""

_HOST_ADDRESSES: Final = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class DeniedError(Exception):
    """The policy does not allow the flow, now that more is known about it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict


class Dialler:
    """Opens connections for flows that the policy allows."""

    def __init__(self, loop: Loop, resolver: Resolver) -> None:
        self._loop = loop
        self._resolver = resolver

    async def dial(self, jar: Jar, flow: Flow) -> tuple[Flow, Stream]:
        """Return the flow with its addresses, and a connection to one of them. Raises DeniedError or OSError."""
        port = flow.port
        if port is None:
            raise ValueError("a flow without a port cannot be dialled")
        if flow.name in HOST_NAMES:
            return flow, await self.connect_any(_HOST_ADDRESSES, port)
        started = self._loop.clock()
        if flow.name is not None:
            if not jar.admits_name(jar.decide(flow)):
                raise OSError(f"too many names were asked for beside {flow.name}")
            flow = replace(flow, addresses=(await self._resolver.resolve(flow.name)).addresses)
        resolved = self._loop.clock()
        jar.observer.took("resolve", resolved - started)
        verdict = jar.decide(flow)
        if not verdict.allowed:
            raise DeniedError(verdict)
        stream = await self.connect_any(flow.addresses, port)
        jar.observer.took("dial", self._loop.clock() - resolved)
        return flow, stream

    async def connect_any(self, addresses: Sequence[Address], port: int) -> Stream:
        """Connect to whichever address answers first, each with a head start over the next. Raises OSError."""
        candidates = _interleave(addresses)
        if len(candidates) == 1:
            return await connect(self._loop, candidates[0], port)
        attempt = _Race(self._loop, candidates, port)
        try:
            return await attempt.winner()
        finally:
            attempt.abandon()


class _Race:
    """Connection attempts to several addresses of one destination."""

    def __init__(self, loop: Loop, candidates: Sequence[Address], port: int) -> None:
        self._loop, self._port = loop, port
        self._waiting = list(reversed(candidates))
        self._running: list[Task] = []
        self._won: Stream | None = None
        self._error: OSError = OSError("the name has no addresses")

    async def winner(self) -> Stream:
        while self._waiting or self._running:
            if self._waiting:
                self._running.append(self._loop.spawn(connect(self._loop, self._waiting.pop(), self._port)))
            await self._news(HEAD_START if self._waiting else None)
            if (stream := self._collect()) is not None:
                self._won = stream
                return stream
        raise self._error

    async def _news(self, seconds: float | None) -> None:
        """Wait until an attempt has ended or the head start is over."""

        def arrange(wake: Callable[[], None]) -> Callable[[], None]:
            told = False

            def tell() -> None:
                nonlocal told
                if not told:
                    told = True
                    wake()

            for task in self._running:
                task.when_done(tell)
            timer = self._loop.call_later(seconds, tell) if seconds is not None else None

            def undo() -> None:
                nonlocal told
                told = True
                if timer is not None:
                    timer.cancel()

            return undo

        if not any(task.done for task in self._running):
            await self._loop.wait_for(arrange)

    def _collect(self) -> Stream | None:
        for task in [task for task in self._running if task.done]:
            if task.error is None:
                self._running.remove(task)
                return task.result  # type: ignore[no-any-return]
            self._running.remove(task)
            if not isinstance(task.error, OSError):
                raise task.error
            self._error = task.error
        return None

    def abandon(self) -> None:
        """End the attempts that have not won."""
        for task in self._running:
            if task.done:
                _close_result(task)
            else:  # it may still win its own race in this turn of the loop
                task.when_done(partial(_close_result, task))
                task.cancel()


def _close_result(task: Task) -> None:
    if task.result is not None:
        task.result.close()


def _interleave(addresses: Sequence[Address]) -> list[Address]:
    """Order addresses for dialling: families in turn, IPv6 first."""
    six: list[Address] = [address for address in addresses if address.version == 6]
    four: list[Address] = [address for address in addresses if address.version == 4]
    ordered: list[Address] = []
    for index in range(max(len(six), len(four))):
        ordered += six[index : index + 1] + four[index : index + 1]
    return ordered
