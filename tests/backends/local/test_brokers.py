"""What a command is told of brokers, in its environment and in files that exist inside only."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.backends.local.conftest import PATIENCE
from tests.layers import cover, make_layer
from tests.universe import addresses

BROKER = ("--broker", "models=http://127.0.0.1:9")
TOLD = """
import json, os, pathlib
print(json.dumps({
    "variables": dict(os.environ),
    "codex": pathlib.Path("/etc/codex/config.toml").read_text(),
    "writable": os.access("/etc/codex/config.toml", os.W_OK) or os.access("/etc/codex", os.W_OK),
    "others": pathlib.Path("/etc/passwd").read_text().startswith("root:"),
    "notice": json.loads(pathlib.Path("/run/belljar/policy.json").read_text())["summary"],
}))
"""


def check(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["variables"]["ANTHROPIC_BASE_URL"] == "http://models.belljar.internal"
    assert 'base_url = "http://models.belljar.internal/v1"' in told["codex"]
    assert (told["writable"], told["others"]) == (False, True)
    assert (
        "Only these can be reached, and only as the policy below says: http://models.belljar.internal" in told["notice"]
    )
    assert "sk-real" not in done.stdout


def test_a_command_is_told_where_a_broker_is_and_no_key(cli):
    check(cli.run(*BROKER, "--", "python3", "-c", TOLD, MODELS_API_KEY="sk-real"))


@pytest.mark.parametrize("has_settings", [False, True])
def test_it_is_told_where_something_is_mounted_below_the_same_directory(cli, tmp_path, has_settings):
    """What is shown there is put together one by one then, and the machine's own settings stand back."""
    layer = make_layer(tmp_path / "etc", {"codex/config.toml": "the machine's own"} if has_settings else {})
    (layer / "mounted").mkdir(parents=True)
    mounting = f'{cover("/etc", str(layer))}mount -t tmpfs none /etc/mounted; exec "$@"'
    command = cli.command("run", *BROKER, "--", "python3", "-c", TOLD)
    done = cli.universe.gateway.call(
        subprocess.run,
        ["unshare", "--mount", "sh", "-ec", mounting, "sh", *command],
        cwd=cli.workdir,
        env=cli.environment(MODELS_API_KEY="sk-real"),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    check(done)


@pytest.fixture
def temporary():
    """A directory for what `belljar run` makes for itself."""
    directory = Path(tempfile.mkdtemp(prefix="belljar-temporary-", dir="/var/tmp"))
    yield directory
    shutil.rmtree(directory)


def brokers(temporary: Path) -> list[bytes]:
    """Return the brokers of whoever has a directory for what it makes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"--events" in words and os.fsencode(temporary) in words:
            found.append(words)
    return found


@pytest.mark.parametrize("is_used", [False, True])
def test_a_broker_is_a_process_once_it_is_used_and_leaves_nothing_behind(cli, temporary, is_used):
    os.chown(temporary, cli.workdir.stat().st_uid, -1)
    url = "http://models.belljar.internal/v1/models"
    command = ["sh", "-ec", f"{f'curl -sS {url};' * is_used} touch there; until test -e go; do sleep 0.02; done"]
    words = [*cli.command("run", "--json", "--broker", f"models=http://127.0.0.1:{addresses.HTTP}", "--"), *command]
    variables = cli.environment(MODELS_API_KEY="sk-real", XDG_CACHE_HOME=str(temporary))
    process = cli.universe.gateway.call(
        lambda: subprocess.Popen(
            words, cwd=cli.workdir, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    )
    with process:
        while not (cli.workdir / "there").exists():
            assert process.poll() is None
            time.sleep(0.01)
        assert len(brokers(temporary)) == is_used
        (cli.workdir / "go").touch()
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert brokers(temporary) == []
    assert not list(temporary.glob("belljar/brokers/*"))
    used = json.loads(errors.splitlines()[-1])["services"]
    assert {name: sums["requests"] for name, sums in used.items()} == ({"models": 1} if is_used else {})


def test_the_summary_tells_what_was_used(cli):
    url = "http://models.belljar.internal/v1/models"
    broker = ("--broker", f"models=http://127.0.0.1:{addresses.HTTP}")
    done = cli.run(*broker, "--summary", "--", "curl", "-sS", url, MODELS_API_KEY="sk-real")
    assert re.search(r"belljar: used\n  . models  1 request, 0 tokens in, 0 out\n", done.stderr)


def test_nothing_is_told_without_a_broker(cli):
    done = cli.run("--", "sh", "-c", "env; ls /etc/codex")
    assert "BASE_URL" not in done.stdout
    assert "cannot access '/etc/codex'" in done.stderr


def test_a_broker_that_is_asked_over_tls_is_said_to_speak_http(own_cli):
    done = own_cli.run(
        *BROKER, "--summary", "--", "curl", "-sS", "https://models.belljar.internal/", MODELS_API_KEY="x"
    )
    assert done.returncode == 35
    assert "models is at http://models.belljar.internal, which speaks plain HTTP inside" in done.stderr


SHARED = """\
mode: block-all
services:
  models: {{url: "http://127.0.0.1:{port}", header: {{}}, shared_budget: {{group: nightly, {bounds}}}}}
"""
STATUS = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://models.belljar.internal/v1/models")


def test_runs_that_name_a_group_use_its_budget_together(users_cli, temporary):
    policy = users_cli.workdir / "policy.yaml"
    policy.write_text(SHARED.format(port=addresses.HTTP, bounds="requests: 2"))
    state = {"XDG_STATE_HOME": str(temporary / "state"), "XDG_CACHE_HOME": str(temporary / "cache")}
    os.chown(temporary, users_cli.workdir.stat().st_uid, -1)
    done = [users_cli.run("--policy", str(policy), "--", *STATUS, **state) for _ in range(3)]
    assert [each.stdout for each in done] == ["200", "200", "429"], [each.stderr for each in done]
    (temporary / "state/belljar/groups").chmod(0o755)
    refused = users_cli.run("--policy", str(policy), "--", *STATUS, **state)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert "groups is open to others, or another's; chmod 700 it" in refused.stderr


def test_a_bound_that_runs_cannot_share_is_refused(own_cli):
    policy = own_cli.workdir / "policy.yaml"
    policy.write_text(SHARED.format(port=addresses.HTTP, bounds="at_once: 2"))
    done = own_cli.run("--policy", str(policy), "--", *STATUS)
    assert (done.returncode, done.stdout) == (125, "")
    assert "services.models.shared_budget: at_once is counted for one run alone; leave it out" in done.stderr
