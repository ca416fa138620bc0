"""HTTP in plain text, by somebody who means harm (ways out 4, 14, 17 to 19, 46): every request is decided by itself."""

import contextlib
import socket

import pytest

from tests.gateway.ways_out.agents import (
    TUNNELS,
    WEB_DOORS,
    TurnedAwayError,
    answer,
    ask_for_tunnel,
    read_head,
    request,
    scripted_server,
)
from tests.universe import addresses
from tests.universe.clients import received

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n"


@pytest.mark.parametrize("door", WEB_DOORS)
def test_a_denied_host_in_plain_text(agent, door):
    six = door.endswith("6")
    if door.startswith("direct"):
        page = agent.get(addresses.EVIL_V6 if six else addresses.EVIL, called="evil.test")
    else:
        try:
            page = agent.get("evil.test", door=door)
        except TurnedAwayError as denied:
            page = denied.answer
    assert page == 2 or page.problem["reason"] == "not_allowed_domain"
    assert agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works(door)


@pytest.mark.parametrize("door", TUNNELS)
@pytest.mark.parametrize("called", ["evil.test", "www.plain.test", "v4.test", addresses.EVIL, "plain.test:8080"])
def test_a_request_for_another_host_than_was_dialled(agent, door, called):
    with agent.dial("plain.test", 80, door) as client:
        assert request(client, "/", called).problem["reason"] == "name_mismatch"
        assert client.recv(1) == b""
    assert agent.reason() == "name_mismatch"
    assert agent.requests() == []
    assert agent.works(door)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: plain.test\r\nHost: evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.test\r\nHost: plain.test\r\n\r\n",
        b"GET http://evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
        b"GET http://plain.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://plain.test@evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
        b"GET //evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: plain.test, evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: evil.test\r\nHost: plain.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: plain.test\r\nX: y\r\n\tHost: evil.test\r\n\r\n",
        b"GET / HTTP/1.1\nHost: evil.test\n\n",
        b"\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b" GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: evil.test\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: evil.test\r\n\r\n",
        b"GET / http/1.1\r\nHost: evil.test\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET  /  HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    ],
)
@pytest.mark.parametrize("door", ["direct", "socks6"])
def test_a_head_that_could_be_read_in_two_ways(agent, head, door):
    assert agent.say("plain.test", 80, head, door).startswith(b"HTTP/1.1 403 ")
    assert agent.reason() in ("protocol_refused", "name_mismatch")
    assert agent.requests() == []
    assert agent.works(door)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("end", [True, False], ids=["and-ends", "and-waits"])
def test_a_head_in_small_pieces(agent, size, end):
    """What cannot be acted upon may reach the server, but not what tells another host."""
    head = b"GET / HTTP/1.1\r\nHost: evil.test\r\n" + (b"" if end else b"\r\n")
    with agent.dial("plain.test", 80) as client, contextlib.suppress(OSError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(head), size):
            client.sendall(head[start : start + size])
        if end:
            client.shutdown(socket.SHUT_WR)
        assert received(client).startswith(b"HTTP/1.1 403 ")
    assert agent.reason() in ("name_mismatch", "protocol_refused")
    assert agent.requests() == []
    assert agent.works()


@pytest.mark.parametrize("line", [b"GET http://evil.test/ HTTP/1.0", b"GET http://evil.test/", b"GET /"])
def test_a_line_that_breaks_off_never_ends_for_the_server(agent, line):
    """The line has been passed on, since no server can act on half of one; so its end must not be."""

    def script(connection: socket.socket) -> bytes | type[Exception]:
        with contextlib.suppress(ConnectionResetError):
            return received(connection)
        return ConnectionResetError

    with scripted_server(agent.universe, script) as served, agent.dial("v4.test", 8080) as client:
        client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            received(client)
    assert served.result() is ConnectionResetError
    assert agent.reason() == "protocol_refused"
    assert agent.works()


SMUGGLING = {
    "cl-te": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te-cl": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two-lengths": b"Content-Length: 0\r\nContent-Length: 43\r\n\r\n",
    "length-list": b"Content-Length: 0, 43\r\n\r\n",
    "length-sign": b"Content-Length: +0\r\n\r\n",
    "length-hex": b"Content-Length: 0x0\r\n\r\n",
    "length-blank": b"Content-Length:\t0\r\n\r\n",
    "length-space": b"Content-Length : 43\r\n\r\n",
    "length-underscore": b"Content_Length: 43\r\n\r\n",
    "te-case": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "te-quoted": b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "te-vertical-tab": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "te-twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "te-folded": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "te-space": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "te-nul": b"Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n",
    "connection-drops-length": b"Connection: content-length\r\nContent-Length: 43\r\n\r\n",
    "lf-only": b"X: y\n\n",
    "chunk-overflow": b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
    "chunk-minus": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "chunk-lf": b"Transfer-Encoding: chunked\r\n\r\n0\n\n",
    "chunk-extension": b"Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n",
    "chunk-longer": b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n",
    "trailer": b"Transfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.test\r\n\r\n",
}


@pytest.mark.parametrize("rest", SMUGGLING.values(), ids=SMUGGLING)
@pytest.mark.parametrize("door", ["direct", "connect"])
def test_a_request_hidden_behind_another(agent, rest, door):
    """The server may see what is asked of it, but never a request that was not decided."""
    with agent.dial("plain.test", 80, door) as client, contextlib.suppress(ConnectionResetError):
        client.sendall(b"POST / HTTP/1.1\r\nHost: plain.test\r\n" + rest + SMUGGLED)
        assert b"HTTP/1.1 403 " in received(client)
    assert agent.reason() == "protocol_refused"
    assert not any("evil.test" in seen for seen in agent.requests())
    assert agent.works(door)


