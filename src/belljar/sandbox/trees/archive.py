"""What a tree's archive may hold, and a reader that takes nothing else.

The standard library's `tarfile` treats an archive that was cut off as complete, and reads an extended header of any
size into memory. An archive may come from an agent, so this reader accepts only complete archives of regular files,
directories and links, and bounds each header. What it refuses, such as sparse files and devices, it refuses with an
error: an entry that is skipped in silence would make two readers disagree about an archive.
"""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, Final

MAX_DEPTH: Final = 128
"""Directories above a file. Each takes two descriptors while it is read, and a process may have 1,024."""

_MAX_HEADER: Final = 1 << 20
"""Bytes of an extended header: a name and a link have 4 KiB each, and extended attributes up to 64 KiB."""

_MAX_DIGITS: Final = 20
"""Of a number in an extended header: Python refuses to read numbers of some thousand digits."""

_CHUNK: Final = 1 << 18
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_OTHERS: Final = (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)
_NAMES: Final = {tarfile.GNUTYPE_LONGNAME: b"path", tarfile.GNUTYPE_LONGLINK: b"linkpath"}
_EXTENDED: Final = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)


class TreeError(Exception):
    """A tree cannot be packed or unpacked. The text says why."""


def parts_of(name: str) -> list[str]:
    """Return the components of a relative path; none for the directory itself. Raises TreeError."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise TreeError(f"{name!a} is not the name of something below the directory")
    if len(parts) > MAX_DEPTH:
        raise TreeError(f"{'/'.join(parts[:4])}/… is nested deeper than {MAX_DEPTH} directories")
    return parts


class ArchiveReader:
    """Reads an uncompressed tar archive from a stream, in constant memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = 0
        """Bytes of the current entry's content that were not read yet."""
        self._padding = 0

    def entries(self) -> Iterator[tarfile.TarInfo]:
        """Yield the entries up to the archive's end, and read the stream to its own. Raises TreeError."""
        extended: dict[bytes, bytes] = {}
        while (header := self._header()) is not None:
            if header.type in _EXTENDED or header.type in _NAMES:
                found = self._extension(header)
                if extended.keys() & found.keys():
                    raise TreeError("the archive describes an entry twice")
                extended |= found
            elif header.type == tarfile.XGLTYPE:
                if self._extension(header).keys() & {b"path", b"linkpath", b"size"}:
                    raise TreeError("the archive has one description for all of its entries")
            else:
                self._apply(header, extended)
                extended = {}
                yield header
                for _ in self.content():
                    pass
        if extended:
            raise TreeError("the archive describes an entry that is missing")
        while self._stream.read(_CHUNK):
            pass

    def content(self) -> Iterator[bytes]:
        """Yield the content of the current entry in pieces, up to its end. Raises TreeError."""
        while self._left:
            piece = self._stream.read(min(_CHUNK, self._left))
            if not piece:
                raise TreeError("the archive ends before it is complete")
            self._left -= len(piece)
            yield piece
        self._read(self._padding)
        self._padding = 0

    def _header(self) -> tarfile.TarInfo | None:
        """Return the next header; None for the block that ends the archive."""
        try:
            header = tarfile.TarInfo.frombuf(self._read(tarfile.BLOCKSIZE), tarfile.ENCODING, "surrogateescape")
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # the stubs do not know it
            return None
        except tarfile.HeaderError as error:
            raise TreeError(f"this is no tar archive, or a damaged one: {error}") from None
        self._expect(header.size)
        return header

    def _expect(self, size: int) -> None:
        if size < 0:
            raise TreeError("the archive has an entry of a negative size")
        self._left, self._padding = size, -size % tarfile.BLOCKSIZE

    def _extension(self, header: tarfile.TarInfo) -> dict[bytes, bytes]:
        if header.size > _MAX_HEADER:
            raise TreeError(f"the archive has a header of {header.size} bytes; {_MAX_HEADER} is the most")
        content = b"".join(self.content())
        if header.type in _NAMES:
            return {_NAMES[header.type]: content.split(b"\0", 1)[0]}
        return _records(content)

    def _apply(self, header: tarfile.TarInfo, extended: dict[bytes, bytes]) -> None:
        """Complete a header with what was said before it."""
        if any(key.startswith(b"GNU.sparse.") for key in extended):
            raise TreeError(f"{header.name!a} is stored as a sparse file; pack it without that (tar without --sparse)")
        if b"path" in extended:
            header.name = _decoded(extended[b"path"])
        if b"linkpath" in extended:
            header.linkname = _decoded(extended[b"linkpath"])
        if b"size" in extended:
            if not extended[b"size"].isdigit() or len(extended[b"size"]) > _MAX_DIGITS:
                raise TreeError(f"{header.name!a} has no proper size in the archive")
            header.size = int(extended[b"size"])
            self._expect(header.size)
        if header.type not in _FILES and header.type not in _OTHERS:
            raise TreeError(f"{header.name!a} is neither a file nor a directory nor a link")
        if header.type in _OTHERS and header.size:
            raise TreeError(f"{header.name!a} is no file, but has content in the archive")

    def _read(self, size: int) -> bytes:
        content = self._stream.read(size)
        if len(content) < size:
            raise TreeError("the archive ends before it is complete")
        return content


def _records(content: bytes) -> dict[bytes, bytes]:
    """Return the records of a POSIX extended header: each is its length, a space, a key, `=`, a value, a newline."""
    records: dict[bytes, bytes] = {}
    while content.strip(b"\0"):
        digits, _, _ = content[:_MAX_DIGITS].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        key, found, value = content[len(digits) + 1 : length].partition(b"=")
        if not found or not value.endswith(b"\n") or length > len(content) or key in records:
            raise TreeError("the archive has an extended header that is damaged")
        records[key] = value[:-1]
        content = content[length:]
    return records


def _decoded(name: bytes) -> str:
    return name.decode(tarfile.ENCODING, "surrogateescape")
