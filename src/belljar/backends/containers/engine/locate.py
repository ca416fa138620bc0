"""Finding the engine of this machine, and telling what is wrong with it.

What a socket is called says little about who answers there: Podman answers at Docker's, too. So it is asked.
"""

import re
import shutil
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import Final

from belljar.backends.containers.engine.client import API, Engine, EngineError, EngineLostError
from belljar.backends.containers.engine.places import Kind, NoEngineError, Place, place
from belljar.linux.programs import DIRECTORIES

_PATIENCE: Final = 20.0
"""Seconds in which any engine says its version, even if it has to be started for that."""

_PROGRAMS: Final[Mapping[Kind, str]] = {"docker": "dockerd", "podman": "podman"}
_PACKAGES: Final[Mapping[Kind, str]] = {"docker": "docker.io", "podman": "podman"}
_LEAST_API: Final = tuple(map(int, API.removeprefix("/v").split(".")))
_LEAST_DOCKER: Final = (1, 41)
"""The first whose system call filters can say which error a call ends with; threads depend on that."""

_LEAST_PODMAN: Final = (4, 0)
_FORGETFUL_API: Final = (1, 52)
"""The first that comes with engines that refuse versions which they knew once."""


def find_engine(kind: Kind, environment: Mapping[str, str]) -> Engine:
    """Return the engine that this machine's own client would use. Raises NoEngineError."""
    where = place(kind, environment)
    headers, least = _greeting(kind, where, environment)
    if not _numbers(headers.get("Api-Version")):
        raise _stranger(kind, where, "it tells no version of the API")
    found: Kind = "podman" if "Libpod-Api-Version" in headers else "docker"
    if kind == "podman" and found == "docker":
        leave = f", or {where.elsewhere}" if where.elsewhere else ""
        raise NoEngineError(f"what answers at {where.path} is Docker, not Podman", f"Use --backend docker{leave}")
    _refuse_old(found, headers, where)
    # The oldest version is the one that all engines understand alike, until they understand it no more.
    return Engine(found, where.path, f"/v{'.'.join(map(str, max(_LEAST_API, least)))}")


def _greeting(kind: Kind, where: Place, environment: Mapping[str, str]) -> tuple[HTTPMessage, tuple[int, ...]]:
    """Return how an engine greets, and the oldest version that it speaks if we have to care."""
    engine = Engine(kind, where.path, api="", patience=_PATIENCE)  # everyone understands who names no version
    try:
        headers = engine.greet()
        if _numbers(headers.get("Api-Version")) < _FORGETFUL_API:
            return headers, _LEAST_API
        return headers, _numbers(engine.get("/version")["MinAPIVersion"])
    except EngineLostError as error:
        raise _lost(kind, where, environment, error.__cause__) from error
    except EngineError as error:
        raise _stranger(kind, where, f"it answers with {error.status}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _stranger(kind, where, "it does not tell which versions of the API it speaks") from error


def _refuse_old(kind: Kind, headers: HTTPMessage, where: Place) -> None:
    api = headers["Api-Version"]
    if kind == "docker" and _numbers(api) < _LEAST_DOCKER:
        why = f"it speaks version {api} of the API, and 1.41 (Docker 20.10) is the oldest that works"
    elif kind == "podman" and _numbers(headers["Libpod-Api-Version"]) < _LEAST_PODMAN:
        why = "Podman 4.0 is the oldest that works"
    else:
        return
    remedy = f"Install a newer one: sudo apt-get install {_PACKAGES[kind]}"
    raise NoEngineError(f"{headers.get('Server', kind)} at {where.path} is too old: {why}", remedy)


def _numbers(version: object) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", str(version or ""))[:2]))


def _lost(kind: Kind, where: Place, environment: Mapping[str, str], cause: BaseException | None) -> NoEngineError:
    match cause:
        case PermissionError():
            return _not_permitted(kind, where)
        case FileNotFoundError() | NotADirectoryError() if not where.named_by and not _is_installed(kind, environment):
            return NoEngineError(f"{kind} is not installed", f"Install it: sudo apt-get install {_PACKAGES[kind]}")
        case FileNotFoundError() | NotADirectoryError():
            return _not_running(kind, where, "there is nothing")
        case ConnectionRefusedError():
            return _not_running(kind, where, "nobody listens")
        case TimeoutError():
            return NoEngineError(
                f"{kind} does not answer at {where.path} within {_PATIENCE:.0f} seconds",
                _or_elsewhere(f"Start it anew: {_service(kind, where, 'restart')}", where),
            )
        case ConnectionError() | HTTPException():
            return _stranger(kind, where, "it does not speak HTTP")
        case _:
            culprit = f"{kind} cannot be reached at {where.path}{_as_named(where)}: {cause}"
            return NoEngineError(culprit, _or_elsewhere(f"Have a look: ls -lL {where.path}", where))


def _is_installed(kind: Kind, environment: Mapping[str, str]) -> bool:
    path = f"{environment.get('PATH', '')}:{DIRECTORIES}"  # nothing of it is run
    return shutil.which(_PROGRAMS[kind], path=path) is not None


def _not_permitted(kind: Kind, where: Place) -> NoEngineError:
    culprit = f"you may not use {kind}: {where.path} is closed to you{_as_named(where)}"
    if kind == "podman":
        return NoEngineError(culprit, _or_elsewhere("Use one of your own: systemctl --user start podman.socket", where))
    return NoEngineError(
        culprit,
        "Join its group: sudo usermod -aG docker $USER, and log in again; who is in that group is as good as root. "
        "Or use --backend podman, which takes no such right",
    )


def _not_running(kind: Kind, where: Place, finding: str) -> NoEngineError:
    culprit = f"{kind} is not running: {finding} at {where.path}{_as_named(where)}"
    by_hand = ", or podman system service --time=0 &" if kind == "podman" else ""
    return NoEngineError(culprit, _or_elsewhere(f"Start it: {_service(kind, where, 'start')}{by_hand}", where))


def _stranger(kind: Kind, where: Place, why: str) -> NoEngineError:
    culprit = f"what answers at {where.path}{_as_named(where)} is no container engine: {why}"
    remedy = f"See who it is: sudo ss -xlpn src {where.path}; start {kind} anew: {_service(kind, where, 'restart')}"
    return NoEngineError(culprit, _or_elsewhere(remedy, where))


def _service(kind: Kind, where: Place, verb: str) -> str:
    unit = "docker" if kind == "docker" else "podman.socket"
    return f"{'systemctl --user' if where.is_of_user else 'sudo systemctl'} {verb} {unit}"


def _as_named(where: Place) -> str:
    return f" (as {where.named_by} says)" if where.named_by else ""


def _or_elsewhere(remedy: str, where: Place) -> str:
    return f"{remedy}; or use the usual one: {where.elsewhere}" if where.elsewhere else remedy
