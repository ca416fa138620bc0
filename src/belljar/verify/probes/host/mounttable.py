"""What the kernel says is mounted, for whoever asks: inside, and outside to compare."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
"""How the kernel writes spaces in paths."""


class Mount(NamedTuple):
    """One line of the kernel's table."""

    device: str
    root: str
    """Which part of the file system it is."""

    place: Path
    options: frozenset[str]
    kind: str

    @property
    def is_writable(self) -> bool:
        """Whether it is not read-only."""
        return "rw" in self.options

    @property
    def is_for_work(self) -> bool:
        """Whether it is the working directory, or in that."""
        return self.place.is_relative_to(Path.cwd())


def mounted() -> Iterator[Mount]:
    """Yield what this process sees."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        device, root, place, options, *rest = line.split()[2:]
        yield Mount(
            device,
            root,
            Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), place)),
            frozenset(options.split(",")),
            rest[rest.index("-") + 1],
        )
