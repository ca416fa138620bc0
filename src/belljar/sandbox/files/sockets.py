"""Unix sockets that no sandbox may reach: whoever can talk there commands this machine, or every sandbox on it."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from belljar.policy.services import Service, ServiceKind

_OF_SYSTEM: Final = (
    "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
    "/run/buildkit/buildkitd.sock", "/run/k3s/containerd/containerd.sock",
)  # fmt: skip
_OF_USER: Final = ("docker.sock", "podman/podman.sock")
_NAMES: Final = frozenset(Path(path).name for path in _OF_SYSTEM)


def engine_sockets() -> list[Path]:
    """Return where container engines listen, as far as that is usual: for the system, and for this user."""
    of_user = (f"/run/user/{os.getuid()}/{name}" for name in _OF_USER)
    return [Path(path).resolve() for path in (*_OF_SYSTEM, *of_user)]


def commanding(services: Iterable[Service], states: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the place in a policy, and what is wrong, for each service at the socket of an engine or a server.

    A server's state is a directory that only it writes to; its socket is there.
    """
    kept = [state.resolve() for state in states]
    for service in services:
        if service.kind is not ServiceKind.UNIX_SOCKET:
            continue
        path = Path(service.target).resolve()
        if any(map(path.is_relative_to, kept)):
            culprit = "a server's own directory, and who is let in there commands it"
        elif path.name in _NAMES or any(_is_same(path, engine) for engine in engine_sockets()):
            culprit = "the socket of a container engine, and whoever can talk to it has this machine"
        else:
            continue
        yield f"services.{service.name}.socket", f"{service.target} is {culprit}; lead it elsewhere"


def _is_same(path: Path, engine: Path) -> bool:
    """Tell whether two paths lead to one socket, by whatever name."""
    try:
        return path == engine or path.samefile(engine)
    except OSError:
        return False
