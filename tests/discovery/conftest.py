import sys

import pytest

from tests.discovery.machines import PlayedMachine


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A machine without any tool; the Python that runs the tests is not part of it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python-here"))
    return PlayedMachine(tmp_path)
