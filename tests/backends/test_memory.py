"""The backend in memory does what every backend does, wherever its gateways are."""

import pytest

from belljar.backends.interface import GoneError, SandboxStatus, State
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.conformance import Conformance, Done, run
from belljar.testing.elsewhere import ElsewhereBackend
from belljar.testing.memory import MemoryBackend, MemoryWorld


class TestMemory(Conformance):
    @pytest.fixture
    def world(self):
        return MemoryWorld()

    @pytest.fixture
    def open_backend(self, world):
        return lambda: MemoryBackend(world)

    def test_a_test_can_add_programs(self, world, backend, jar):
        def greet(process):
            process.write(b"hello\n")
            return 7

        world.programs["greet"] = greet
        assert run(backend, jar, "greet") == Done(7, "hello\n")

    def test_a_test_can_let_a_sandbox_die(self, world, backend):
        backend.create("jar", SandboxSpec()).close()
        world.sandboxes["jar"].is_dead = True
        assert backend.sandboxes() == [SandboxStatus("jar", State.DEAD)]
        with pytest.raises(GoneError):
            run(backend, "jar", "true")
        backend.destroy("jar")
        assert backend.sandboxes() == []


class TestElsewhere(Conformance):
    @pytest.fixture
    def open_backend(self):
        world = MemoryWorld()
        return lambda: ElsewhereBackend(world)
