"""The client that waits, against the real server over the in-memory backend."""

import inspect
import threading
from dataclasses import replace

import pytest

from belljar import client as sdk
from belljar.client import (
    Client,
    Egress,
    GoneError,
    Limits,
    Mount,
    NetworkPolicy,
    NotFoundError,
    PathError,
    PausedError,
    PolicyChangedError,
    PolicyError,
    RequestError,
    Rule,
)
from tests.control.servers import until

GITHUB = NetworkPolicy("block-all", Egress(allowed_domains=["github.com"]))


def test_a_claim_is_deleted_at_the_end_whatever_happens(server, client):
    sandbox = client.claim(backend="memory", labels={"a": "b"})
    assert (sandbox.state.status, sandbox.state.labels, sandbox.state.mode) == ("running", {"a": "b"}, "block-all")
    assert sandbox.id in server.world.sandboxes
    with pytest.raises(ZeroDivisionError), sandbox:
        raise ZeroDivisionError
    assert sandbox.id not in server.world.sandboxes
    with pytest.raises(NotFoundError):
        client.sandbox(sandbox.id)


def test_one_that_is_gone_already_is_no_error_at_the_end(client):
    with client.claim(backend="memory") as sandbox:
        sandbox.delete()


def test_what_is_asked_for_is_what_is_made(server, client, tmp_path):
    asked = {
        "env": {"A": "b"},
        "workdir": tmp_path,
        "mounts": [Mount("/usr/share", "/data"), Mount("/srv", writable=True)],
        "limits": Limits(memory_bytes=1 << 30),
        "ttl": 600,
        "hard_ttl": 3600,
        "network": GITHUB,
    }
    with client.claim(backend="memory", **asked) as sandbox:
        wanted = server.world.sandboxes[sandbox.id].spec
        binds = [(str(bind.source), str(bind.target), bind.writable) for bind in wanted.binds]
        assert binds == [("/usr/share", "/data", False), ("/srv", "/srv", True)]
        assert (wanted.environment, wanted.workdir, wanted.limits.memory_bytes) == ({"A": "b"}, tmp_path, 1 << 30)
        assert sandbox.get_network_policy() == GITHUB
        state = sandbox.state
        assert (state.expires_at - state.created_at).total_seconds() == pytest.approx(600, abs=60)
        refreshed = sandbox.refresh(ttl=0, hard_ttl=7200)
        assert refreshed.expires_at is None
        assert refreshed.hard_expires_at > state.hard_expires_at


def test_a_repeated_claim_finds_the_first(client):
    with client.claim(backend="memory", idempotency_key="once") as sandbox:
        assert client.claim(backend="memory", idempotency_key="once").id == sandbox.id
        with pytest.raises(RequestError) as caught:
            client.claim(backend="memory", idempotency_key="once", labels={"other": "one"})
        assert caught.value.code == "idempotency_key_reused"


def test_sandboxes_are_found_by_label_and_status_over_pages(client):
    made = [client.claim(backend="memory", labels={"page": "yes"}) for _ in range(105)]
    assert [sandbox.id for sandbox in client.sandboxes(labels={"page": "yes"})] == [sandbox.id for sandbox in made]
    made[3].pause()
    assert [sandbox.id for sandbox in client.sandboxes(labels={"page": "yes"}, status="paused")] == [made[3].id]
    for sandbox in made:
        sandbox.delete()


def test_a_command_runs_to_its_end(jar):
    result = jar.exec(["cat"], stdin=b"\xff\0 bytes")
    assert (result.exit_code, result.stdout_bytes, result.truncated) == (0, b"\xff\0 bytes", False)
    assert jar.exec(["false"]).exit_code == 1
    assert jar.exec(["env"], env={"NAME": "värde"}).stdout.splitlines()[-1] == "NAME=värde"
    assert jar.exec(["pwd"], workdir="/tmp").stdout == "/tmp\n"
    assert jar.exec(["sleep", "60"], timeout=0.01).timed_out
    assert jar.exec(["no-such-program"]).exit_code == 127


def test_layers_and_want_of_memory_are_told(server, jar):
    server.world.programs["hog"] = lambda process: process.run_out_of_memory()
    assert jar.exec(["hog"]).out_of_memory
    with jar.stream(["hog"]) as running:
        assert running.wait().out_of_memory
    layer = jar.layers()[0]
    assert (layer.name, layer.active, layer.remedy) == ("network", None, None)


def test_a_text_is_for_the_shell(server, jar):
    server.world.programs["/bin/sh"] = server.world.programs["echo"]
    assert jar.exec("ls | wc").stdout == "-c ls | wc\n"


def test_output_is_seen_as_it_comes(server, jar):
    goes_on = threading.Event()

    def program(process):
        process.write(b"working\n")
        goes_on.wait()
        process.write(b"\xff failed\n", to_stderr=True)
        return 3

    server.world.programs["program"] = program
    with jar.stream(["program"]) as running:
        outputs = iter(running)
        assert next(outputs).text == "working\n"
        goes_on.set()
        assert [(output.stream, output.data) for output in outputs] == [("stderr", b"\xff failed\n")]
        assert running.wait().exit_code == 3
    with jar.stream(["false"]) as running:
        assert running.wait().exit_code == 1


