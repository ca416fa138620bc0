"""Read a tar archive that an agent has made, as a stream and within bounds.

Theory of operation
-------------------
The standard library's `tarfile` reads a pax header or a long name into memory whole, whatever size its header claims,
follows chains of them by recursion, and accepts what two readers understand differently. This reader takes one pass
over the bytes, holds at most one block and one bounded extension header, and raises on what it does not understand
exactly. It knows the formats that programs write: v7, ustar, pax and GNU, each of them alone or compressed by gzip.

Every byte that comes out of the decompressor is counted before anything else is done with it, so 10 GB of zeros in a
small file end the reading at the limit and not at the end of the file.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO, Final, NamedTuple

from belljar.errors import BelljarError, printable

_BLOCK: Final = 512
_CHUNK: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31  # zlib's number for "expect gzip's header and checksum"
_MAX_GZIP_MEMBERS: Final = 1000
_MAX_EXTENSION: Final = 1 << 16
_MAX_EXTENSIONS: Final = 8
"""Extension headers in front of one member. Programs write at most three: pax, a long name, a long link."""

_ZEROS: Final = bytes(_BLOCK)
_OCTAL: Final = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_PAX_RECORD: Final = re.compile(rb"(\d{1,5}) ([^=\0]+)=")


class ArchiveError(BelljarError):
    """The archive is refused whole. Make another one."""


class MemberKind(Enum):
    """What a member of an archive is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    HARD_LINK = "hard link"


_KINDS: Final = {
    b"0": MemberKind.FILE,
    b"\0": MemberKind.FILE,
    b"7": MemberKind.FILE,  # "contiguous", which no system has ever treated differently
    b"1": MemberKind.HARD_LINK,
    b"2": MemberKind.SYMLINK,
    b"5": MemberKind.DIRECTORY,
}
_REFUSED: Final = {
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"S": "a sparse file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """How large an archive may be."""

    compressed: int = 512 << 20
    """Bytes of the file."""

    unpacked: int = 2 << 30
    """Bytes of the archive inside it, with all headers."""

    members: int = 100_000
    path: int = 1024
    """Bytes of a member's name, and of what a link leads to."""


class ArchiveMember(NamedTuple):
    """One entry of an archive, as its headers describe it. Nothing about its name is checked."""

    name: bytes
    kind: MemberKind
    size: int
    executable: bool
    target: bytes


class _Stream:
    """The bytes of the archive, decompressed and counted."""

    def __init__(self, file: BinaryIO, limits: ArchiveLimits) -> None:
        self._file, self._limits = file, limits
        self._taken = self._given = self._members = 0
        self._buffer = b""
        head = self._raw()
        self._compressed = head.startswith(_GZIP)
        self._pending = head
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)

    def read(self, size: int) -> bytes:
        """Return this many bytes, or what is left before the end."""
        parts = [self._buffer[:size]]
        self._buffer = self._buffer[size:]
        missing = size - len(parts[0])
        while missing and (data := self._next()):
            parts.append(data[:missing])
            self._buffer = data[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def _next(self) -> bytes:
        data = self._inflate() if self._compressed else self._plain()
        self._given += len(data)
        if self._given > self._limits.unpacked:
            raise ArchiveError(
                f"the archive unpacks to more than {self._limits.unpacked >> 20} MB; submit less, or exclude what is "
                "not needed"
            )
        return data

    def _plain(self) -> bytes:
        data, self._pending = self._pending or self._raw(), b""
        return data

    def _inflate(self) -> bytes:
        while True:
            self._pending = self._pending or self._raw()
            if not self._pending and self._inflater.eof:
                return b""
            if not self._pending:
                raise ArchiveError("the archive is cut short: its compression does not end; send it again")
            if self._inflater.eof:
                self._begin_another()
            try:
                data = self._inflater.decompress(self._pending, _CHUNK)
            except zlib.error:
                raise ArchiveError("the archive is damaged: gzip cannot read it; send it again") from None
            self._pending = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            if data:
                return data

    def _begin_another(self) -> None:
        """Go on after the end of a gzip member: with another one, or with nothing."""
        self._pending += b"" if len(self._pending) > 1 else self._raw()
        if not self._pending.startswith(_GZIP):
            raise ArchiveError("something follows the end of the compressed archive; send the archive alone")
        self._members += 1
        if self._members >= _MAX_GZIP_MEMBERS:
            raise ArchiveError(f"the archive has more than {_MAX_GZIP_MEMBERS} gzip members; compress it once")
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)

    def _raw(self) -> bytes:
        data = self._file.read(_CHUNK)
        self._taken += len(data)
        if self._taken > self._limits.compressed:
            raise ArchiveError(
                f"the archive is larger than {self._limits.compressed >> 20} MB; submit less, or exclude what is not "
                "needed"
            )
        return data


@dataclass(slots=True)
class _Extensions:
    """What headers in front of a member say of it, each stronger than the member's own header."""

    count: int = 0
    name: bytes | None = None
    target: bytes | None = None
    size: int | None = None


