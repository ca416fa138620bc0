"""Images made offline: a layer of files and a configuration, in the archive that `docker save` writes."""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from functools import cache
from os import uname
from pathlib import Path
from typing import Any, NamedTuple

from belljar.linux import programs
from tests.engines.engine import Engine

BUSYBOX = "busybox:latest"


class File(NamedTuple):
    """A file in an image."""

    content: bytes = b""
    mode: int = 0o644


class Link(NamedTuple):
    """A symbolic link in an image."""

    target: str


class Directory(NamedTuple):
    """A directory in an image. Those on the way to a file need not be named."""

    mode: int = 0o755


Files = Mapping[str, File | Link | Directory]
"""By their paths, without a slash in front."""


def make_image(engine: Engine, name: str, files: Files, config: Mapping[str, Any] | None = None) -> str:
    """Give an engine an image, and return its name.

    The configuration has the names of the engine's API: Entrypoint, Cmd, Env, User, Volumes, WorkingDir, Healthcheck.
    """
    name = name if ":" in name else f"{name}:latest"
    engine.api.send("POST", "/images/load?quiet=true", _archive(name, _layer(files), dict(config or {})))
    return name


def busybox() -> Files:
    """Return the files of the busybox image: a static busybox under all its names, users, and a place for files.

    To reach a server there are `nc` and `nslookup`. Debian's `wget` crashes where there is no C library.
    """
    return _busybox()


@cache
def _busybox() -> dict[str, File | Link | Directory]:
    program = Path(programs.find("busybox"))
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return {
        "bin/busybox": File(program.read_bytes(), 0o755),
        **{f"bin/{name}": Link("busybox") for name in names if name != "busybox"},
        "etc/passwd": File(b"root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"),
        "etc/group": File(b"root:x:0:\nagent:x:1000:\n"),
        "root": Directory(0o700),
        "tmp": Directory(0o1777),
    }


def _layer(files: Files) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, entry in sorted(files.items()):
            tar.addfile(*_member(path, entry))
    return packed.getvalue()


def _member(path: str, entry: File | Link | Directory) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    info = tarfile.TarInfo(path)
    if isinstance(entry, Link):
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        return info, None
    info.mode = entry.mode
    if isinstance(entry, Directory):
        info.type = tarfile.DIRTYPE
        return info, None
    info.size = len(entry.content)
    return info, io.BytesIO(entry.content)


def _archive(name: str, layer: bytes, config: dict[str, Any]) -> bytes:
    image = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(uname().machine, uname().machine),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    described = json.dumps(image).encode()
    file = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [{"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _layer(
        {
            file: File(described),
            "layer.tar": File(layer),
            "manifest.json": File(json.dumps(manifest).encode()),
        }
    )
