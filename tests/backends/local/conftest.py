import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.local.commands import USER, belljar
from tests.universe import Universe, addresses

ROOT = Path(__file__).parents[3]
PATIENCE = 60


class Cli:
    """The `belljar` command in the universe, as root or as an ordinary user."""

    def __init__(self, universe: Universe, workdir: Path, *, root: bool) -> None:
        self.universe, self.workdir, self._root = universe, workdir, root

    def command(self, *words: str) -> list[str]:
        return belljar(*words, root=self._root)

    def environment(self, **variables: str) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/home/somebody",
            "PYTHONPATH": f"{ROOT}",
            "BELLJAR_RESOLVER": addresses.RESOLVER,
            **variables,
        }

    def run(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return self.universe.gateway.call(
            subprocess.run,
            self.command("run", *words),
            cwd=self.workdir,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def start(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        def start() -> "subprocess.Popen[str]":
            return subprocess.Popen(
                self.command("run", *words), cwd=self.workdir, env=self.environment(), text=True, **options
            )

        return self.universe.gateway.call(start)


def make_cli(who: str, universe: Universe) -> Iterator[Cli]:
    """Have the command line of root, or of an ordinary user, with a working directory."""
    if who != "root" and os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    workdir = Path(tempfile.mkdtemp(prefix=f"belljar-test-{who}-", dir="/var/tmp"))
    workdir.chmod(0o755)  # pytest's own are closed to others
    if who != "root":
        os.chown(workdir, USER, USER)
    yield Cli(universe, workdir, root=who == "root")
    shutil.rmtree(workdir)


@pytest.fixture(params=["root", "user"])
def cli(request, universe):
    """The command line, once as root and once as an ordinary user."""
    yield from make_cli(request.param, universe)


@pytest.fixture
def own_cli(universe):
    """The command line as the user who runs the tests, for what does not depend on the user."""
    yield from make_cli("root", universe)


@pytest.fixture
def users_cli(universe):
    """The command line of an ordinary user, who may be the one that runs the tests."""
    yield from make_cli("user" if os.geteuid() == 0 else "root", universe)
