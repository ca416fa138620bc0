"""Tests run as root, and leave nothing of root's to an ordinary user who has the checkout."""

import os
from pathlib import Path

import pytest

from tests import stage
from tests.backends.local.commands import USER


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
def test_what_was_written_is_the_users_afterwards(tmp_path, monkeypatch):
    virtual_environment, cache = tmp_path / ".venv", tmp_path / ".cache"
    for place in (virtual_environment, cache):
        (place / "lib/__pycache__").mkdir(parents=True)
        (place / "lib/__pycache__/module.pyc").touch()
        (place / "link").symlink_to("/etc/passwd")
    os.chown(virtual_environment, USER, USER)
    monkeypatch.setattr(stage, "_VENV", virtual_environment)
    monkeypatch.setattr(stage, "_WRITTEN", (cache,))
    stage.leave()
    written = [path for place in (virtual_environment, cache) for path in (place, *place.rglob("*"))]
    assert {path.lstat().st_uid for path in written} == {USER}
    assert Path("/etc/passwd").stat().st_uid == 0
