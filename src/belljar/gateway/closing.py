"""Close a sandbox: report what it has attempted so far, then end everything.

Theory of operation
-------------------
A program that exits leaves its last attempts behind: connections that wait in the kernel to be accepted, datagrams that
wait to be received, requests that no handler has read. Each of them has to be on record. So closing a sandbox does not
cancel its acceptors, handlers and DNS servers at once. It ends the live flows and replaces every way out (the dialler,
the forwarding of DNS questions) by one that leads nowhere, and then lets the tasks run until none has anything left to
do. Denials are reported as at any other time; a connection that the policy allows ends as a flow that was cut.

Tasks that wait for a descriptor are woken once, because events that epoll has not delivered yet are not waited for.

The sandbox may still be running, and could keep its gateway busy without end. So this takes at most `DRAIN_SECONDS` of
the sandbox's turns. Attempts that are left then are counted, and the number is reported as lost.
"""

import socket
import struct
from typing import Final

from belljar.gateway.flows import LiveFlow
from belljar.gateway.io.loop import Cancelled, Task
from belljar.gateway.io.streams import Stream
from belljar.gateway.sandbox import SandboxState

DRAIN_SECONDS: Final = 2.0
"""A full accept queue, 4096 connections, takes some 0.4 s."""

_ACCEPT_QUEUE: Final = struct.Struct("=24xI")  # tcpi_unacked in struct tcp_info; of a listener, its queue's length


class NoWayOut:
    """The dialler of a sandbox that is being closed: it cuts every flow before anything is dialled."""

    async def dial(self, _live: LiveFlow) -> Stream:
        """Cut a connection."""
        raise Cancelled

    async def open_datagram_socket(self, _live: LiveFlow, _version: int) -> socket.socket:
        """Cut a flow of datagrams."""
        raise Cancelled


def close(sandbox: SandboxState) -> Task:
    """Let nothing more out of a sandbox; return the task that reports its last attempts and ends everything."""
    loop = sandbox.loop
    sandbox.dialler = NoWayOut()
    loop.call_first_for(sandbox.owner, [*sandbox.flow_endings(), *sandbox.dns.stop_forwarding()])
    with loop.working_for(sandbox.owner):
        return loop.spawn(_close(sandbox))


async def _close(sandbox: SandboxState) -> None:
    try:
        await _drain(sandbox)
        _report_lost(sandbox)
    finally:
        endings = [*sandbox.flow_endings(), *(handler.cancel for handler in sandbox.handlers)]
        sandbox.close_listeners()
        sandbox.loop.call_first_for(sandbox.owner, endings)
        await sandbox.loop.give_way()


async def _drain(sandbox: SandboxState) -> None:
    """Let the sandbox's tasks run until none has anything left to do, or it takes too long."""
    loop, owner = sandbox.loop, sandbox.owner
    for source in (*sandbox.listeners, *sandbox.handlers.values()):
        loop.nudge(source)
    deadline = owner.used + DRAIN_SECONDS
    while owner.calls and owner.used < deadline:
        await loop.give_way()


def _report_lost(sandbox: SandboxState) -> None:
    listeners = sandbox.listeners
    streams = (*listeners.tcp, *listeners.http_proxy, *listeners.socks, *listeners.dns_tcp)
    unread = sum(map(_queued, streams)) + sum(not handler.has_begun for handler in sandbox.handlers)
    sandbox.observer.attempts_lost(unread)


def _queued(listener: socket.socket) -> int:
    """Return how many connections wait to be accepted from a listener."""
    length: int
    (length,) = _ACCEPT_QUEUE.unpack(listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACCEPT_QUEUE.size))
    return length
