"""docs/backends.md says what every backend can do, and nothing else; and backends can do it."""

from pathlib import Path

from belljar.backends import interface
from belljar.backends.containers.late import LateBackend
from belljar.backends.interface import Backend
from belljar.backends.local.backend import LocalBackend
from belljar.errors import BelljarError
from belljar.testing.memory import MemoryBackend, MemoryWorld
from tests.docs.test_docs import first_column, section


def backends(state: Path) -> tuple[Backend, ...]:
    """Every backend; the type checker sees to it that each has the interface."""
    return MemoryBackend(MemoryWorld()), LocalBackend(state), LateBackend("docker", state, {})


def test_every_method_is_documented_and_there_are_few():
    methods = [name for name in vars(Backend) if not name.startswith("_")]
    assert first_column(section("backends.md", "Backends"))[: len(methods)] == methods
    assert len(methods) <= 12


def test_every_error_is_documented():
    errors = [
        name
        for name, kind in vars(interface).items()
        if isinstance(kind, type) and issubclass(kind, BelljarError) and kind is not BelljarError
    ]
    assert first_column(section("backends.md", "Backends"))[-len(errors) :] == errors
