"""What a container is never shown."""

from pathlib import Path

import pytest

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.interface import SpecError
from belljar.sandbox.spec import Bind, SandboxSpec
from tests.engines import BUSYBOX


@pytest.fixture
def backend(docker_engine, tmp_path):
    (tmp_path / "home").mkdir()
    return ContainerBackend(Engine("docker", docker_engine.socket), tmp_path / "home/state", tmp_path / "home/cache")


@pytest.mark.parametrize("place", ["home", "home/state", "home/cache", "home/state/sandboxes"])
def test_what_sandboxes_are_made_of(backend, tmp_path, place):
    shown = tmp_path / place
    for wanted in (
        SandboxSpec(image=BUSYBOX, workdir=shown),
        SandboxSpec(image=BUSYBOX, binds=(Bind(shown, Path("/shown"), writable=True),)),
    ):
        with pytest.raises(SpecError, match="what all sandboxes are made of"):
            backend.create("jar", wanted)
    assert backend.sandboxes() == []
