"""Every backend there is, by its name, and what it is good for.

Whoever lists backends, or does one thing or another by which it is, asks here. A backend is a package with a `plugin`
module; it is imported when it is asked for, and so are its parts when they are used. One of another distribution is
found by its entry point in the group `belljar.backends`, which leads to an object like those below.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from belljar.errors import BelljarError

if TYPE_CHECKING:
    from belljar.backends.attending import Outcome
    from belljar.backends.findings import MachineFinding
    from belljar.backends.interface import Backend
    from belljar.sandbox.network import NetworkAccess
    from belljar.sandbox.spec import Command, SandboxSpec

DEFAULT: Final = "local"

_OURS: Final = {
    "local": "belljar.backends.local.plugin:LOCAL",
    "docker": "belljar.backends.containers.plugin:DOCKER",
    "podman": "belljar.backends.containers.plugin:PODMAN",
}
_OTHERS: Final = "belljar.backends"

BUILT_IN: Final = tuple(_OURS)


class UnknownBackendError(BelljarError):
    """There is no such backend. Name another."""


class Plugin(Protocol):
    """A backend, before it is used."""

    name: str
    runs_images: bool
    """Whether its sandboxes are made of images. Otherwise they show this machine's own system."""

    trial: str
    """What makes the sandboxes that `belljar verify` tries: a module and, after a colon, a function of it that takes
    the environment and returns a `belljar.verify.trial.Maker`."""

    def open(self, state: Path, environment: Mapping[str, str]) -> "Backend":
        """Return the backend of a server, which keeps what is its own in a directory. Raises MachineError."""

    def findings(self, environment: Mapping[str, str]) -> "Iterator[MachineFinding]":
        """Look at what it needs of this machine."""


@runtime_checkable
class ForegroundRunner(Protocol):
    """A backend that has a way of its own to run one command in the foreground."""

    def run(
        self,
        spec: "SandboxSpec",
        command: "Command",
        network: "Callable[[], NetworkAccess] | None",
        *,
        timeout: float | None,
        after_entrypoint: bool,
    ) -> "Outcome":
        """Run a command in the foreground, to its end. Without `network` it has the one that the backend gives.

        What it is to have is asked of `network` while the sandbox is being made, or before. `after_entrypoint` tells
        whether an image's entry point runs it. Raises BelljarError, OSError.
        """


def names() -> list[str]:
    """Return the names of all backends, the default one first."""
    return [*_OURS, *(name for name in _entry_points() if name not in _OURS)]


def find(name: str) -> Plugin:
    """Return a backend. Raises UnknownBackendError."""
    if name in _OURS:
        return cast("Plugin", load(_OURS[name]))
    if (entry := _entry_points().get(name)) is None:
        raise UnknownBackendError(f'there is no backend "{name}"; use one of {", ".join(names())}')
    return cast("Plugin", entry.load())


def load(reference: str) -> Any:
    """Import something by its module and name."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes longer than all our own imports

    return {entry.name: entry for entry in entry_points(group=_OTHERS)}
