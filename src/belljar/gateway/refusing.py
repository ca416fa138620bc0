"""Turning a client away: in the protocol that it speaks, which it may have to show first."""

from typing import Final

from belljar.gateway.denials import say_goodbye
from belljar.gateway.door import Door
from belljar.gateway.firstbytes import FirstBytes, OtherClient, read_first_bytes
from belljar.gateway.fronts import TRANSPARENT, Front
from belljar.gateway.streams import Stream
from belljar.policy import Verdict

_LAST_WORDS_SECONDS: Final = 1.0
"""How long a client may take to show in which protocol it would like to be turned away."""


async def deny(
    door: Door, client: Stream, verdict: Verdict, said: FirstBytes | None = None, front: Front = TRANSPARENT
) -> None:
    """Deny a connection, and say so in the protocol that the client speaks."""
    door.jar.observer.flow_denied(verdict)
    if said is None and front is TRANSPARENT:
        said = await last_words(door, client)
    await end_with(door, client, front.denial(verdict, door.jar.generation, said))


async def last_words(door: Door, client: Stream) -> FirstBytes:
    """Read what a client says that is to be turned away."""
    return await first_bytes_within(door, client, _LAST_WORDS_SECONDS)


async def first_bytes_within(door: Door, client: Stream, seconds: float) -> FirstBytes:
    """Read what the client says first; one that takes too long, or has gone, says nothing that tells anything."""
    try:
        with door.loop.timeout(seconds):
            return await read_first_bytes(client)
    except OSError:
        return OtherClient(b"", ended=False)


async def end_with(door: Door, client: Stream, message: bytes) -> None:
    """Send a last message, or a reset where there is none."""
    if message:
        await say_goodbye(door.loop, client, message)
    else:
        client.reset()
