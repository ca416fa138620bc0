"""Where an engine's socket is said to be: by a variable, by a context of Docker's, or by custom.

Contexts are in files, and who can write these chooses the engine. So they have to be where Docker has them by custom,
and at a trusted place (`belljar.linux.files.trusted`): a variable may lead to a directory that an agent has written to.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from belljar.backends.interface import MachineError
from belljar.linux.files import usersfiles
from belljar.linux.files.trusted import UntrustedError

Kind = Literal["docker", "podman"]

_DOCKER: Final = Path("/var/run/docker.sock")
_UNIX: Final = "unix://"


class NoEngineError(MachineError):
    """There is no engine to make sandboxes with. The remedy is also there by itself, for a table."""

    def __init__(self, culprit: str, remedy: str) -> None:
        super().__init__(f"{culprit}\n{remedy}")
        self.culprit, self.remedy = culprit, remedy


class Place(NamedTuple):
    """A socket, and who named it."""

    path: Path

    named_by: str = ""
    """Nobody, if it is where the engine's own client would look."""

    elsewhere: str = ""
    """What leads back to where the engine's own client would look."""

    @property
    def is_of_user(self) -> bool:
        """Whether the engine is a service of a user, and not of the machine."""
        return self.path.is_relative_to("/run/user")


def place(kind: Kind, environment: Mapping[str, str]) -> Place:
    """Return where an engine should be. Raises NoEngineError."""
    variable = "DOCKER_HOST" if kind == "docker" else "CONTAINER_HOST"
    if host := environment.get(variable):
        return _named(host, variable, f"unset {variable}")
    return _docker(environment) if kind == "docker" else Place(_podman(environment))


def _docker(environment: Mapping[str, str]) -> Place:
    configuration = Path(environment.get("DOCKER_CONFIG") or f"{environment.get('HOME') or '/nonexistent'}/.docker")
    context, leave = environment.get("DOCKER_CONTEXT"), "unset DOCKER_CONTEXT"
    if not context:
        context, leave = _current_context(configuration / "config.json"), "docker context use default"
    if context and context != "default":
        return _named(_host_of(context, configuration, leave), f'the context "{context}"', leave)
    rootless = _runtime_directory(environment) / "docker.sock"
    return Place(rootless if _exists(rootless) and not _exists(_DOCKER) else _DOCKER)


def _podman(environment: Mapping[str, str]) -> Path:
    if os.geteuid() == 0:
        return Path("/run/podman/podman.sock")
    named = _runtime_directory(environment) / "podman/podman.sock"
    usual = _runtime_directory({}) / "podman/podman.sock"
    return usual if _exists(usual) and not _exists(named) else named


def _runtime_directory(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - pathlib's raises where we may not look, until Python 3.14


def _named(host: str, named_by: str, leave: str) -> Place:
    if not host.startswith(_UNIX):
        raise NoEngineError(
            f"{named_by} leads to {host}, and a sealed sandbox takes an engine on this machine, by its unix socket: "
            "the sandbox's doors are passed as descriptors",
            f"Use the engine of this machine: {leave}, or name a socket as unix:///path/of/it",
        )
    path = Path(host.removeprefix(_UNIX))
    if not path.is_absolute():
        raise NoEngineError(
            f"{named_by} leads to {host}, which is no absolute path", f"Write unix:///path/of/the/socket, or {leave}"
        )
    return Place(path, named_by, leave)


def _current_context(file: Path) -> str:
    if not _exists(file):
        return ""
    return str(_field(_read(file), file, "currentContext") or "")


def _host_of(context: str, configuration: Path, leave: str) -> str:
    file = configuration / "contexts/meta" / hashlib.sha256(context.encode()).hexdigest() / "meta.json"
    if not _exists(file):
        raise NoEngineError(
            f'Docker has no context "{context}" in {configuration}',
            f"`docker context ls` lists those that there are; for the engine of this machine: {leave}",
        )
    if host := _field(_read(file), file, "Endpoints", "docker", "Host"):
        return str(host)
    raise NoEngineError(f'the context "{context}" names no Docker engine ({file})', f"Use another: {leave}")


def _read(file: Path) -> Any:
    home = usersfiles.home()
    trust = usersfiles.trust_in([home / ".docker", home / ".config"] if home else [])
    try:
        return json.loads(trust.check(file.absolute()).read_text())
    except UntrustedError as error:
        raise NoEngineError(
            f"{error}, and it says which engine is used",
            "Name the engine's socket instead: DOCKER_HOST=unix:///path/of/it, or unset DOCKER_CONFIG",
        ) from None
    except OSError as error:
        raise NoEngineError(f"{file} cannot be read: {error.strerror}", f"Mend it: ls -l {file}") from error
    except ValueError as error:
        raise NoEngineError(f"{file} is no JSON: {error}", "Mend the file, or move it away") from error


def _field(document: Any, file: Path, *names: str) -> Any:
    for name in names:
        if not isinstance(document, dict):
            raise NoEngineError(f'{file} is not as Docker writes it, at "{name}"', "Mend the file, or move it away")
        document = document.get(name) or ({} if name != names[-1] else None)
    return document
