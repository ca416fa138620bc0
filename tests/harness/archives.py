"""Archives as agents make them, honest ones and others."""

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any


def member(name: str, content: bytes | None = None, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive: a file if it has content, or else what its fields say."""
    info = tarfile.TarInfo(name)
    info.size = len(content or b"")
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content or b""


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def directory(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE)


def packed(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    """The bytes of an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> Path:
    """A compressed archive in a file."""
    path.write_bytes(gzip.compress(packed(*members, form=form), 1))
    return path


def files(path: Path, **contents: str) -> Path:
    """A compressed archive of Python modules, by their names."""
    return archive(path, *(member(f"{name}.py", content.encode()) for name, content in contents.items()))
