"""Sandboxes whose gateways are elsewhere are made, changed, watched, adopted and ended as all others are."""

import socket

import pytest

from belljar.backends.interface import MachineError
from belljar.testing.elsewhere import ElsewhereBackend, GatewayBeside
from belljar.testing.memory import MemoryWorld
from tests.control.agents import Agent
from tests.control.servers import PATIENCE, Server, problem, until

HOST = "host.belljar.internal"


class ElsewhereServer(Server):
    backend = ElsewhereBackend


@pytest.fixture
def start_elsewhere(tmp_path):
    world, started = MemoryWorld(), list[Server]()

    def start() -> Server:
        if started:
            started[-1].stop()
        started.append(ElsewhereServer(tmp_path / "state", world))
        return started[-1]

    yield start
    started[-1].stop()


@pytest.fixture
def service():
    """A service of the host, which is its own witness."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


def assert_reached(service: socket.socket) -> None:
    """Wait for a connection to the service, which may arrive after its client has connected, and close it."""
    service.accept()[0].close()


def assert_not_reached(service: socket.socket) -> None:
    """Make sure that our own connection to the service is the next one."""
    with socket.create_connection(service.getsockname()) as ours, service.accept()[0] as next_one:
        assert next_one.getpeername() == ours.getsockname()


def set_policy(server: Server, jar: str, **policy: object):
    answer = server.client.put(server.path(jar, "/network"), json={"mode": "block-all", **policy})
    assert answer.status_code == 200, answer.text
    return answer.json()


def denied(server: Server, jar: str) -> list[str]:
    return [event["name"] for event in server.client.get(server.path(jar, "/denials")).json()["denials"]]


def test_a_life_from_its_policies_to_its_end(start_elsewhere, service):
    server, port = start_elsewhere(), service.getsockname()[1]
    jar = server.sandbox()
    agent = Agent(server.world, jar)
    assert b"403" in agent.connect(HOST, port)
    assert_not_reached(service)
    until(lambda: HOST in denied(server, jar))

    assert set_policy(server, jar, host_ports=[port])["in_force"]
    with agent.connected(HOST, port) as (connection, status):
        assert b"200" in status
        reached, _ = service.accept()
        [flow] = server.client.get(server.path(jar, "/flows")).json()["flows"]
        assert (flow["name"], flow["port"]) == (HOST, port)
        assert f'sandbox="{jar}"' in server.client.get("http://localhost/metrics").text
        assert set_policy(server, jar)["flows_reset"] == 1
        with reached, pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert b"403" in agent.connect(HOST, port)

    assert server.client.delete(server.path(jar)).status_code == 204
    with pytest.raises(ConnectionRefusedError):
        agent.connect(HOST, port)
    assert server.world.sandboxes == {}


def test_it_has_no_doors_without_a_server_and_the_same_policy_with_the_next(start_elsewhere, service):
    server, port = start_elsewhere(), service.getsockname()[1]
    jar = server.sandbox(network={"mode": "block-all", "host_ports": [port]})
    before = Agent(server.world, jar)
    assert b"200" in before.connect(HOST, port)
    assert_reached(service)
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        before.connect(HOST, port)
    server = start_elsewhere()
    agent = Agent(server.world, jar)
    assert b"200" in agent.connect(HOST, port)
    assert_reached(service)
    assert b"403" in agent.connect("denied.test", 443)
    until(lambda: "denied.test" in denied(server, jar))


def test_a_server_that_ends_closes_the_doors_itself_whatever_its_backend_does(start_elsewhere, service, monkeypatch):
    left, port, close = list[ElsewhereBackend](), service.getsockname()[1], ElsewhereBackend.close

    def leave(backend: ElsewhereBackend) -> None:
        left.append(backend)

    monkeypatch.setattr(ElsewhereBackend, "close", leave)
    server = start_elsewhere()
    jar = server.sandbox(network={"mode": "block-all", "host_ports": [port]})
    agent = Agent(server.world, jar)
    assert b"200" in agent.connect(HOST, port)
    assert_reached(service)
    server.stop()
    try:
        with pytest.raises(ConnectionRefusedError):
            agent.connect(HOST, port)
        assert_not_reached(service)
    finally:
        for backend in left:
            close(backend)


def test_one_whose_gateway_does_not_answer_is_not_made(start_elsewhere, monkeypatch):
    def refuse(*_, **__):
        raise MachineError("nobody is there")

    server = start_elsewhere()
    monkeypatch.setattr(GatewayBeside, "open", refuse)
    problem(server.client.post("/sandboxes", json={"backend": "memory"}), 503, "machine_unable")
    assert server.world.sandboxes == {}
