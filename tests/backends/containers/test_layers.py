"""Which layers hold a container: told by `belljar inspect`, as the engine's user sees it, and by the backend itself."""

import json

import pytest

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.interface import PausedError
from belljar.sandbox.layers import LayerName
from belljar.sandbox.spec import Isolation, SandboxSpec
from tests.backends.containers.test_backend import place, toolboxes  # noqa: F401 - fixtures
from tests.control.operators import Operator
from tests.engines import BUSYBOX

pytestmark = pytest.mark.long

ALL = dict.fromkeys(map(str, LayerName), True)


@pytest.mark.parametrize("engine", ["docker_engine", "rootless_engine"], indirect=True)
def test_all_layers_are_active_but_for_the_user_namespace_of_an_engine_with_root_s_rights(engine, namespace):
    with Operator(engine, namespace) as operator:
        jar = operator.claim(BUSYBOX)
        told = json.loads(operator.belljar("inspect", jar, "--json"))
        table = operator.belljar("inspect", jar)
    layers = {layer["name"]: layer for layer in told["layers"]}
    assert (told["id"], told["status"], told["image"]) == (jar, "running", BUSYBOX)
    expected = ALL if engine.rootless else ALL | {"user_namespace": False}
    assert {name: layer["active"] for name, layer in layers.items()} == expected, json.dumps(layers, indent=1)
    assert bool(layers["user_namespace"]["remedy"]) is not engine.rootless
    assert [line.split()[1] for line in table.splitlines()[1:]].count("inactive") == (not engine.rootless)


@pytest.fixture
def backend(docker_engine, toolboxes, place):  # noqa: F811
    backend = ContainerBackend(Engine("docker", docker_engine.socket), place / "state", toolboxes)
    yield backend
    for found in backend.sandboxes():
        backend.destroy(found.sandbox)


def active(backend: ContainerBackend, jar: str) -> dict[str, bool | None]:
    return {str(layer.name): layer.active for layer in backend.look(jar)}


def test_a_sandbox_with_a_network_is_not_taken_for_a_sealed_one(backend):
    backend.create("jar", SandboxSpec(image=BUSYBOX, isolation=Isolation.NONE))
    unknown = dict.fromkeys(("firewall", "application", "dns"))
    assert active(backend, "jar") == ALL | unknown | {"network": False, "user_namespace": False}


def test_a_sandbox_whose_doors_nobody_serves_is_closed_all_the_same(backend):
    backend.create("jar", SandboxSpec(image=BUSYBOX)).close()
    inactive = dict.fromkeys(("application", "dns", "user_namespace"), False)
    assert active(backend, "jar") == ALL | inactive


def test_a_paused_sandbox_cannot_be_looked_into(backend):
    backend.create("jar", SandboxSpec(image=BUSYBOX)).close()
    backend.pause("jar")
    with pytest.raises(PausedError):
        backend.look("jar")
