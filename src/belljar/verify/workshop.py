"""The directory that a sandbox works in while it is tried out, and whether it was left as it should be."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from belljar.verify.probes.host.planted import (
    ADDED,
    GIT_ADDED,
    GIT_MADE,
    GIT_NAMED,
    GIT_PLANTED,
    GIT_SAYS_NOTHING,
    HOME,
    KEYS,
    LINK_OUT,
    OWN_PLACE,
    PLANTED,
    POLICY_OF_THE_AGENT,
    REPOSITORY,
    REPOSITORY_HAS,
    TOOL,
    TOOLS,
    TOOLS_FIFO,
    TOOLS_SOCKET,
)

_BEFORE: Final = f"[core]\n\thooksPath = {GIT_NAMED}\n"
"""What planted files hold. Those that are git's settings name a directory of hooks that is not there."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """A working directory with everything that an agent could make bad use of."""

    directory: Path

    @property
    def workdir(self) -> Path:
        """What the sandbox sees."""
        return self.directory / "work"

    @property
    def repository(self) -> Path:
        """A repository that the sandbox is shown besides, writable."""
        return self.directory / "repository"

    @property
    def next_door(self) -> Path:
        """What another sandbox works in."""
        return self.directory / "next-door"

    @property
    def home(self) -> Path:
        """The home directory of whoever makes the sandbox: of its files, programs alone are seen inside."""
        return self.directory / HOME

    @property
    def audit(self) -> Path:
        """The log of the run, which it does not see."""
        return self.directory / "audit.ndjson"

    def furnish(self) -> None:
        """Put everything in its place."""
        planted = (*(self.workdir / place for place in PLANTED), *(self.repository / place for place in GIT_PLANTED))
        for path in (*planted, *(self.repository / place for place in REPOSITORY_HAS)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_BEFORE)
        (self.workdir / REPOSITORY).mkdir()
        (self.next_door / OWN_PLACE).mkdir(parents=True)
        outside = self.directory / "outside"
        outside.write_text("nobody inside reads this")
        (self.workdir / LINK_OUT).symlink_to(outside)
        (self.workdir / POLICY_OF_THE_AGENT).write_text('mode = "allow-all"\n')
        for place in (*KEYS, TOOL):
            path = self.home / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a key")

    @contextmanager
    def inhabited(self) -> Iterator[None]:
        """Have somebody wait at a socket and at a FIFO among the programs at home."""
        os.mkfifo(self.home / TOOLS_FIFO)
        fifo, tools = os.open(self.home / TOOLS_FIFO, os.O_RDWR), os.open(self.home / TOOLS, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(f"/proc/self/fd/{tools}/{Path(TOOLS_SOCKET).name}")  # the path may be too long
                listener.listen()
                for place in (TOOLS_SOCKET, TOOLS_FIFO):
                    (self.home / place).chmod(0o666)  # so that it is not for this reason that nobody gets through
                yield
        finally:
            os.close(fifo)
            os.close(tools)

    def changed(self) -> list[str]:
        """Return the files that the host would run, and that are not as they were."""
        added = [place for place in ADDED if os.path.lexists(self.workdir / place)]
        added += [place for place in GIT_ADDED if os.path.lexists(self.repository / place)]
        planted = [place for place in PLANTED if not self._holds(self.workdir / place, _BEFORE)]
        planted += [place for place in GIT_PLANTED if not self._holds(self.repository / place, _BEFORE)]
        made = [place for place in GIT_MADE if not self._holds(self.repository / place, GIT_SAYS_NOTHING)]
        return [*added, *planted, *made]

    def _holds(self, path: Path, text: str) -> bool:
        try:
            return path.read_text() == text
        except OSError:
            return False


@contextmanager
def workshop() -> Iterator[Workshop]:
    """Make a workshop, and clear it away at the end."""
    made = Workshop(Path(tempfile.mkdtemp(prefix="belljar-verify-")))
    try:
        made.furnish()
        with made.inhabited():
            yield made
    finally:
        shutil.rmtree(made.directory)