def test_leaving_a_command_ends_it(server, jar):
    with jar.stream(["sleep", "600"]):
        [process] = until(lambda: server.world.sandboxes[jar.id].commands[-1:])
    assert process.wait(60) == 137


def test_files_go_in_and_come_out(jar):
    jar.files.put("notes/today.txt", "grüße\n")
    assert jar.files.get("notes/today.txt") == "grüße\n".encode()
    jar.files.put("run", b"\0\1", mode=0o755)
    assert jar.files.get("/workspace/run") == b"\0\1"
    with pytest.raises(PathError, match="nowhere"):
        jar.files.get("nowhere")


def test_a_policy_is_replaced_as_a_whole(jar):
    first = jar.get_network_policy()
    assert first == NetworkPolicy("block-all")
    change = jar.update_network_policy(GITHUB)
    assert (change.generation, change.flows_reset, change.warnings, change.policy) == (2, 0, (), GITHUB)
    policy = NetworkPolicy(
        "allow-all",
        Egress(denied_domains=["facebook.com"], denied_ports=[25, "6660-6669"], allowed_domains=["x.test"]),
        rules=[Rule("deny", domains=["gist.github.com"], name="no gists"), Rule("allow", ports=[443], protocol="tcp")],
        host_ports=[5432],
        allow_private=True,
    )
    change = jar.update_network_policy(policy)
    assert change.generation == 3
    assert [warning.field for warning in change.warnings] == ["egress.allowed_domains"]
    assert jar.get_network_policy() == policy


def test_a_policy_that_was_got_is_only_set_in_its_own_place(jar):
    mine, theirs = jar.get_network_policy(), jar.get_network_policy()
    jar.update_network_policy(replace(theirs, egress=Egress(allowed_domains=["theirs.test"])))
    with pytest.raises(PolicyChangedError) as caught:
        jar.update_network_policy(replace(mine, egress=Egress(allowed_domains=["mine.test"])))
    assert caught.value.code == "policy_changed"
    now = jar.get_network_policy()
    assert now.egress.allowed_domains == ("theirs.test",)
    assert jar.update_network_policy(replace(now, mode="allow-all")).policy.mode == "allow-all"
    jar.update_network_policy(NetworkPolicy("block-all"))  # one that was made knows of no other, and replaces any


def test_a_bad_policy_names_every_field_and_remedy_and_changes_nothing(jar):
    bad = NetworkPolicy("block-all", Egress(allowed_domains=["http://x/"], allowed_ports=[0]))
    with pytest.raises(PolicyError) as caught:
        jar.update_network_policy(bad)
    assert caught.value.field == "egress.allowed_domains[0]"
    assert (caught.value.remedy or "").startswith("write the host name alone")
    assert [finding.field for finding in caught.value.findings] == [
        "egress.allowed_domains[0]",
        "egress.allowed_ports[0]",
    ]
    assert jar.get_network_policy() == NetworkPolicy("block-all")


def test_what_would_change_is_told_and_does_not(jar):
    preview = jar.preview_network_policy(GITHUB)
    assert (preview.generation, preview.policy, preview.flips) == (1, GITHUB, ())
    assert jar.get_network_policy() == NetworkPolicy("block-all")


def test_entries_are_added_and_taken_away(jar):
    jar.update_network_policy(GITHUB)
    change = jar.amend_network_policy(
        add={"egress": {"allowed_domains": ["x.test"]}}, remove={"egress": {"allowed_domains": ["github.com"]}}
    )
    assert change.policy.egress.allowed_domains == ("x.test",)
    with pytest.raises(PolicyChangedError):
        jar.amend_network_policy(add={"host_ports": [1]}, etag='"1"')
    assert (jar.explain("x.test").action, jar.explain("github.com").reason) == ("allow", "not_allowed_domain")


def test_a_destination_is_open_for_a_time(jar):
    grant = jar.grant("github.com", 600)
    assert [each.id for each in jar.grants()] == [grant.id]
    assert jar.explain("github.com").action == "allow"
    jar.end_grant(grant.id)
    assert jar.grants() == []
    assert jar.explain("github.com").action == "deny"
    with pytest.raises(NotFoundError):
        jar.end_grant(grant.id)
    jar.amend_network_policy(add={"rules": [{"action": "deny", "domains": ["github.com"]}]})
    with pytest.raises(PolicyError, match="stays closed, by"):
        jar.grant("github.com", 600)


def test_a_paused_sandbox_says_what_to_do(jar):
    assert jar.pause().status == "paused"
    with pytest.raises(PausedError, match="resume it first"):
        jar.exec(["true"])
    assert jar.resume().status == jar.state.status == "running"


def test_a_dead_sandbox_says_what_to_do(server, jar):
    server.world.sandboxes[jar.id].is_dead = True
    with pytest.raises(GoneError, match="ended"):
        jar.exec(["true"])
    assert jar.reload().status == "dead"


@pytest.mark.parametrize("name", ["", "..", "../../healthz", "a b", "ü", "a/pause", "x?y#z"])
def test_a_name_never_leads_elsewhere(client, name):
    with pytest.raises(NotFoundError):
        client.sandbox(name)


def test_both_clients_can_do_the_same():
    def methods(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert methods(Client) == methods(sdk.AsyncClient)
    assert methods(sdk.Sandbox) == methods(sdk.AsyncSandbox)
