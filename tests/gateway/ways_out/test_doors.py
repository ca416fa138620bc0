"""The gateway's own doors (ways out 30, 38 to 40, 51): they lead where the policy says, and they tell what happened."""

import json
import socket
import struct
import threading

import dns.message
import pytest

from belljar.linux.loopback import OWN_IPV4
from tests.gateway.ways_out.agents import (
    TurnedAwayError,
    ask_for_tunnel,
    ask_socks,
    read_head,
    request,
    scripted_server,
)
from tests.universe import addresses
from tests.universe.clients import received


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_dial_to_the_transparent_listener_itself(enter, address):
    agent = enter("mode: allow-all")
    for data in (b"", b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n"):
        assert agent.is_reset(address, 15001, data)
    with pytest.raises(ConnectionRefusedError):
        agent.sandbox.connect(str(OWN_IPV4), 15001)
    assert agent.reached_nobody()
    assert [line["limit"] for line in agent.audit() if line["event"] == "limit.reached"] == ["direct_dial"]
    assert agent.works()


@pytest.mark.parametrize("port", [15001, 3128, 80])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", addresses.GATEWAY, addresses.GATEWAY_V6, "0.0.0.0"])
@pytest.mark.parametrize("door", ["connect", "socks"])
def test_a_proxy_leads_neither_to_itself_nor_to_its_host(agent, door, host, port):
    """Whatever listens there, a control plane for one, is none of the sandbox's business."""
    with pytest.raises(TurnedAwayError):
        agent.dial(host, port, door)
    assert agent.reason() in ("reserved_address", "reserved_name", "not_allowed_domain")
    assert agent.reached_nobody()
    assert agent.works(door)


def test_the_proxy_answers_requests_for_itself_with_no(agent):
    for target in ("/", "/policy", "/metrics", "/health", "*"):
        with agent.sandbox.connect("127.0.0.1", 3128) as client:
            method = "OPTIONS" if target == "*" else "GET"
            assert request(client, target, "127.0.0.1:3128", method).problem["reason"] == "protocol_refused"
    assert agent.reached_nobody()
    assert agent.works("absolute")


@pytest.mark.parametrize("proxy", ["connect", "socks"])
def test_a_relay_inside_of_the_sandbox_changes_nothing(agent, proxy):
    """Who asks does not matter, so it is no use to ask through somebody else."""
    port = {"connect": 3128, "socks": 1080}[proxy]
    ask = {"connect": ask_for_tunnel, "socks": ask_socks}[proxy]
    with agent.sandbox.call(socket.create_server, ("127.0.0.1", 9999)) as listener:

        def relay() -> None:
            for _ in range(2):
                near, _ = listener.accept()
                far = agent.sandbox.connect("127.0.0.1", port)
                up = threading.Thread(target=pump, args=(near, far))
                up.start()
                pump(far, near)
                up.join()
                near.close()
                far.close()

        relaying = agent.sandbox.start(relay)
        with pytest.raises(TurnedAwayError):
            ask(agent.sandbox.connect("127.0.0.1", 9999), "evil.test", 80)
        assert agent.reached_nobody()
        with ask(agent.sandbox.connect("127.0.0.1", 9999), "plain.test", 80) as client:
            assert request(client, "/", "plain.test", Connection="close").status == 200
        relaying.result(60)


def pump(source: socket.socket, sink: socket.socket) -> None:
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


def test_one_connection_opens_no_door_for_another(enter):
    """Firewalls that follow FTP let in, or out, whatever a PORT command announces."""
    agent = enter("mode: block-all\negress: {allowed_domains: [plain.test, 'v4.test:21']}")
    command = b"PORT 203,0,113,99,0,80\r\n"

    def script(connection: socket.socket) -> bytes:
        connection.sendall(b"220 ready\r\n")
        heard = connection.recv(len(command), socket.MSG_WAITALL)
        connection.sendall(b"227 Entering Passive Mode (203,0,113,99,0,80)\r\n")
        return heard

    with scripted_server(agent.universe, script, 21) as served, agent.dial("v4.test", 21) as control:
        assert control.recv(100) == b"220 ready\r\n"
        control.sendall(command)
        assert control.recv(100).startswith(b"227 ")
        assert agent.is_reset(addresses.EVIL, 80, b"\0data")
    assert served.result() == command
    assert {contact.address for contact in agent.universe.wire.contacts()} == {addresses.RESOLVER, addresses.PUBLIC}
    assert agent.works()


# What is told, and what is not.


def test_nothing_that_is_said_can_forge_a_line_of_the_log(agent, log):
    forged = b'plain.test"}\r\n{"v":1,"event":"flow.allowed","sandbox":"\x1b[2J\0\xff'
    with pytest.raises(TurnedAwayError):
        ask_socks(agent.sandbox.connect("127.0.0.1", 1080), forged, 80)
    heads = [
        b"CONNECT %b:80 HTTP/1.1\r\n\r\n",
        b"GET http://%b/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n",
    ]
    for head in heads:
        with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
            proxy.sendall(head % forged)
            assert received(proxy).startswith(b"HTTP/1.1 403 ")
    query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + bytes([len(forged)]) + forged + b"\4test\0" + b"\0\1\0\1"
    with agent.sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", 53))
        client.send(query)
        assert client.recv(512)[:2] == b"\0\7"
    text = log.read_bytes()
    assert text.isascii()
    assert not set(text) & (set(range(32)) - {10})
    events = [json.loads(line) for line in text.splitlines()]
    assert all(event["sandbox"].startswith("s") for event in events)
    assert not any(event["event"] == "flow.allowed" and event["sandbox"] == "" for event in events)
    assert agent.reached_nobody()
    assert agent.works()


def test_secrets_are_not_told(agent, log):
    secret = "hunter2hunter2"
    headers = {"Authorization": f"Bearer {secret}", "Cookie": secret, "Proxy-Authorization": f"Basic {secret}"}
    with agent.dial("plain.test", 80) as client:
        assert request(client, f"/{secret}?key={secret}", "plain.test", **headers).status == 200
        assert request(client, f"/{secret}?key={secret}", "evil.test", **headers).status == 403
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        assert request(proxy, f"http://plain.test/{secret}?{secret}", "plain.test", **headers).status == 200
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        assert request(proxy, f"http://evil.test/{secret}?{secret}", "evil.test", **headers).status == 403
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        assert request(proxy, f"http://{secret}@plain.test/", "plain.test", **headers).status == 403
    assert secret not in log.read_text()
    assert not any(secret in str(denial) for denial in agent.denials())


def test_a_flood_of_denials_does_not_fill_the_disk(enter):
    agent = enter("mode: block-all\negress: {allowed_domains: [plain.test]}", dns_per_second=100000)
    query = dns.message.make_query("evil.test", "A").to_wire()
    count = 3000
    with agent.sandbox.connect("127.0.0.1", 53) as client:
        sending = threading.Thread(target=client.sendall, args=((struct.pack("!H", len(query)) + query) * count,))
        sending.start()
        for _ in range(count):
            (length,) = struct.unpack("!H", client.recv(2, socket.MSG_WAITALL))
            client.recv(length, socket.MSG_WAITALL)
        sending.join()
    assert agent.works()
    told = agent.audit()
    denied = [line for line in told if line["event"] == "dns.denied"]
    assert 1000 <= len(denied) < count
    assert len(agent.denials()) == 1000
    assert agent.reason() == "not_allowed_domain"


# Clients that do not wait.


def test_a_client_that_does_not_wait_for_its_tunnel(agent):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        get = b"GET /eager HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n"
        proxy.sendall(b"CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n" + get)
        assert read_head(proxy).startswith(b"HTTP/1.1 200 ")
        assert received(proxy).endswith(b"plain.test /eager\n")


def test_a_client_that_does_not_wait_for_socks(agent):
    with agent.sandbox.connect("127.0.0.1", 1080) as proxy:
        get = b"GET /eager HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n"
        proxy.sendall(b"\5\1\0" + b"\5\1\0\3\x0aplain.test\0\x50" + get)
        assert received(proxy).endswith(b"plain.test /eager\n")


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"\5\1\2", b"\5\xff"),
        (b"\5\1\0\5\2\0\3\x0aplain.test\0\x50", b"\5\0\5\7\0\1\0\0\0\0\0\0"),
        (b"\5\1\0\5\3\0\3\x0aplain.test\0\x50", b"\5\0\5\7\0\1\0\0\0\0\0\0"),
        (b"\4\1\0\x50\xcb\0\x71\x63\0", b"\0\x5b\0\0\0\0\0\0"),
        (b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n", b""),
    ],
    ids=["password", "bind", "udp", "socks4", "http"],
)
def test_what_socks_does_not_do(agent, data, answer):
    with agent.sandbox.connect("127.0.0.1", 1080) as proxy:
        proxy.sendall(data)
        assert received(proxy) == answer
    assert agent.reached_nobody()
    assert agent.works("socks")
