"""The toolbox: made of this machine's own programs, once, and again when they have changed."""

import shutil
import subprocess
import sys

import pytest

from belljar.backends.containers import toolbox as containers_toolbox
from belljar.backends.containers.toolbox import open_toolbox
from belljar.backends.interface import MachineError
from belljar.linux.programs import find
from belljar.sandbox.toolbox import making as toolboxes


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def toolbox(cache):
    return open_toolbox(cache)


def test_it_is_made_once(cache, toolbox, monkeypatch):
    monkeypatch.setattr(toolboxes, "_make", None)
    assert open_toolbox(cache) == toolbox


def test_wherever_it_is_made_it_is_the_same(toolbox, tmp_path):
    assert open_toolbox(tmp_path / "elsewhere").digest == toolbox.digest


def test_wherever_this_python_keeps_bytecode_it_is_the_same(toolbox, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", "/nowhere/that/can/be/written")
    assert open_toolbox(tmp_path / "elsewhere").digest == toolbox.digest


def test_it_is_made_again_when_a_source_has_changed(tmp_path, toolbox, cache, monkeypatch):
    shutil.copytree(cache, tmp_path / "cache", symlinks=True)
    sh = tmp_path / "sh"
    shutil.copyfile("/bin/sh", sh)
    sh.chmod(0o755)
    monkeypatch.setattr(toolboxes, "find", lambda name: str(sh) if name == "sh" else find(name))
    (tmp_path / "cache/toolbox.json").unlink()
    first = open_toolbox(tmp_path / "cache")
    with sh.open("ab") as file:
        file.write(b"\0")
    assert open_toolbox(tmp_path / "cache").digest != first.digest != toolbox.digest


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"toolbox": {"digest": "x"}, "sources": {}}'])
def test_what_another_version_wrote_is_no_obstacle(tmp_path, toolbox, monkeypatch, content):
    (tmp_path / "toolbox.json").write_bytes(content)
    monkeypatch.setattr(toolboxes, "_make", lambda *_: toolbox)
    assert open_toolbox(tmp_path) is toolbox, "it is made again"


def test_its_programs_need_nothing_of_the_system_they_run_in(toolbox, tmp_path, privileged):
    """They are run where there is nothing else, by the words that run them in a container."""
    toolbox = toolbox.hidden()
    shutil.copytree(toolbox.directory, tmp_path / toolbox.place[1:])
    for program, words, said in (
        (toolbox.programs["sh"], ("-c", "echo $((6*7))"), "42\n"),
        (toolbox.python, ("-I", "-S", "-c", "import os, socket; print(os.getcwd())"), "/\n"),
        (toolbox.programs["stty"], ("--version",), "stty"),
        (toolbox.programs["setsid"], ("--version",), "setsid"),
    ):
        inside = [find("chroot"), tmp_path, *toolbox.inside(program, *words)]
        done = subprocess.run(inside, capture_output=True, text=True, env={}, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(said)


def test_nothing_of_it_can_be_written_by_others(toolbox):
    for path in toolbox.directory.rglob("*"):
        assert not path.stat().st_mode & 0o022, path


def test_a_program_that_is_missing_is_named(tmp_path, monkeypatch):
    missing = containers_toolbox.CONTENTS._replace(programs={"no-such-program": "no-such-package"})
    monkeypatch.setattr(containers_toolbox, "CONTENTS", missing)
    with pytest.raises(MachineError, match=r"no-such-program is not installed\n.* apt-get install no-such-package"):
        open_toolbox(tmp_path)


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="could not be gathered"):
        open_toolbox(tmp_path / "file" / "cache")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
