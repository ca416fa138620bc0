"""The container backend does what every backend does, on each engine.

It is tried by users who may do nothing but use the engine: one in the group docker, who has helpers arm containers, and
one with a rootless Podman.
"""

import os
import shutil
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.conformance import Sealed, put, shell, tree
from tests import engines, privileges
from tests.engines import Directory, File, Link, busybox, make_image

pytestmark = pytest.mark.long

GIVEN = "BELLJAR_TEST_ENGINE"
"""Names the engine to a run of this file by an ordinary user, as kind:socket."""

TELLING = (
    "doors or loopback or workdir_of or outlive or signal_ends or files_go or capability or paused_sandbox or terminal "
    "or variables or reaped or destroying or core_dump or tree or empty_directory"
)
"""What engines and runtimes do in ways of their own, and what depends on who asks them."""

ROOT = Path(__file__).parents[3]
AGENT = "belljar-agent:latest"
WORKING = "belljar-working:latest"
"""An image that names a directory to work in, and has something there."""

FILES = {
    **busybox(),
    "etc/shadow": File(b"secret", 0o600),
    "usr/bin": Directory(),
    "home/agent": Directory(0o777),
}


@pytest.fixture(scope="session")
def toolboxes():
    """Where the toolbox is, for all engines: it takes a second to make."""
    path = Path(tempfile.mkdtemp(prefix="belljar-toolbox-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def place():
    """A directory of our own; pytest's are below one that is closed to others."""
    path = Path(tempfile.mkdtemp(prefix="belljar-backend-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def make_images(engine: engines.Engine) -> None:
    make_image(engine, AGENT, FILES, {"User": "agent"})
    files = {**FILES, "work/file": File(b"1"), "link": Link("/usr")}
    make_image(engine, WORKING, files, {"User": "agent", "WorkingDir": "/work"})


class OnEngine(Sealed):
    spec = SandboxSpec(image=AGENT)
    spec_of_working = SandboxSpec(image=WORKING)

    @pytest.fixture
    def open_backend(self, engine, toolboxes, place):
        return lambda: ContainerBackend(engine, place / "state", toolboxes)

    @pytest.fixture
    def workdir(self, place):
        (place / "work").mkdir()
        return place / "work"

    def test_an_empty_directory_instead_of_the_images(self, backend):
        """Whatever the image has there."""
        backend.create("image", self.spec_of_working).close()
        assert shell(backend, "image", "pwd; echo *") == "/work\nfile\n"
        backend.create("jar", replace(self.spec_of_working, scratch=Path("/other"))).close()
        assert shell(backend, "jar", "pwd; echo *; touch new; ls") == "/other\n*\nnew\n"
        backend.create("same", replace(self.spec_of_working, scratch=Path("/work"))).close()
        assert shell(backend, "same", "pwd; echo *; touch new; ls") == "/work\n*\nnew\n"

    def test_a_tree_with_a_directory_of_another_user(self, backend, jar):
        """It is written to as its mode allows, and keeps that."""
        put(backend, jar, "/home", tree({"agent": {"type": tarfile.DIRTYPE, "mode": 0o700}, "agent/file": b"1"}))
        assert shell(backend, jar, "stat -c '%u %a' /home/agent; cat /home/agent/file") == "0 777\n1"

    def test_an_empty_directory_where_the_image_has_a_link(self, backend):
        backend.create("jar", replace(self.spec_of_working, scratch=Path("/link/new"))).close()
        assert shell(backend, "jar", "pwd; echo *; touch new; ls") == "/link/new\n*\nnew\n"


if GIVEN in os.environ:

    class TestAsUser(OnEngine):
        @pytest.fixture
        def engine(self):
            kind, _, socket = os.environ[GIVEN].partition(":")
            return Engine(kind, Path(socket))

else:
    if privileges.EVERY_ENGINE:

        class TestDocker(OnEngine):
            @pytest.fixture
            def engine(self, docker_engine):
                make_images(docker_engine)
                return Engine("docker", docker_engine.socket)

    @pytest.mark.parametrize("name", ["docker_engine", "rootless_engine"])
    def test_by_an_ordinary_user(request, name):
        engine = request.getfixturevalue(name)
        make_images(engine)
        given = f"{GIVEN}={engine.kind}:{engine.socket}"
        which = "test" if privileges.EVERY_ENGINE else TELLING
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", which, __file__]
        done = engine.run_as_user("env", given, *tests, workdir=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
