import pytest

from belljar.discovery import pip
from tests.discovery.machines import PlayedMachine


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A machine without any tool; the Python that runs the tests is not part of it."""
    monkeypatch.setattr(pip, "OUR_PACKAGES", tmp_path / "no-python-here")
    monkeypatch.setattr(pip, "OUR_LIBRARY", tmp_path / "no-python-here")
    return PlayedMachine(tmp_path)
