"""Archives of trees that no tool would write, but an agent may."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from belljar.sandbox.trees.archive import TreeError
from belljar.sandbox.trees.packing import pack
from belljar.sandbox.trees.unpacking import unpack


def archive(*entries: tuple[tarfile.TarInfo, bytes], **options: Any) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", **options) as file:
        for entry, content in entries:
            entry.size = entry.size or len(content)
            file.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def header(name: str, kind: bytes, content: bytes) -> bytes:
    """Return an extended header as it is stored."""
    return entry(name, kind, size=len(content)).tobuf() + content + bytes(-len(content) % 512)


def unpacked(tmp_path: Path, content: bytes) -> set[str]:
    unpack(str(tmp_path / "tree"), io.BytesIO(content))
    return {str(path.relative_to(tmp_path / "tree")) for path in (tmp_path / "tree").rglob("*")}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_links_of_every_format(tmp_path, form):
    name, target = f"{'d' * 150}/{'ü' * 100}", "x/" * 400
    sent = archive((entry(name), b"1"), (entry("link", tarfile.SYMTYPE, linkname=target), b""), format=form)
    assert name in unpacked(tmp_path, sent)
    assert str((tmp_path / "tree/link").readlink()) == target.rstrip("/")


def test_a_name_that_is_no_unicode(tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "first/b\udcff\udcfe").write_bytes(b"1")
    packed = io.BytesIO()
    pack(str(tmp_path / "first"), ["."], 1 << 20, packed)
    assert b"b\xff\xfe" in packed.getvalue()
    assert unpacked(tmp_path, packed.getvalue()) == {"b\udcff\udcfe"}


DAMAGED = {
    "two names for one entry": header("x", b"x", b"12 path=one\n") + header("x", b"L", b"two\0"),
    "a name for all entries": header("x", b"g", b"12 path=one\n"),
    "a record that is too long": header("x", b"x", b"99 path=one\n"),
    "a record without a length": header("x", b"x", b" path=one\n"),
    "a record that is there twice": header("x", b"x", b"12 path=one\n12 path=two\n"),
    "a size that is no number": header("x", b"x", b"11 size=-1\n"),
    "a size with very many digits": header("x", b"x", b"5017 size=" + b"9" * 5006 + b"\n"),
    "a sparse file": header("x", b"x", b"22 GNU.sparse.major=1\n"),
    "a directory with content": entry("x", tarfile.DIRTYPE, size=512).tobuf() + bytes(512),
    "a name that leads out": header("x", b"x", b"15 path=../out\n"),
    "a name with a NUL": header("x", b"x", b"12 path=a\0b\n"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_headers_that_two_readers_could_read_in_two_ways(tmp_path, what):
    with pytest.raises(TreeError):
        unpacked(tmp_path, DAMAGED[what] + archive((entry("file"), b"1")))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_description_of_nothing(tmp_path):
    with pytest.raises(TreeError):
        unpacked(tmp_path, header("x", b"x", b"12 path=one\n") + bytes(1024))


def test_a_header_that_would_fill_the_memory(tmp_path):
    class Endless(io.RawIOBase):
        """A header of a terabyte."""

        sent = entry("x", b"x", size=1 << 40).tobuf(tarfile.GNU_FORMAT)

        def readable(self):
            return True

        def readinto(self, buffer):
            count = min(len(buffer), len(self.sent) or len(buffer))
            buffer[:count] = self.sent[:count] or bytes(count)
            self.sent = self.sent[count:]
            return count

    with pytest.raises(TreeError, match="1099511627776 bytes"):
        unpack(str(tmp_path / "tree"), io.BufferedReader(Endless()))


def test_an_archive_that_is_cut_off_between_two_entries(tmp_path):
    with pytest.raises(TreeError, match="ends before it is complete"):
        unpacked(tmp_path, entry("file").tobuf())


def test_what_is_behind_the_end_is_read_and_ignored(tmp_path):
    stream = io.BytesIO(archive((entry("file"), b"")) + b"x" * 1_000_000)
    unpack(str(tmp_path / "tree"), stream)
    assert not stream.read()


def test_times_that_no_file_can_have(tmp_path):
    for when in (-5, 1 << 60):
        unpacked(tmp_path, archive((entry("file", mtime=when), b""), format=tarfile.GNU_FORMAT))
        assert (tmp_path / "tree/file").stat().st_mtime >= 0
