"""What a command is told of brokers, in its environment and in files that exist inside only."""

import json
import shutil
import subprocess

import pytest

from tests.backends.local.conftest import PATIENCE

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
    assert "Only these can be reached, and only as the policy below says: models.belljar.internal:80" in told["notice"]
    assert "sk-real" not in done.stdout


def test_a_command_is_told_where_a_broker_is_and_no_key(cli):
    check(cli.run(*BROKER, "--", "python3", "-c", TOLD, MODELS_API_KEY="sk-real"))


@pytest.mark.parametrize("has_settings", [False, True])
def test_it_is_told_where_something_is_mounted_below_the_same_directory(cli, tmp_path, has_settings):
    """What is shown there is put together one by one then, and the machine's own settings stand back."""
    etc = tmp_path / "etc"
    shutil.copytree("/etc", etc, symlinks=True)
    (etc / "mounted").mkdir()
    if has_settings:
        (etc / "codex").mkdir()
        (etc / "codex" / "config.toml").write_text("the machine's own")
    mounting = f'mount --bind {etc} /etc; mount -t tmpfs none /etc/mounted; exec "$@"'
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


def test_nothing_is_told_without_a_broker(cli):
    done = cli.run("--", "sh", "-c", "env; ls /etc/codex")
    assert "BASE_URL" not in done.stdout
    assert "cannot access '/etc/codex'" in done.stderr
