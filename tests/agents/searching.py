"""Looks for two texts in all that can be read in a sandbox, and writes down where each was found.

It is run inside, by an agent or after it: `python3 searching.py REPORT SINCE TEXT CONTROL`. What is looked for is
written backwards, so that nobody has it for having been told what to look for. Files that have not changed since the
text was made up cannot have it in them.
"""

import json
import os
import stat
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_THERE = 3 << 62
"""What an entry of a page map has of a page that is in memory, or swapped out."""

_OVERLAP = 100
_KERNELS = {"/proc", "/sys", "/dev"}


def main() -> None:
    report, since, *backwards = sys.argv[1:]
    wanted = [text[::-1].encode() for text in backwards]
    places: dict[str, list[str]] = {"text": [], "control": []}
    counts = {"files": 0, "processes": 0, "memories": 0}

    def note(place: object, kind: str, found: set[bytes] | None) -> None:
        counts[kind] += found is not None
        for name, text in zip(places, wanted, strict=True):
            places[name] += [str(place)] * (text in (found or ()))

    for path in _files(float(since)):
        note(path, "files", _in_file(path, wanted))
    for process in (path for path in Path("/proc").iterdir() if path.name.isdecimal()):
        for path in (process / "environ", process / "cmdline"):
            note(path, "processes", _in_file(path, wanted))
        if process.name != str(os.getpid()):  # our own has what we look for
            note(process / "mem", "memories", _in_memory(process, wanted))
    Path(report).write_text(json.dumps({**places, **counts}))


def _files(since: float) -> Iterator[Path]:
    for directory, names, files in os.walk("/"):
        names[:] = [name for name in names if f"{directory.rstrip('/')}/{name}" not in _KERNELS]
        for path in (Path(directory, name) for name in files):
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_ctime >= since:
                yield path


def _in_file(path: Path, wanted: list[bytes]) -> set[bytes] | None:
    """Return which texts are in a file; None if it cannot be read."""
    found, before = set[bytes](), b""
    try:
        with path.open("rb", buffering=0) as file:
            while data := file.read(_CHUNK):
                found |= {text for text in wanted if text in before + data}
                before = data[-_OVERLAP:]
    except OSError:
        return None
    return found


def _in_memory(process: Path, wanted: list[bytes]) -> set[bytes] | None:
    found, before = set[bytes](), b""
    try:
        pages, memory = (process / "pagemap").open("rb", buffering=0), (process / "mem").open("rb", buffering=0)
        with pages, memory:
            for start, size in _readable(process):
                if not _is_there(pages.fileno(), start, size):
                    continue
                try:
                    data = os.pread(memory.fileno(), size, start)
                except (OSError, OverflowError):
                    continue
                found |= {text for text in wanted if text in before + data}
                before = data[-_OVERLAP:]
    except OSError:
        return None
    return found


def _readable(process: Path) -> Iterator[tuple[int, int]]:
    for line in (process / "maps").read_text().splitlines():
        between, rights, *_ = line.split()
        first, last = (int(address, 16) for address in between.split("-"))
        if rights.startswith("r") and last < 1 << 63:
            yield from ((start, min(_CHUNK, last - start)) for start in range(first, last, _CHUNK))


def _is_there(pages: int, start: int, size: int) -> bool:
    """Tell whether any page of a part of memory has been used: programs set much more aside."""
    entries = os.pread(pages, size // _PAGE * 8, start // _PAGE * 8)
    return any(entry & _THERE for entry in array("Q", entries))


if __name__ == "__main__":
    main()
