"""Which layers hold a sandbox, by API."""

import pytest

from belljar.sandbox.layers import LayerName


def test_of_a_backend_that_cannot_look_nothing_is_known(server, jar):
    layers = server.client.get(server.path(jar, "/layers")).json()["layers"]
    assert [layer["name"] for layer in layers] == list(map(str, LayerName))
    assert {layer["active"] for layer in layers} == {None}
    assert "memory" in layers[0]["evidence"]


@pytest.mark.parametrize("mode", ["block-all", "allow-all"])
def test_all_layers_of_a_local_sandbox_are_active_and_nothing_leaves_it_to_find_out(machine, universe, mode):
    jar = machine.sandbox({"mode": mode, "allow_private": mode == "allow-all"})
    layers = machine.call("GET", f"/sandboxes/{jar}/layers")["layers"]
    assert [(layer["name"], layer["active"]) for layer in layers] == [(str(name), True) for name in LayerName], layers
    assert not universe.wire.contacts()


def test_want_of_memory_in_a_local_sandbox_is_told_as_such(machine):
    jar = machine.sandbox(limits={"memory_bytes": 64 << 20})
    assert machine.run(jar, "true")["out_of_memory"] is False
    hog = machine.run(jar, "python3", "-c", "x = bytearray(1 << 30)")
    assert (hog["exit_code"], hog["out_of_memory"]) == (137, True)
