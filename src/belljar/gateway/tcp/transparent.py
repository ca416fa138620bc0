"""Connections that the sandbox makes as if there were a network: whom do they want, and may they?

The kernel inside the sandbox redirects every TCP connection to our listener; the address that was dialled tells what is
wanted. A *virtual* address stands for the name it was handed out for. A *real* address is decided as such; where the
policy does not grant it, the first bytes may name a granted domain, and then that name is resolved and dialled, not
the address.
"""

from belljar.gateway.io.loop import Cancelled
from belljar.gateway.io.origin import is_to, original_destination
from belljar.gateway.io.streams import Stream
from belljar.gateway.limits import LimitError
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.tcp.claims import named_host
from belljar.gateway.tcp.denials import NOTHING_SAID, deny, first_bytes_within
from belljar.gateway.tcp.firstbytes import FirstBytes
from belljar.gateway.tcp.flow import TcpFlow
from belljar.policy import Flow, Reason, Verdict


async def handle(sandbox: SandboxState, client: Stream) -> None:
    """Serve one redirected connection."""
    flow = _dialled(sandbox, client)
    if flow is None:
        sandbox.observer.limit_reached("direct_dial")
        client.reset()
        return
    verdict, said = sandbox.decide_new(flow), None
    if verdict.reason is Reason.NOT_ALLOWED_ADDRESS:
        verdict, said = await _identify(sandbox, client, verdict)
    if verdict.allowed:
        await TcpFlow(sandbox, client, verdict).carry(said)
    else:
        await deny(sandbox, client, verdict, said)


def _dialled(sandbox: SandboxState, client: Stream) -> Flow | None:
    """Return what was dialled; None for a connection that was not redirected, but made to the listener itself."""
    try:
        destination = original_destination(client.socket)
    except OSError:
        return None
    flow = sandbox.flow_to(*destination)
    if flow.name is None and is_to(client.socket, destination):  # no name has the listener's own address
        return None
    return flow


async def _identify(sandbox: SandboxState, client: Stream, verdict: Verdict) -> tuple[Verdict, FirstBytes]:
    """Listen to a client whose address is not granted; decide again if it says a name.

    A client that cannot be listened to has dialled an address that is denied, and that is reported.
    """
    try:
        with sandbox.handshake():
            said = await first_bytes_within(sandbox.loop, client, sandbox.limits.first_bytes_seconds)
    except LimitError:
        return verdict, NOTHING_SAID
    except Cancelled:
        sandbox.observer.flow_denied(verdict)
        raise
    if (claimed := named_host(said)) is not None:
        verdict = sandbox.decide_new(Flow(claimed, verdict.flow.port))
    return verdict, said
