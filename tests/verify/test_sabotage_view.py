"""What the self-test finds when a sandbox sees, writes to or may use more than it should."""

import tempfile
from pathlib import Path

import pytest

from tests.verify.test_sabotage import verify

pytestmark = pytest.mark.long

FINDINGS = {
    "set_ids_allowed": {"58-set-ids"},
    "set_ids_allowed_to_unnamed_files": {"58-set-ids"},
    "writable_settings": {"59-kernel-files"},
    "shared_control_groups": {"48-control-groups"},
    "project_unprotected": {"58-planted"},
    "a_place_unprotected": {"58-planted"},
    "submodules_unprotected": {"58-planted"},
    "repositories_unprotected": {"58-git", "58-seen-from-outside"},
    "directories_above_not_pinned": {"58-planted"},
    "own_places_unprotected": {"58-planted"},
    "writable_root": {"59-read-only"},
    "writable_devices": {"59-read-only"},
    "memory_of_the_host": {"59-shared-mounts", "59-seen-from-outside"},
    "home_shown": {"59-homes"},
    "no_screens": {"34-visible-sockets"},
    "memory_without_size": {"71-memory"},
    "memory_without_count_of_files": {"71-memory"},
    "limits_off": {"71-limits"},
    "no_control_group": {"71-seen-from-outside"},
    "namespaces_left_to_the_filter": {"33-seen-from-outside"},
    "shared_memory_without_bound": {"71-shared-memory"},
}
"""What has to be found broken when a layer is off."""


@pytest.mark.parametrize("layer", FINDINGS)
def test_a_missing_layer_is_found(privileged, layer):
    _, rows = verify(layer, FINDINGS[layer], "sabotaged_view")
    assert {name for name, (verdict, _) in rows.items() if verdict == "broken"} >= FINDINGS[layer], rows


def test_the_home_of_whoever_runs_the_self_test_is_found(privileged):
    """For the sandbox, there is another one: that the probes know the files in."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        Path(home).chmod(0o755)
        (Path(home) / ".netrc").touch()
        _, rows = verify("home_of_the_caller_shown", {"59-homes"}, "sabotaged_view", HOME=home)
    assert rows["59-homes"] == ("broken", f"there is: {home}/.netrc")
