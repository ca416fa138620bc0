"""Network interfaces of the namespace that the calling thread is in."""

import fcntl
import socket
import struct
from typing import Final

_SIOCGIFFLAGS: Final = 0x8913
_IFF_UP: Final = 0x1


def others_up() -> list[str]:
    """Return the interfaces beside loopback that are up: ways out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        return [name for _, name in socket.if_nameindex() if name != "lo" and _is_up(asking, name)]


def _is_up(asking: socket.socket, name: str) -> bool:
    answer = fcntl.ioctl(asking, _SIOCGIFFLAGS, struct.pack("16sH14x", name.encode(), 0))
    return bool(struct.unpack_from("16xH", answer)[0] & _IFF_UP)
