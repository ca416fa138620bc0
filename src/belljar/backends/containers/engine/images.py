"""Images: the one that an agent wants, and our own one that helpers run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import uname
from pathlib import Path
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine, EngineError
from belljar.backends.containers.engine.libpod import podman
from belljar.backends.interface import ImageMissingError, SpecError
from belljar.errors import printable
from belljar.sandbox.toolbox.model import Toolbox

_HELPERS: Final = "localhost/belljar-helper"
_NAME: Final = re.compile(r"[\w.:@+/-]+", re.ASCII)
"""More than a name can be, but nothing that means something else as a part of a path. Parts of dots alone do."""

_MOST_CHARACTERS: Final = 512
_PROCESSORS: Final = {"amd64": "x86_64", "arm64": "aarch64", "386": "i386"}
"""What engines call them, and what Linux does."""
_DESCRIPTIONS: Final = ("org.opencontainers.image.", "com.docker.official-images.")
"""What annotations begin with that describe an image."""


@dataclass(frozen=True, slots=True)
class Image:
    """What an image says of itself."""

    id: str
    user: str
    workdir: str
    environment: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]


def find_image(engine: Engine, name: str) -> Image:
    """Return an image that the engine has. Raises SpecError."""
    if (
        len(name) > _MOST_CHARACTERS
        or not _NAME.fullmatch(name)
        or not all(part.strip(".") for part in name.split("/"))
    ):
        raise SpecError(f"no image is called {name[:_MOST_CHARACTERS]}; `{engine.kind} image ls` lists those it has")
    for spelling in (name, f"localhost/{name}"):  # where Podman puts what was built here
        try:
            found = _read(engine.get(f"/images/{spelling}/json"))
        except EngineError as error:
            if error.status not in (400, 404):
                raise SpecError(f"{engine.kind} cannot use the image {name}: {error}") from error
        else:
            if engine.kind == "podman":
                _refuse_orders(engine, name, found)
            return found
    raise ImageMissingError(f"{engine.kind} has no image {name}; fetch or build it first: {engine.kind} pull {name}")


def _refuse_orders(engine: Engine, name: str, image: Image) -> None:
    """Refuse an image with annotations that are more than descriptions. Raises SpecError.

    Podman passes them on to the runtime as if its user had written them. One has crun take another system call filter.
    """
    annotations = podman(engine).get(f"/images/{image.id}/json").get("Annotations") or {}
    if orders := sorted(key for key in annotations if not key.startswith(_DESCRIPTIONS)):
        listed = printable(", ".join(orders))[:_MOST_CHARACTERS]
        raise SpecError(
            f"the image {name} has annotations that may be orders to Podman's runtime: {listed}\n"
            f"Take them away: podman save {name} | podman load"
        )


def ensure_helper(engine: Engine, toolbox: Toolbox) -> str:
    """Return our own image, which is made of the toolbox when an engine does not have it yet."""
    if (known := _helper(engine, toolbox)) is not None:
        return known
    with toolbox.one_at_a_time():  # of many who need it first, one makes it
        if (known := _helper(engine, toolbox)) is not None:
            return known
        made = import_image(engine, toolbox.image())
        engine.post(f"/images/{made}/tag", repo=_HELPERS, tag=toolbox.digest)
        return made


def _helper(engine: Engine, toolbox: Toolbox) -> str | None:
    try:
        return str(engine.get(f"/images/{_HELPERS}:{toolbox.digest}/json")["Id"])
    except EngineError as error:
        if error.status != 404:
            raise
    return None


def import_image(engine: Engine, archive: bytes) -> str:
    """Make an image of an archive of files; return its id."""
    told = engine.upload("/images/create", archive, method="POST", fromSrc="-")
    return str(told.get("id") or told["status"])


def _read(told: Mapping[str, Any]) -> Image:
    config = told.get("Config") or {}
    if told.get("Os", "linux") != "linux":
        raise SpecError(f"the image is for {printable(told['Os'])}, and sandboxes are Linux")
    if not _runs_here(architecture := told.get("Architecture") or ""):
        raise SpecError(
            f"the image is for processors of the kind {printable(architecture)}, and this machine has "
            f"{uname().machine}; fetch or build that for this one"
        )
    return Image(
        id=told["Id"],
        user=config.get("User") or "",
        workdir=config.get("WorkingDir") or "",
        environment=dict(_pair(entry) for entry in config.get("Env") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
    )


def _runs_here(architecture: str) -> bool:
    """Tell whether this machine runs programs for processors of a kind: its own, or one that it has an emulator for."""
    name = _PROCESSORS.get(architecture, architecture)
    return name in ("", uname().machine) or Path(f"/proc/sys/fs/binfmt_misc/qemu-{name}").exists()


def _pair(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name, value
