"""The home of whoever made the sandbox, and the keys in it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from belljar.verify.probes.host.planted import HOME, KEYS, TOOL
from belljar.verify.probes.kit import Finding, Mark, inside

_ROOT: Final = Path("/")


@inside(59, "homes", "keys and settings in the home directories of whoever made the sandbox")
def homes(mark: Mark) -> Finding:
    planted = Path.cwd().parent / HOME
    ways = (Path.cwd(), Path(sys.base_prefix), Path(sys.executable))
    others = [Path(home) for home in mark.scene.homes if Path(home) != _ROOT]
    seen = [key for key in (planted / place for place in KEYS) if _can_be_read(key)]
    seen += [entry for home in others for entry in _hidden_in(home) if entry not in _above(ways)]
    if seen:
        return Finding(holds=False, evidence=f"there is: {', '.join(map(str, seen[:8]))}")
    tools = "the tools in it" if _can_be_read(planted / TOOL) else "nothing"
    return Finding(holds=True, evidence=f"{tools} can be seen, and none of {len(KEYS)} keys")


def _can_be_read(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def _hidden_in(home: Path) -> Iterator[Path]:
    """Yield what tools keep for themselves in a home, by its name."""
    try:
        yield from (entry for entry in home.iterdir() if entry.name.startswith("."))
    except OSError:
        return


def _above(places: tuple[Path, ...]) -> set[Path]:
    """Return all directories on the way to some places."""
    return {above for place in places for above in (place, *place.parents)}
