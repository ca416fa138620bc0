"""A command in the foreground, on a backend that has no way of its own for that."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from belljar.backends import registry
from belljar.backends.attending import Outcome
from belljar.gateway.settings import DEFAULTS
from belljar.policy import Syntax, compile_policy, read_policy
from belljar.runtime.run_once import run_once
from belljar.sandbox.ledger import Ledger, Reached, UsedDestination
from belljar.sandbox.network import NetworkAccess
from belljar.sandbox.spec import Command, SandboxSpec
from belljar.testing.elsewhere import ElsewhereBackend
from belljar.testing.memory import MemoryBackend, MemoryWorld


class Elsewhere:
    """A backend of another distribution."""

    name = "elsewhere"
    runs_images = False
    trial = "nowhere:nothing"

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.states: list[Path] = []

    def open(self, state, environment):
        self.states.append(state)
        return MemoryBackend(self.world)

    def findings(self, environment):
        yield from ()


class ServedElsewhere(Elsewhere):
    """One whose sandboxes have a gateway of their own."""

    def open(self, state, environment):
        return ElsewhereBackend(self.world)


class EntryPoint:
    name = "elsewhere"

    def load(self):
        return BACKEND


BACKEND = Elsewhere()


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(registry, "_entry_points", lambda: {"elsewhere": EntryPoint()})
    return registry.find("elsewhere")


def run(backend: Elsewhere, *arguments: str, **options: Any) -> Outcome:
    return run_once(backend, SandboxSpec(environment={"ONE": "1"}), Command(arguments), None, **options)


def test_it_is_known_by_its_entry_point(backend):
    assert registry.names() == ["local", "docker", "podman", "elsewhere"]
    assert backend is BACKEND
    with pytest.raises(registry.UnknownBackendError, match='"other"; use one of local, docker, podman, elsewhere'):
        registry.find("other")


def test_a_command_runs_to_its_end_and_nothing_is_left(backend, capfd):
    assert run(backend, "echo", "hello") == (0, False, False)
    assert capfd.readouterr().out == "hello\n"
    assert run(backend, "false").code == 1
    assert backend.world.sandboxes == {}
    assert not any(state.exists() for state in backend.states)


def test_its_time_is_bounded(backend):
    assert run(backend, "sleep", "1000", timeout=0.01) == (124, False, True)
    assert backend.world.sandboxes == {}


def test_signals_are_passed_on(backend):
    def ask_to_end(process):
        os.kill(os.getpid(), signal.SIGTERM)
        return backend.world.programs["sleep"](process)

    backend.world.programs["ask"] = ask_to_end
    assert run(backend, "ask", "1000").code == 128 + signal.SIGTERM


def test_who_ends_us_before_the_command_begins_leaves_nothing_behind(backend, monkeypatch):
    create = MemoryBackend.create

    def create_and_be_ended(*arguments):
        made = create(*arguments)
        made.close()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(MemoryBackend, "create", create_and_be_ended)
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        run(backend, "echo", "hello")
    assert backend.world.sandboxes == {}


def test_what_a_gateway_elsewhere_lets_reach_and_denies_is_noted_here():
    def ask_around(process):
        answers = [_asked_of_proxy(process.sandbox.doors["http_proxy"], place) for place in (granted, denied)]
        served.append(service.accept()[0])
        with answers[1][0]:
            kept.append(answers[0][0])  # open to the end: how much it carried is told last
        kept[0].sendall(b"hello")
        assert served[0].recv(5) == b"hello"
        return 0 if [status for _, status in answers] == [b"200", b"403"] else 1

    kept, served = list[socket.socket](), list[socket.socket]()
    with socket.create_server(("127.0.0.1", 0)) as service, socket.create_server(("127.0.0.1", 0)) as witness:
        port, other = service.getsockname()[1], witness.getsockname()[1]
        granted, denied = f"host.belljar.internal:{port}", f"host.belljar.internal:{other}"
        policy = compile_policy(read_policy(f"mode: block-all\nhost_ports: [{port}]\n", Syntax.YAML).policy)
        ledger, backend = Ledger(), ServedElsewhere()
        backend.world.programs["ask"] = ask_around
        network = NetworkAccess(policy, DEFAULTS, ledger)
        assert run_once(backend, SandboxSpec(), Command(("ask",)), lambda: network).code == 0
        for connection in (*kept, *served):
            connection.close()
        witness.settimeout(0)
        with pytest.raises(BlockingIOError):
            witness.accept()
    name = "host.belljar.internal"
    assert ledger.reached == {UsedDestination(name, None, port, "tcp"): Reached(flows=1, bytes_up=5)}
    assert list(ledger.denied) == [UsedDestination(name, None, other, "tcp")]
    assert backend.world.sandboxes == {}


def _asked_of_proxy(proxy: tuple[str, int], place: str) -> tuple[socket.socket, bytes]:
    connection = socket.create_connection(proxy)
    connection.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    return connection, connection.recv(4096).split()[1]
