"""`belljar run` on an engine: as root, who enters network namespaces, and as users who have helpers do that."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from belljar.linux import programs
from tests.engines import BUSYBOX, Engine, File, users
from tests.engines.images import Files
from tests.universe import Universe, addresses

PATIENCE = 60
NONE: Mapping[str, str] = {}
PIPES: Mapping[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)


class Cli:
    """The `belljar` command in the universe, with an engine that runs elsewhere."""

    def __init__(self, universe: Universe, engine: Engine, workdir: Path, cache: Path | None) -> None:
        """Be root, with a cache that is shared, or the engine's user."""
        self.universe, self.engine, self.workdir, self._cache = universe, engine, workdir, cache
        self.user = str(0 if cache else users.NUMBER)

    @property
    def runs(self) -> Path:
        """Where runs have what they need."""
        return (self._cache or self.engine.home / ".cache") / "belljar/runs"

    def words(self, *words: str, image: str = BUSYBOX, task: str = "run") -> list[str]:
        ours = [sys.executable, "-m", "belljar", task, "--backend", self.engine.kind, "--image", image, *words]
        return ours if self._cache else self.engine.as_user(*ours, workdir=self.workdir)

    def environment(self) -> dict[str, str]:
        return {
            **self.engine.environment,
            **({"HOME": "/home/somebody", "XDG_CACHE_HOME": str(self._cache)} if self._cache else {}),
            "DOCKER_HOST" if self.engine.kind == "docker" else "CONTAINER_HOST": self.engine.url,
            "BELLJAR_RESOLVER": addresses.RESOLVER,
        }

    def start(
        self, *words: str, image: str = BUSYBOX, task: str = "run", variables: Mapping[str, str] = NONE, **options: Any
    ) -> "subprocess.Popen[str]":
        argv, environment = self.words(*words, image=image, task=task), {**self.environment(), **variables}

        def start() -> "subprocess.Popen[str]":
            return subprocess.Popen(argv, cwd=self.workdir, env=environment, text=True, **options)

        return self.universe.gateway.call(start)

    def run(self, *words: str, stdin: str = "", **options: Any) -> "subprocess.CompletedProcess[str]":
        with self.start(*words, **PIPES, **options) as process:
            said = process.communicate(stdin, timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, *said)

    def give(self, place: Path) -> None:
        """Have files belong to who runs the command."""
        for path in (place, *place.rglob("*")):
            os.chown(path, int(self.user), int(self.user))

    def left(self) -> list[object]:
        """Return what is there of runs: containers, networks, volumes and files."""
        call = self.engine.api.call
        networks = [network["Name"] for network in call("GET", "/networks")]
        files = sorted(self.runs.iterdir()) if self.runs.exists() else []
        return [
            *(found["Names"] for found in call("GET", "/containers/json?all=true")),
            *(name for name in networks if name.startswith("belljar")),
            *(call("GET", "/volumes")["Volumes"] or []),
            *files,
        ]


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that comes by itself: engines take some things away in their own time."""
    given_up = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < given_up
        time.sleep(0.01)


def program(name: str) -> Files:
    """Return a program of the machine's for an image, with the loader and the libraries that it takes."""
    path = programs.find(name)
    needed = {path, *(word for word in programs.run("ldd", path).split() if word.startswith("/"))}
    return {found[1:]: File(Path(found).read_bytes(), 0o755) for found in needed}


@contextmanager
def open_cli(name: str, request: pytest.FixtureRequest, universe: Universe, cache: Path) -> Iterator[Cli]:
    """Have the command with a working directory; nothing of its runs is left."""
    engine = request.getfixturevalue("rootless_engine" if name == "rootless_podman" else "docker_engine")
    # Pytest's own directories are below one that is closed to others.
    workdir = Path(tempfile.mkdtemp(prefix="belljar-work-", dir="/var/tmp"))
    cli = Cli(universe, engine, workdir, cache if name == "docker_as_root" else None)
    cli.give(workdir)
    before = cli.left()
    try:
        yield cli
        until(lambda: all(found in before for found in cli.left()))
    finally:
        shutil.rmtree(workdir)


@pytest.fixture(scope="session")
def cache() -> Iterator[Path]:
    """Root's cache, for all engines: the toolbox takes a second to make."""
    path = Path(tempfile.mkdtemp(prefix="belljar-cache-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def docker_as_root(request, universe, cache):
    """Docker, used by root, who enters network namespaces."""
    with open_cli("docker_as_root", request, universe, cache) as cli:
        yield cli


@pytest.fixture
def docker_as_user(request, universe, cache):
    """Docker, used by somebody who is in its group, and has helpers do that."""
    with open_cli("docker_as_user", request, universe, cache) as cli:
        yield cli


@pytest.fixture
def rootless_podman(request, universe, cache):
    """A user's own Podman."""
    with open_cli("rootless_podman", request, universe, cache) as cli:
        yield cli


@pytest.fixture(params=["docker_as_root", "docker_as_user", "rootless_podman"])
def cli(request):
    """Each of them in turn."""
    return request.getfixturevalue(request.param)
