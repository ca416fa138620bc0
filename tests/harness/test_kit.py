"""The commands that agents submit with run wherever a sandbox runs, whatever that has, and whoever made them."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.interface import MachineError
from belljar.backends.local.backend import LocalBackend
from belljar.harness.kit import KIT_PLACE, PROGRAMS, Kit, open_kit
from belljar.harness.trials.policy import kit_binds
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.conformance import run, shell, started
from tests.engines import File, Link, busybox, make_image

ROOT = Path(__file__).parents[2]
SEARCH_PATH = f"{KIT_PLACE}/bin:/usr/bin:/bin"


@pytest.fixture
def place():
    """A directory of our own; pytest's are below one that is closed to others."""
    path = Path(tempfile.mkdtemp(prefix="belljar-kit-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def kit(place):
    before = os.umask(0o077)
    try:
        return open_kit(place / "cache")
    finally:
        os.umask(before)


@pytest.fixture
def local(place):
    with LocalBackend(place / "state") as backend:
        yield backend
        backend.destroy("jar")


def test_it_is_made_once(kit, place):
    made = kit.directory.stat().st_ctime_ns
    assert open_kit(place / "cache") == kit
    assert kit.directory.stat().st_ctime_ns == made


def test_everybody_can_read_it_and_nobody_else_write_it(kit):
    for path in (kit.directory, *kit.directory.rglob("*")):
        mode = path.stat().st_mode
        assert mode & 0o444 == 0o444, path
        assert not mode & 0o022, path
    for name in PROGRAMS:
        assert (kit.directory / "bin" / name).stat().st_mode & 0o111 == 0o111


def test_a_cache_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="no command to submit with: programs could not be gathered in"):
        open_kit(tmp_path / "file/cache")


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_in_a_local_sandbox(kit, local, name):
    environment = {"PATH": SEARCH_PATH, "LD_LIBRARY_PATH": "/not/there", "PYTHONHOME": "/not/there", "LANG": "xx_XX"}
    local.create("jar", SandboxSpec(binds=kit_binds(kit, runs_images=False), environment=environment)).close()
    done = run(local, "jar", name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: {name} [OPTION]\n")
    assert run(local, "jar", name, "--no-such-option").code == 2
    assert run(local, "jar", "sh", "-c", f"echo >>$(command -v {name})").code != 0


def test_it_submits_to_a_judge_that_has_a_name(kit, local):
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs Python in /usr/bin, for a judge in the sandbox")
    local.create("jar", SandboxSpec(binds=kit_binds(kit, runs_images=False), environment={"PATH": SEARCH_PATH})).close()
    shell(local, "jar", "mkdir src; echo 1 >src/ü")
    with started(local, "jar", "/usr/bin/python3", "-c", JUDGE) as judge:
        port = judge.read().decode().strip()
        environment = {"BELLJAR_JUDGE_URL": f"http://localhost:{port}", "BELLJAR_TOKEN": "token"}
        done = run(local, "jar", "belljar-submit", environment=environment)
        assert (done.code, done.err) == (0, "")
        assert "Submitting 1 files" in done.out
        assert "Score:       7" in done.out


@pytest.mark.long
@pytest.mark.parametrize("engine", ["docker_engine", "podman_engine"])
def test_it_runs_in_an_image_that_has_nothing_but_a_shell(request, kit, place, engine):
    engine = request.getfixturevalue(engine)
    files = {"bin/sh": Link("busybox"), "bin/busybox": busybox()["bin/busybox"], "etc/ld.so.preload": File(b"/x.so\n")}
    make_image(engine, "shell", files, {"User": "1234:1234"})
    with ContainerBackend(Engine(engine.kind, engine.socket), place / "state", place / "toolbox") as backend:
        spec = SandboxSpec(image="shell:latest", binds=kit_binds(kit, runs_images=True))
        backend.create("jar", spec).close()
        try:
            for name in PROGRAMS:
                done = run(backend, "jar", name, "--help")
                assert (done.code, done.err) == (0, "")
                assert done.out.startswith(f"Usage: {name} [OPTION]\n")
        finally:
            backend.destroy("jar")


@pytest.mark.long
def test_it_is_made_of_a_python_that_was_moved(place, local):
    """A virtual environment of one that is not where it was built for."""
    moved = place / "moved"
    ignored = shutil.ignore_patterns("test", "tests", "site-packages", "__pycache__", "idlelib", "*.a")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copytree(f"{sys.base_prefix}/lib/{version}", moved / "lib" / version, symlinks=True, ignore=ignored)
    (moved / "bin").mkdir()
    shutil.copy(os.path.realpath(f"{sys.base_prefix}/bin/{version}"), moved / "bin" / version)
    subprocess.run([moved / "bin" / version, "-m", "venv", "--without-pip", place / "venv"], check=True)
    packages = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    make = "import sys; from pathlib import Path; from belljar.harness.kit import open_kit; open_kit(Path(sys.argv[1]))"
    subprocess.run(
        [place / "venv/bin/python", "-c", make, place / "cache"],
        env={"PYTHONPATH": f"{ROOT}/src:{packages}", "PATH": "/usr/bin:/bin"},
        check=True,
    )
    made = next(path for path in (place / "cache").iterdir() if path.is_dir())
    assert str(moved) in (made / "bin/belljar-submit").read_text()
    shutil.rmtree(moved)
    local.create("jar", SandboxSpec(binds=kit_binds(Kit(made), runs_images=False))).close()
    done = run(local, "jar", f"{KIT_PLACE}/bin/belljar-submit")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("belljar-submit: BELLJAR_JUDGE_URL is not set; ")


JUDGE = """
import http.server, json
class Judge(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"submission_id": "agent-1"})
    def do_GET(self):
        self.answer({"status": "completed", "report": {"score": 7}})
    def answer(self, data):
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
server = http.server.HTTPServer(("127.0.0.1", 0), Judge)
print(server.server_port, flush=True)
server.serve_forever()
"""
