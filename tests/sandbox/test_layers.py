"""What is told of the layers of a sandbox, from what was seen of it."""

from dataclasses import replace
from typing import Any

import pytest

from belljar.sandbox.layers import LayerName, Observations, layers

NONE = "0000000000000000"
PROCESS: dict[str, Any] = {
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), NONE),
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "users": [[0, 100000, 65536]],
}
NETWORK: dict[str, Any] = {
    "ways_out": [],
    "tcp": [{"led_elsewhere": True, "said": "reserved_address"}] * 2,
    "udp": [{"refused": True, "said": "Operation not permitted"}] * 2,
    "dns": [{"answered": True, "said": "reserved_name"}] * 2,
}
SEEN = Observations({"its first process": PROCESS, "a command": PROCESS}, NETWORK, has_own_network=True)


def network(**changes: Any) -> Observations:
    return replace(SEEN, network={**NETWORK, **changes})


def command(**changes: Any) -> Observations:
    return replace(SEEN, processes={**SEEN.processes, "a command": {**PROCESS, **changes}})


def active(seen: Observations) -> dict[str, bool | None]:
    return {str(layer.name): layer.active for layer in layers(seen, "use a rootless engine")}


def test_all_are_active_where_everything_is_as_it_should_be():
    assert active(SEEN) == dict.fromkeys(map(str, LayerName), True)
    assert active(replace(SEEN, has_own_network=None)) == active(SEEN), "the interfaces tell"


@pytest.mark.parametrize(
    ("seen", "layer"),
    [
        (replace(SEEN, has_own_network=False), "network"),
        (network(udp=[{"refused": True}, {"refused": False}]), "firewall"),
        (network(tcp=[NETWORK["tcp"][0], {"led_elsewhere": True, "said": "timed out"}]), "application"),
        (network(dns=[NETWORK["dns"][0], {"answered": False, "said": "timed out"}]), "dns"),
        (command(CapBnd="0000000000002000"), "capability"),
        (command(NoNewPrivs="0"), "capability"),
        (command(Seccomp="0"), "seccomp"),
        (command(users=[[0, 0, 4294967295]]), "user_namespace"),
    ],
)
def test_one_fault_is_one_inactive_layer_with_a_remedy(seen, layer):
    assert active(seen) == active(SEEN) | {layer: False}
    assert all(found.remedy for found in layers(seen, "use a rootless engine") if not found.active)


def test_a_connection_that_goes_astray_is_neither_filtered_nor_turned_away():
    seen = network(tcp=[{"led_elsewhere": False, "said": "Network is unreachable"}] * 2)
    assert active(seen) == active(SEEN) | {"firewall": False, "application": False}


def test_nothing_is_active_that_was_not_seen():
    unseen = {"error": "Permission denied"}
    assert set(active(Observations({"its first process": unseen}, unseen, has_own_network=True)).values()) == {None}
    tried = dict.fromkeys(("firewall", "application", "dns"))
    assert active(replace(SEEN, network={"ways_out": ["eth0"]})) == active(SEEN) | tried | {"network": False}
