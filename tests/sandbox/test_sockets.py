"""What a container engine has at run time is shown to no sandbox, under whatever name."""

import os
import socket
from pathlib import Path

import pytest

from belljar.sandbox.files.sockets import is_of_engine
from belljar.sandbox.files.userfiles import user_files
from belljar.sandbox.files.workdirs import ViewError, check_workdir
from belljar.sandbox.spec import Bind, SandboxSpec


@pytest.fixture
def listening(tmp_path, monkeypatch):
    """Make sockets in a runtime directory of one's own."""
    runtime = tmp_path / "runtime"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))

    def listen(name: str) -> Path:
        path: Path = runtime / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        return path

    return listen


def shown(path: Path) -> list[Bind]:
    binds = (Bind(path, Path("/shown"), writable=False),)
    return list(user_files(SandboxSpec(workdir=None, binds=binds), None).binds)


@pytest.mark.parametrize(
    "name",
    ["docker.sock", "docker/metrics.sock", "containerd/s/0", "dockerd-rootless/api.sock", "libpod/x", "crio/crio.sock"],
)
def test_an_engine_s_sockets_are_not_shown(listening, name):
    engine, other = listening(name), listening("tool.sock")
    for path in (engine, engine.parents[len(Path(name).parts) - 1]):
        with pytest.raises(ViewError, match=r"the socket of a container engine.*\n.*host_ports"):
            shown(path)
    assert [bind.source for bind in shown(other)] == [other]


@pytest.mark.parametrize("name", ["docker/metrics.sock", "podman/p.sock"])
def test_another_name_of_an_engine_s_socket_is_not_shown_either(listening, tmp_path, name):
    linked, other, tool = tmp_path / "tool.sock", tmp_path / "other.sock", listening("tool.sock")
    os.link(listening(name), linked)
    os.link(tool, other)
    assert is_of_engine(linked)
    assert not is_of_engine(other)
    assert not is_of_engine(tool)
    with pytest.raises(ViewError):
        shown(linked)


def test_what_holds_the_runtime_directory_of_engines_is_not_shown(listening):
    own = listening("tool.sock").parent
    for path in (Path("/"), Path("/run"), own, own.parent):
        with pytest.raises(ViewError, match="the socket of a container engine"):
            shown(path)


def test_nobody_works_in_an_engine_s_directory(listening):
    with pytest.raises(ViewError):
        check_workdir(listening("docker/metrics.sock").parent)


@pytest.mark.parametrize("path", ["/run/x\0y", f"/run/{'x' * 256}", "/nonexistent", "/dev/null/x"])
def test_what_cannot_be_looked_at_is_refused_with_the_reason(path):
    with pytest.raises(ViewError, match=r"cannot be shown inside: .+; check the path"):
        shown(Path(path))
