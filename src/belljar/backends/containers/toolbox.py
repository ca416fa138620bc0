"""The toolbox of containers, which is used twice.

As an image, it is what helper containers run. And it is shown inside every sandbox, read-only, at another place in each
that no image can know: an image that did could have a link or a volume on the way. So the first process of a container
is ours, and neither the image's loader nor its libraries have a part in it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from belljar.backends.interface import MachineError
from belljar.sandbox.files.ownplaces import caches
from belljar.sandbox.toolbox import making
from belljar.sandbox.toolbox.making import ToolboxError
from belljar.sandbox.toolbox.model import Toolbox, ToolboxContents

CONTENTS: Final = ToolboxContents(
    programs={
        "sh": "dash",
        "sleep": "coreutils",
        "stty": "coreutils",
        "setsid": "util-linux",
        "nft": "nftables",
    },
    modules=(
        "belljar.backends.containers.helper",
        "belljar.backends.containers.exec.files",
        "belljar.backends.containers.exec.monitor",
        "belljar.sandbox.looking",
        "belljar.sandbox.trees.program",
    ),
)


def default_cache(environment: Mapping[str, str]) -> Path:
    """Return where toolboxes of this user are kept."""
    return caches(environment) / "toolbox"


def open_toolbox(cache: Path) -> Toolbox:
    """Return the toolbox of this machine; make it if there is none, or an old one. Raises MachineError."""
    try:
        return making.open_toolbox(cache, CONTENTS)
    except ToolboxError as error:
        raise MachineError(f"containers cannot be sealed: {error}") from error
