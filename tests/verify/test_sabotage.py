"""A self-test that finds nothing wrong is worth as much as what it finds when something is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.verify.probes.running import in_order

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PATIENCE = 300

FINDINGS = {
    "no_seccomp": {"48-seccomp", "35-io-uring", "36-foreign-calls", "57-typing"},
    "capability_kept": {"48-capabilities"},
    "extra_interface": {"31-interfaces", "11-direct-address-v4", "6-datagrams-v4"},
    "host_network": {
        "31-interfaces",
        "48-namespaces",
        "11-direct-address-v6",
        "6-datagrams-v4",
        "34-abstract-sockets",
        "60-servers-v4",
        "60-servers-v6",
        "60-unix-sockets",
        "60-namespaces",
    },
    "dns_forwarded": {"7-tunnel-v4", "8-granted-zone-v6", "9-other-resolvers-v4"},
    "server_name_unchecked": {"12-shared-address-v4", "14-fronting-v6", "19-second-request-v4"},
    "guard_off": {"23-granted-names-v4", "24-mixed-v6", "25-private-names-v4", "26-alias-v6"},
    "host_unknown": {"22-host-later-v4", "22-host-later-v6"},
    "host_unknown_before_it_is_dialled": {"22-host-later-v4", "22-host-later-v6", "63-names-v4", "63-names-v6"},
    "host_unknown_when_it_is_connected": {"63-by-source-v4", "63-by-source-v6"},
    "seal_open": {"6-packet-filter-v4", "6-packet-filter-v6"},
    "seal_open_but_for_datagrams": {"6-packet-filter-v4", "6-packet-filter-v6"},
    "extra_route": {"31-routes"},
    "names_uncounted": {"8-many-names"},
    "names_uncounted_when_asked": {"8-many-names"},
    "names_uncounted_when_dialled": {"8-many-names"},
    "upgrade_passed_on": {"17-upgrade-v4", "17-upgrade-v6"},
    "second_hello_unread": {"16-second-hello-v4", "16-second-hello-v6"},
    "unasked_response_passed_on": {"18-unasked-response-v4", "18-unasked-response-v6"},
    "unasked_switch_passed_on": {"18-unasked-response-v4", "18-unasked-response-v6"},
    "denied_flows_untold": {"51-denials-v4", "51-denials-v6"},
    "denied_questions_untold": {"51-denials-v4", "51-denials-v6"},
    "log_unescaped": {"51-audit"},
    "owners_files_shown": {"69-owners-files"},
    "inherited_descriptor": {"35-descriptors"},
    "writable_system": {"58-planted", "59-mounts"},
    "broker_of_every_path": {"72-other-paths-v4", "72-other-paths-v6"},
    "broker_of_every_tool": {"72-server-tools-v4", "72-server-tools-v6"},
    "broker_of_every_header": {"72-headers-v4", "72-headers-v6"},
    "broker_without_a_key": {"control-broker-v4", "control-broker-v6"},
    "key_in_the_environment": {"72-key"},
    "key_in_a_file": {"72-key"},
}
"""What has to be found broken when a layer is off."""

DEAD = {
    "no_packet_filter": {"11-direct-address-v4", "6-datagrams-v6"},
    "no_rule_for_dns": {"7-tunnel-v4"},
}
"""What cannot be proven any more, because nothing works without the layer."""

HELD_BY_OTHER_LAYERS = {"6", "8", "17", "18", "38", "40", "72"}
"""Ways out that have nothing to do with what is granted: the packet filter, the parsers or the broker close them."""


def verify(
    layer: str, probes: set[str], program: str = "sabotaged", **variables: str
) -> tuple[dict[str, int], dict[str, tuple[str, str]]]:
    known = {probe.id for probe in in_order()}
    only = {name if name in known else name.partition("-")[0] for name in probes}  # others are seen from outside
    command = [sys.executable, "-m", f"tests.verify.{program}", layer, *sorted(only)]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return report["summary"], {row["id"]: (row["verdict"], row["evidence"]) for row in report["results"]}


@pytest.mark.parametrize("layer", FINDINGS)
def test_a_missing_layer_is_found(privileged, layer):
    _, rows = verify(layer, FINDINGS[layer])
    assert {name for name, (verdict, _) in rows.items() if verdict == "broken"} >= FINDINGS[layer], rows


def test_no_probe_of_the_network_passes_where_nothing_is_isolated(privileged):
    """A probe that would could not tell a sealed sandbox from an open one."""
    _, rows = verify("host_network", set())
    assert not {name for name, (verdict, _) in rows.items() if verdict == "holds" and is_attempt(name)}


def test_no_probe_of_the_policy_passes_where_everything_is_granted(privileged):
    _, rows = verify("everything_granted", set())
    held = {name for name, (verdict, _) in rows.items() if verdict == "holds" and is_attempt(name)}
    assert {name.split("-")[0] for name in held} == HELD_BY_OTHER_LAYERS


def is_attempt(name: str) -> bool:
    return name.endswith(("-v4", "-v6")) and not name.startswith("control")


@pytest.mark.parametrize("layer", DEAD)
def test_a_dead_network_does_not_pass_for_a_sealed_one(privileged, layer):
    summary, rows = verify(layer, DEAD[layer])
    assert summary["broken"] > 0
    assert {name for name, (verdict, _) in rows.items() if verdict in ("unproven", "broken")} >= DEAD[layer], rows
