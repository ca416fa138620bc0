"""The gateway is imported when somebody knocks, unless a command could have changed it by then."""

import os
import shutil
import sys

import pytest

from belljar.sandbox.files.ownplaces import has_modules_in
from tests.backends.local.conftest import ROOT


def test_modules_can_be_changed_where_a_sandbox_can_write(tmp_path, monkeypatch):
    modules = tmp_path / "lib"
    monkeypatch.setattr(sys, "path", [*sys.path, str(modules)])
    assert has_modules_in([tmp_path])
    assert has_modules_in([modules / "package"])
    assert has_modules_in([ROOT / "src"])
    assert not has_modules_in([tmp_path / "project"])


def test_a_command_that_changes_our_modules_has_nothing_of_them_run(cli):
    """Belljar is installed in the working directory, as in a project's own virtual environment."""
    shutil.copytree(ROOT / "src" / "belljar", cli.workdir / "lib" / "belljar")
    owner = cli.workdir.stat()
    for path in (cli.workdir / "lib").rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid)
    trap = f"open('{cli.workdir}/trapped', 'w')"
    script = f'find lib -name "*.py" -exec sh -c \'echo "{trap}" > "$0"\' {{}} \\; && curl -sS http://plain.test/'
    modules = f"{cli.workdir}/lib:{ROOT}"
    before = (cli.workdir / "lib/belljar/__init__.py").read_text()
    done = cli.run("--allow", "plain.test", "--summary", "--", "sh", "-c", script, PYTHONPATH=modules)
    assert done.stdout == "plain.test /\n"
    assert "plain.test" in done.stderr
    assert not (cli.workdir / "trapped").exists()
    assert (cli.workdir / "lib/belljar/__init__.py").read_text() == before


@pytest.mark.parametrize("count", [1, 300])
def test_what_a_command_attempts_before_it_exits_is_reported(cli, count):
    """With one connection, nothing has opened the gateway by then."""
    script = """
import os, socket, sys
for port in range(2000, 2000 + int(sys.argv[1])):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("203.0.113.99", port))
os._exit(0)
"""
    done = cli.run("--summary", "--", "python3", "-c", script, str(count))
    assert done.returncode == 0
    denied = [line.split()[1].rstrip(":") for line in done.stderr.splitlines() if line.startswith("  ✗")]
    assert denied == [f"203.0.113.99:{port}" for port in range(2000, 2000 + count)], done.stderr


@pytest.mark.parametrize("option", ["--json", "--learn", "--summary", "--no-network-isolation"])
def test_what_is_needed_at_the_end_is_imported_before_the_command_starts(cli, option):
    script = "mkdir -p .git/hooks && echo : >.git/hooks/pre-push && chmod +x .git/hooks/pre-push && echo started >&2"
    done = cli.run(option, "--", "sh", "-c", script, PYTHONPROFILEIMPORTTIME="1")
    before, started, after = done.stderr.partition("started\n")
    assert started, done.stderr
    assert "belljar.cli.ending" in before
    assert ".git/hooks" in after
    assert "import time:" not in after
