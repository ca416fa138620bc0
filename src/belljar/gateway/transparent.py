"""Connections that the sandbox makes as if there were a network: whom do they want, and may they?

The kernel inside the sandbox redirects every TCP connection to our listener; the address that was dialled tells what is
wanted. A *virtual* address stands for the name it was handed out for. A *real* address is decided as such; where the
policy does not grant it, the first bytes may name a granted domain, and then that name is resolved and dialled, not
the address.
"""

from belljar.gateway.carrying import carry
from belljar.gateway.claims import named_host
from belljar.gateway.door import Door
from belljar.gateway.firstbytes import FirstBytes
from belljar.gateway.origin import is_to, original_destination
from belljar.gateway.refusing import deny, first_bytes_within
from belljar.gateway.streams import Stream
from belljar.policy import Flow, Reason, Verdict


async def handle(door: Door, client: Stream) -> None:
    """Serve one redirected connection."""
    dialled = _dialled(door, client)
    if dialled is None:
        door.jar.observer.limit_reached("direct_dial")
        client.reset()
        return
    flow, verdict, said = await _identify(door, client, dialled)
    if verdict.allowed:
        await carry(door, client, flow, said)
    else:
        await deny(door, client, verdict, said)


def _dialled(door: Door, client: Stream) -> Flow | None:
    """Return what was dialled; None for a connection that was not redirected, but made to the listener itself."""
    try:
        destination = original_destination(client.socket)
    except OSError:
        return None
    flow = door.flow_to(*destination)
    if flow.name is None and is_to(client.socket, destination):  # no name has the listener's own address
        return None
    return flow


async def _identify(door: Door, client: Stream, flow: Flow) -> tuple[Flow, Verdict, FirstBytes | None]:
    verdict = door.decide(flow)
    if verdict.reason is not Reason.NOT_ALLOWED_ADDRESS:
        return flow, verdict, None
    with door.jar.handshake():
        said = await first_bytes_within(door, client, door.jar.limits.first_bytes_seconds)
    if (claimed := named_host(said)) is not None:
        flow = Flow(claimed, flow.port)
        verdict = door.decide(flow)
    return flow, verdict, said
