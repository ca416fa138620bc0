"""The tools, and how each is asked."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from belljar.discovery import apt, go, java, node, python, rust
from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named, hosts_of
from belljar.discovery.model import ToolHost, ToolNotFoundError
from belljar.discovery.running import NoAnswerError


class _Tool(NamedTuple):
    ask: Callable[[Machine], Iterable[Named]]
    wanted: str
    """Completes: npm is not installed here, so … cannot be asked for."""
    source: str
    """Completes: no host is named in …"""


_APT = ("the apt sources", "the list of apt sources")
_TOOLS = {
    "python": _Tool(python.ask, "the package index", "the configuration of pip and uv"),
    "node": _Tool(node.ask, "its registry", "npm's configuration"),
    "debian": _Tool(partial(apt.ask, distribution="debian"), *_APT),
    "ubuntu": _Tool(partial(apt.ask, distribution="ubuntu"), *_APT),
    "rust": _Tool(rust.ask, "its registry", "cargo's configuration and cache"),
    "go": _Tool(go.ask, "its module proxy", "go's GOPROXY and GOSUMDB"),
    "java": _Tool(java.ask, "its repositories", "the configuration of Maven"),
}


def ask(tool: str, machine: Machine) -> tuple[ToolHost, ...]:
    """Ask one tool, as described in belljar.discovery."""
    asked = _TOOLS[tool]
    try:
        named = asked.ask(machine)
    except NoAnswerError as error:
        raise ToolNotFoundError(tool, f"{error}, so {asked.wanted} cannot be asked for") from None
    try:
        return hosts_of(named, asked.source)
    except NoAnswerError as error:
        raise ToolNotFoundError(tool, str(error)) from None
