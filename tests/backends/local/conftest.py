import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.backends.local.commands import USER, belljar
from tests.universe import Universe, addresses

ROOT = Path(__file__).parents[3]
PATIENCE = 60


ONE_IS_ENOUGH = {"test_host_code": "root", "test_terminal": "user"}
"""As whom the tests of a file are run of which little depends on it. As the other they are among the long ones."""


def pytest_collection_modifyitems(items):
    """Leave the rest for later."""
    for item in items:
        enough = ONE_IS_ENOUGH.get(item.path.stem)
        if enough and item.callspec.params.get("cli", enough) != enough:
            item.add_marker(pytest.mark.long)


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


@pytest.fixture(params=["root", "user"])
def cli(request, universe, tmp_path_factory):
    """The command line, once as root and once as an ordinary user."""
    root = request.param == "root"
    if not root and os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    workdir = Path(tempfile.mkdtemp(prefix=f"belljar-test-{request.param}-", dir="/var/tmp"))
    workdir.chmod(0o755)  # pytest's own are closed to others
    if not root:
        os.chown(workdir, USER, USER)
    yield Cli(universe, workdir, root=root)
    shutil.rmtree(workdir)
