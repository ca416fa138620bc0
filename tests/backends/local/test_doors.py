"""The gateway is imported when somebody knocks, unless a command could have changed it by then."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from belljar.backends.local.doors import can_change_our_modules
from belljar.sandbox.spec import Bind
from tests.backends.local.conftest import ROOT


def bind(path: Path, *, writable: bool = True) -> Bind:
    return Bind(path, path, writable=writable)


def test_modules_can_be_changed_where_a_sandbox_can_write(tmp_path, monkeypatch):
    modules = tmp_path / "lib"
    monkeypatch.setattr(sys, "path", [*sys.path, str(modules)])
    assert can_change_our_modules([bind(tmp_path)])
    assert can_change_our_modules([bind(modules / "package")])
    assert can_change_our_modules([bind(ROOT / "src")])
    assert not can_change_our_modules([bind(tmp_path, writable=False), bind(tmp_path / "project")])


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


@pytest.mark.parametrize("option", ["--json", "--learn", "--summary", "--no-network-isolation"])
def test_what_is_needed_at_the_end_is_imported_before_the_command_starts(cli, option):
    script = "mkdir -p .git/hooks && echo : >.git/hooks/pre-push && chmod +x .git/hooks/pre-push && echo started >&2"
    done = cli.run(option, "--", "sh", "-c", script, PYTHONPROFILEIMPORTTIME="1")
    before, started, after = done.stderr.partition("started\n")
    assert started, done.stderr
    assert "belljar.cli.ending" in before
    assert ".git/hooks" in after
    assert "import time:" not in after
