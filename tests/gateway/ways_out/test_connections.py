"""Connections that are granted work as if there were no gateway, and leave nothing behind."""

import contextlib
import socket
import threading

import pytest

from belljar.gateway.audit.metrics import STEP_SECONDS
from tests.gateway.ways_out.agents import TUNNELS, TurnedAwayError, request, scripted_server
from tests.universe import addresses
from tests.universe.clients import received

GRANT = "mode: block-all\negress: {allowed_domains: [plain.test, %s]}"


@pytest.mark.parametrize("door", TUNNELS)
def test_a_server_that_speaks_first(agent, door):
    with agent.dial("plain.test", addresses.SSH, door) as client:
        assert client.recv(18, socket.MSG_WAITALL) == b"SSH-2.0-stand_in\r\n"
        client.sendall(b"SSH-2.0-agent\r\n")
        assert client.recv(15, socket.MSG_WAITALL) == b"SSH-2.0-agent\r\n"


def test_a_client_that_only_listens_is_on_record(agent):
    with agent.dial("plain.test", addresses.SSH) as client:
        assert client.recv(18, socket.MSG_WAITALL) == b"SSH-2.0-stand_in\r\n"
    agent.settle()
    allowed, closed = agent.audit()[-2:]
    assert (allowed["event"], allowed["port"], allowed["claimed"]) == ("flow.allowed", 22, None)
    assert (closed["event"], closed["how"]) == ("flow.closed", "closed")
    assert (closed["bytes_up"], closed["bytes_down"]) == (0, 18)


@pytest.mark.parametrize("door", TUNNELS)
@pytest.mark.parametrize("size", [0, 1, 300000])
@pytest.mark.parametrize("letter", [b"\0", b"x", b"\n"], ids=["binary", "text", "lines"])
def test_half_close(agent, door, size, letter):
    data = letter * size
    if letter == b"\n" and size:
        data = b"hello\n" + data
    with agent.dial("plain.test", addresses.DATABASE, door) as client:
        sending = threading.Thread(target=send_and_end, args=(client, data))
        sending.start()
        assert received(client) == data
        sending.join()


def send_and_end(client: socket.socket, data: bytes) -> None:
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("data", [b"h", b"hello", b"GE", b"HELO there", b"\x01"])
def test_an_answer_to_less_than_a_line(agent, data):
    """Any word could be the method of a request; whoever waits for an answer to it must not wait for ever."""
    with agent.dial("plain.test", addresses.DATABASE) as client:
        client.sendall(data)
        assert client.recv(len(data), socket.MSG_WAITALL) == data
        client.sendall(b" and more\r\n")
        assert client.recv(11, socket.MSG_WAITALL) == b" and more\r\n"


@pytest.mark.parametrize("door", TUNNELS)
def test_a_reset_is_passed_on(agent, door):
    with agent.dial("plain.test", addresses.RESET, door) as client:
        client.sendall(b"\0")
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_reset_by_the_client_is_passed_on(agent):
    def script(connection: socket.socket) -> bool:
        connection.sendall(b"hello")
        try:
            return bool(connection.recv(1))
        except ConnectionResetError:
            return True

    with scripted_server(agent.universe, script) as served:
        client = agent.dial("v4.test", 8080)
        assert client.recv(5, socket.MSG_WAITALL) == b"hello"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    assert served.result() is True


@pytest.mark.parametrize("name", ["dead-first.test", "dead-v6.test", "refusing-first.test", "v6.test", "many.test"])
@pytest.mark.parametrize("door", ["direct", "direct6", "socks"])
def test_one_address_that_answers_is_enough(share, name, door):
    agent = share(GRANT % name)
    assert agent.get(name, door=door).body == f"{name} /\n".encode()


@pytest.mark.parametrize(
    ("name", "code"), [("dead.test", 4), ("nowhere.test", 4), ("failing.test", 4), ("refusing.test", 5)]
)
def test_nobody_answers(enter, universe, name, code):
    universe.zone["refusing.test"] = universe.zone["refusing-first.test"].__class__((addresses.REFUSING,))
    agent = enter(GRANT % name, dial_seconds=0.3 if name == "dead.test" else 5)
    with pytest.raises(TurnedAwayError) as failed:
        agent.dial(name, 80, "socks")
    assert failed.value.answer == code
    assert agent.denials() == []
    assert agent.works()


def test_nothing_is_left_behind(enter):
    agent = enter(GRANT % "'plain.test:5432', 'plain.test:22', dead.test, private.test", dial_seconds=0.3)
    for door in TUNNELS:
        assert agent.get("plain.test", door=door).status == 200
        assert b"name_mismatch" in agent.say("plain.test", 80, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", door)
        agent.dial("plain.test", 5432, door).close()
        agent.dial("plain.test", 22, door).close()
        for name in ("dead.test", "private.test", "evil.test"):
            with contextlib.suppress(OSError, TurnedAwayError):
                agent.dial(name, 80, door).close()
    agent.settle()
    jar = agent.jar
    assert (jar.flows, jar.handlers, jar.handshakes, jar.connections) == (set(), {}, 0, 0)
    assert jar.names._connections == {}


def test_a_sandbox_that_is_closed_takes_everything_with_it(serving, universe):
    with serving.sandbox(GRANT % "'plain.test:22', dead.test") as (sandbox, jar):
        waiting = [sandbox.connect(address, port) for address, port in ((addresses.EVIL, 443), ("127.0.0.1", 3128))]
        live = sandbox.connect("plain.test", 22)
        assert live.recv(1)
        dialling = sandbox.connect("dead.test", 80)
        waiting[0].sendall(b"\x16")
    for client in (*waiting, live, dialling):
        with client, pytest.raises(ConnectionResetError):
            received(client)
    assert (jar.flows, jar.handlers, jar.handshakes) == (set(), {}, 0)
    assert jar.names._connections == {}


def test_the_time_that_steps_take_is_measured(agent):
    with agent.dial("plain.test", 80) as client:
        assert request(client, "/", "plain.test").status == 200
    steps = agent.serving.do(lambda: agent.jar.observer._numbers.histograms(STEP_SECONDS))
    assert {step for (step,) in steps} >= {"decide", "resolve", "dial"}
