"""Files of the machine that a test replaces, in mounts of its own."""

from collections.abc import Mapping
from pathlib import Path


def make_layer(layer: Path, files: Mapping[str, str]) -> Path:
    """Write files into a new directory, which `cover` mounts over one of the machine's."""
    for name, content in files.items():
        path = layer / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return layer


def cover(directory: str, layer: str) -> str:
    """Return a line of a script that shows the files of a layer over those of a directory, which is read-only then.

    A mount over a single file would disappear as soon as the machine replaces that file by rename(2), as installing a
    package or adding a user does.
    """
    return f'mount -t overlay -o "lowerdir={layer}:{directory}" overlay {directory}\n'
