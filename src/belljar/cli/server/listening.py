"""Addresses to listen on, as commands that serve take them."""

import socket

from belljar.errors import BelljarError, reason


def is_loopback(host: str) -> bool:
    """Tell whether a host can be reached from this machine alone. Raises BelljarError."""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError as error:
        raise BelljarError(f"--host: {host} has no address ({reason(error)}); name one of this machine's") from None
    return all(str(address[0]).startswith("127.") or address[0] == "::1" for *_, address in found)


def written(host: str) -> str:
    """Return a host as a URL has it."""
    return f"[{host}]" if ":" in host else host
