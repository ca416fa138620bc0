"""Which hosts this machine's package tools are configured to use.

A preset such as ``python`` means whatever pip and uv would talk to *here*: a private mirror is covered like
the public index, and Belljar itself names no registry. Whatever a sandbox may have written is not asked.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from belljar.discovery.model import TOOLS, ToolHost, ToolNotFoundError

if TYPE_CHECKING:
    from belljar.discovery.asking import Machine

__all__ = ["TOOLS", "ToolHost", "ToolNotFoundError", "discover"]


def discover(tool: str, machine: "Machine | None" = None, *, exposed: Iterable[Path] = ()) -> tuple[ToolHost, ...]:
    """Ask one of TOOLS for its hosts: sorted, each host and port once. Safe to call from several threads.

    Sandboxes can write to the directories that are `exposed`. Raises ToolNotFoundError if the tool is absent, cannot
    be trusted, gives no usable answer or names no host.
    """
    # Imported here: asking needs subprocess, TOML and XML, and whoever wants the names only should not pay.
    from belljar.discovery.asking import Machine  # noqa: PLC0415
    from belljar.discovery.tools import ask  # noqa: PLC0415

    return ask(tool, machine or Machine(exposed=tuple(path.resolve() for path in exposed)))