class TarReader:
    """The members of an archive, one after the other. Methods raise ArchiveError."""

    def __init__(self, file: BinaryIO, limits: ArchiveLimits) -> None:
        self._limits, self._stream = limits, _Stream(file, limits)
        self._unread = self._padding = 0

    def members(self) -> Iterator[ArchiveMember]:
        """Yield every member. The content of a file can be read until the next one is asked for."""
        extensions, count = _Extensions(), 0
        while (block := self._header_block()) is not None:
            kind, size = block[156:157], _number(block[124:136], "a size")
            if kind in b"xgLK":
                self._extend(extensions, kind, size)
                continue
            count += 1
            if count > self._limits.members:
                raise ArchiveError(f"the archive has more than {self._limits.members} members; submit fewer files")
            member = self._member(block, kind, size, extensions)
            extensions = _Extensions()
            self._unread, self._padding = member.size, -member.size % _BLOCK
            yield member
            for _ in self.content():
                pass
        if extensions.count:
            raise ArchiveError("the archive ends in the middle of a member; send it again")

    def content(self) -> Iterator[bytes]:
        """Yield what is left of the content of the current member."""
        while self._unread:
            data = self._stream.read(min(self._unread, _CHUNK))
            if not data:
                raise _cut_short()
            self._unread -= len(data)
            yield data
        if self._padding:
            self._read(self._padding)
            self._padding = 0

    def _header_block(self) -> bytes | None:
        """Return the next header; None at the end of the archive, after which there are only zeros."""
        block = self._read(_BLOCK)
        if block == _ZEROS:
            while rest := self._stream.read(_CHUNK):
                if rest.count(0) != len(rest):
                    raise ArchiveError("something follows the end of the archive; make it anew in one go")
            return None
        stated = _number(block[148:156], "a checksum")
        if stated != sum(block[:148]) + sum(block[156:]) + 8 * ord(" "):
            raise ArchiveError("this is no tar archive, or it is damaged: a checksum is wrong; send a .tar or .tar.gz")
        return block

    def _member(self, block: bytes, kind: bytes, size: int, extensions: _Extensions) -> ArchiveMember:
        name = extensions.name if extensions.name is not None else _name(block)
        target = extensions.target if extensions.target is not None else block[157:257].partition(b"\0")[0]
        size = extensions.size if extensions.size is not None else size
        shown = show_name(name)
        if kind not in _KINDS:
            what = _REFUSED.get(kind, f"of an unknown type ({printable(kind.decode('latin-1'))})")
            raise ArchiveError(f"{shown} is {what}; leave it out")
        if len(name) > self._limits.path or len(target) > self._limits.path:
            raise ArchiveError(f"{shown} has a path of more than {self._limits.path} bytes; shorten it")
        found = _KINDS[kind]
        if kind in b"0\0" and name.endswith(b"/"):  # as the oldest programs write directories
            found = MemberKind.DIRECTORY
        if found is not MemberKind.FILE and size:
            # Some readers skip such content and others take it for the next header.
            raise ArchiveError(f"{shown} is a {found.value} that claims to have content; make the archive anew")
        return ArchiveMember(name, found, size, bool(_number(block[100:108], "a mode") & 0o111), target)

    def _extend(self, extensions: _Extensions, kind: bytes, size: int) -> None:
        extensions.count += 1
        if size > _MAX_EXTENSION or extensions.count > _MAX_EXTENSIONS:
            raise ArchiveError("a member has names or attributes that are too long; make the archive without them")
        data = self._read(size)
        self._read(-size % _BLOCK)
        if kind == b"L":
            extensions.name = data.removesuffix(b"\0")
        elif kind == b"K":
            extensions.target = data.removesuffix(b"\0")
        else:
            self._read_pax(extensions, data, is_global=kind == b"g")

    def _read_pax(self, extensions: _Extensions, data: bytes, *, is_global: bool) -> None:
        position = 0
        while position < len(data):
            match = _PAX_RECORD.match(data, position)
            end = position + int(match[1]) if match else 0
            if match is None or not match.end() < end <= len(data) or data[end - 1 : end] != b"\n":
                raise ArchiveError("a pax header of the archive is malformed; make the archive anew")
            key, value, position = match[2], data[match.end() : end - 1], end
            if key.startswith(b"GNU.sparse."):
                raise ArchiveError("the archive has a sparse file; make it without --sparse")
            if key not in (b"path", b"linkpath", b"size", b"hdrcharset"):
                continue
            if is_global or key == b"hdrcharset":
                raise ArchiveError(
                    f"the archive has a pax header that sets {key.decode()} in an unusual way; remove it"
                )
            if key == b"path":
                extensions.name = value
            elif key == b"linkpath":
                extensions.target = value
            elif value.isdigit() and len(value) <= 18:
                extensions.size = int(value)
            else:
                raise ArchiveError("a pax header of the archive has a size that is no number; make the archive anew")

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) != size:
            raise _cut_short()
        return data


def show_name(name: bytes) -> str:
    """Return a member's name for a message: short, and without what a terminal would obey."""
    text = printable(name[:200].decode("utf-8", "backslashreplace"))
    return f'"{text}"' if len(name) <= 200 else f'"{text}…"'


def _cut_short() -> ArchiveError:
    return ArchiveError("the archive is cut short, or is no tar archive; send a whole .tar or .tar.gz")


def _name(block: bytes) -> bytes:
    name, prefix = block[:100].partition(b"\0")[0], block[345:500].partition(b"\0")[0]
    return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name


def _number(field: bytes, what: str) -> int:
    if field[0] == 0x80:  # base 256, which GNU tar uses above 8 GB; 0xff would begin a negative number
        return int.from_bytes(field[1:], "big")
    match = _OCTAL.fullmatch(field)
    if match is None:
        raise ArchiveError(f"this is no tar archive, or it is damaged: {what} is no number; send a .tar or .tar.gz")
    return int(match[1] or b"0", 8)
