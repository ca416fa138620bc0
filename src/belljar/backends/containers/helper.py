"""What a helper container does: it arms the network namespace that it was put into, and passes the doors out.

It is the one program of Belljar's that runs with a capability there (NET_ADMIN, and NET_RAW to answer over
UDP), and it is gone before anything of the agent's runs. Its answer is the doors, or a sentence that says why there are
none.
"""

import socket
from typing import Final

from belljar.linux.descriptors import send_sockets
from belljar.sandbox.arming import arm_here

DOOR: Final = "/run/belljar/door/socket"
"""Where the helper meets who started it."""

OK: Final = b"ok"
"""What it says before it passes the doors out. Anything else says why there are none."""


def main() -> None:
    """Arm the namespace we are in."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.connect(DOOR)
        try:
            listeners = arm_here()
        except Exception as error:  # noqa: BLE001 - told to who started us, and raised there
            door.send(str(error).encode())
        else:
            door.send(OK)
            send_sockets(door, listeners.groups())
