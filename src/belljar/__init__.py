"""Belljar: sandboxes for AI agents that have no network, only the doors you open."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belljar.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the clients when they are asked for: every command imports this package, and few need them."""
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module 'belljar' has no attribute {name!r}")
    from belljar import client  # noqa: PLC0415 - see above

    return getattr(client, name)