@pytest.mark.parametrize("rest", SMUGGLING.values(), ids=SMUGGLING)
def test_a_request_hidden_behind_one_to_the_proxy(agent, rest):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy, contextlib.suppress(ConnectionResetError):
        proxy.sendall(b"POST http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n" + rest + SMUGGLED)
        assert b"HTTP/1.1 403 " in received(proxy)
    assert agent.reason() == "protocol_refused"
    assert not any("evil.test" in seen for seen in agent.requests())
    assert agent.works("absolute")


@pytest.mark.parametrize("door", TUNNELS)
def test_the_second_request_on_a_connection(agent, door):
    with agent.dial("plain.test", 80, door) as client:
        assert request(client, "/first", "plain.test").status == 200
        assert request(client, "/second", "evil.test").problem["reason"] == "name_mismatch"
        assert client.recv(1) == b""
    assert agent.requests() == ["GET plain.test /first"]
    assert agent.works(door)


@pytest.mark.parametrize("door", TUNNELS)
def test_requests_in_one_breath(agent, door):
    first = b"GET /first HTTP/1.1\r\nHost: plain.test\r\n\r\n"
    second = b"POST /second HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 2\r\n\r\nxx"
    with agent.dial("plain.test", 80, door) as client:
        client.sendall(first + second + SMUGGLED + first)
        assert answer(client).body == b"plain.test /first\n"
        assert answer(client).body == b"plain.test /second\n"
        assert answer(client).problem["reason"] == "name_mismatch"
        assert client.recv(1) == b""
    assert agent.requests() == ["GET plain.test /first", "POST plain.test /second"]
    assert agent.works(door)


def test_the_proxy_carries_one_request_and_no_second(agent):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        proxy.sendall(b"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n" + SMUGGLED)
        page, _, rest = received(proxy).partition(b"plain.test /\n")
    assert page.startswith(b"HTTP/1.1 200 ")
    assert rest == b""
    assert agent.requests() == ["GET plain.test /"]


@pytest.mark.parametrize("offer", ["h2c", "HTTP/2.0", "TLS/1.0", "connect-udp", "websocket, h2c", "H2C"])
def test_an_offer_to_switch_to_what_cannot_be_checked_is_not_passed_on(agent, offer):
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": offer, "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    with agent.dial("plain.test", 80) as client:
        shown = request(client, "/echo", "plain.test", **headers).body.lower()
        assert request(client, "/next", "plain.test").body == b"plain.test /next\n"
    assert b"upgrade" not in shown
    assert b"http2-settings" not in shown


def test_a_server_that_switches_without_having_been_asked(agent):
    def script(connection: socket.socket) -> bytes:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            return received(connection)
        return b""

    with scripted_server(agent.universe, script) as served, agent.dial("v4.test", 8080) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: v4.test:8080\r\n\r\n")
        assert received(client).startswith(b"HTTP/1.1 502 ")
    assert served.result() == b""
    assert agent.works()


@pytest.mark.parametrize("target", ["evil.test:443", "evil.test:80", "plain.test:80", f"{addresses.EVIL}:80"])
@pytest.mark.parametrize("door", TUNNELS)
def test_a_tunnel_inside_of_a_connection(agent, door, target):
    host, _, port = target.rpartition(":")
    with agent.dial("plain.test", 80, door) as client, pytest.raises(TurnedAwayError) as denied:
        ask_for_tunnel(client, host, int(port))
    assert denied.value.answer.problem["reason"] == agent.reason() == "protocol_refused"
    assert agent.requests() == []
    assert agent.works(door)


def test_after_a_refused_tunnel_the_connection_ends(agent):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        refused = b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n"
        granted = b"CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n"
        proxy.sendall(refused + granted + b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
        assert received(proxy).count(b"HTTP/1.1 ") == 1
    assert agent.reached_nobody()
    assert agent.works("connect")


def test_a_redirection_is_another_decision(agent):
    run = agent.sandbox.run(["curl", "-sSL", "--max-time", "10", "http://plain.test/redirect/http://evil.test/"])
    assert run.returncode == 6  # could not resolve host
    assert agent.requests() == ["GET plain.test /redirect/http://evil.test/"]
    page = agent.get(addresses.EVIL, called="evil.test")
    assert page.problem["reason"] == "not_allowed_domain"
    followed = agent.sandbox.run(["curl", "-sSL", "--max-time", "10", "http://plain.test/redirect/http://v4.test/"])
    assert followed.stdout == "v4.test /\n"


@pytest.mark.parametrize(
    "head",
    [
        "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n" + "X: y\r\n" * 255,
        "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n" + "X:y\r\n" * 200 + f"Y: {'y' * 64300}\r\n",
        "GET http://plain.test/ HTTP/1.0\r\n" + "X: y\r\n" * 256,
    ],
    ids=["lines", "bytes", "old"],
)
def test_a_head_at_the_limit_of_the_proxy(agent, head):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        proxy.sendall(f"{head}\r\n".encode())
        assert received(proxy)[:13] in (b"HTTP/1.1 200 ", b"HTTP/1.1 403 ")
    assert agent.works("absolute")


@pytest.mark.parametrize("host", ["evil.test", "evil.test:8080", "EVIL.test."])
def test_in_allow_all_a_denied_name_is_denied_to_those_who_dial_its_address(share, host):
    agent = share("mode: allow-all\negress: {denied_domains: [evil.test]}")
    assert agent.get(addresses.EVIL, called=host).problem["reason"] == agent.reason() == "denied_domain"
    assert agent.requests() == []
    assert agent.get(addresses.EVIL, called="good.test").status == 200
