"""HTTP in plain text, by somebody who means no harm: everything works as if there were no gateway."""

import contextlib
import socket
import struct
import threading

import pytest

from tests.gateway.ways_out.agents import TUNNELS, WEB_DOORS, answer, read_head, request, scripted_server
from tests.universe import addresses
from tests.universe.clients import received

GET = b"GET %b HTTP/1.1\r\nHost: v4.test:8080\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: v4.test:8080\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize("door", TUNNELS)
def test_requests_follow_each_other(agent, door):
    with agent.dial("plain.test", 80, door) as client:
        for page in ("/one", "/two", "/three"):
            assert request(client, page, "plain.test").body == f"plain.test {page}\n".encode()
    assert len(agent.universe.internet.witness.of_kind("connection")) == 1


@pytest.mark.parametrize("door", WEB_DOORS)
@pytest.mark.parametrize(
    ("page", "body"),
    [
        ("/bytes/300000", bytes(300000)),
        ("/chunked", b"one two three\n"),
        ("/until-close", b"until the end\n"),
        ("/slow", b"slow\n"),
        ("/bytes/0", b""),
    ],
)
def test_bodies_of_answers(agent, door, page, body):
    assert agent.get("plain.test", page, door=door).body == body


@pytest.mark.parametrize("door", TUNNELS)
def test_bodies_of_requests(agent, door):
    with agent.dial("plain.test", 80, door) as client:
        head = "POST /echo HTTP/1.1\r\nHost: plain.test\r\n"
        client.sendall(f"{head}Content-Length: 200000\r\n\r\n".encode() + bytes(200000))
        assert answer(client).body.endswith(b"\r\n\r\n" + bytes(200000))
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for piece in (b"3\r\nabc\r", b"\n10\r\n0123456789abcdef\r\n", b"0\r\n", b"\r\n"):
            client.sendall(piece)
        assert answer(client).body.endswith(b"\r\n\r\nabc0123456789abcdef")
        assert request(client, "/", "plain.test").status == 200


@pytest.mark.parametrize("door", TUNNELS)
def test_a_client_that_waits_before_it_sends_its_body(agent, door):
    with agent.dial("plain.test", 80, door) as client:
        head = b"POST /echo HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        client.sendall(head)
        assert read_head(client) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert answer(client).body == head + b"body"
        assert request(client, "/", "plain.test").status == 200


@pytest.mark.parametrize("door", WEB_DOORS)
def test_close_means_close(agent, door):
    target = "http://plain.test/" if door.startswith("absolute") else "/"
    if door.startswith("absolute"):
        client = agent.sandbox.connect("::1" if door.endswith("6") else "127.0.0.1", 3128)
    else:
        client = agent.dial("plain.test", 80, door)
    with client:
        assert request(client, target, "plain.test", Connection="close").status == 200
        assert client.recv(1) == b""


@pytest.mark.parametrize(("headers", "stays"), [("", False), ("Connection: keep-alive\r\n", True)])
def test_http_1_0(agent, headers, stays):
    with agent.dial("plain.test", 80) as client:
        client.sendall(f"GET / HTTP/1.0\r\nHost: plain.test\r\n{headers}\r\n".encode())
        assert answer(client).status == 200
        if stays:
            assert request(client, "/", "plain.test").status == 200
        else:
            assert client.recv(1) == b""


def test_http_1_0_without_a_host_through_the_proxy(agent):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        proxy.sendall(b"GET http://plain.test/page?x=/y HTTP/1.0\r\n\r\n")
        assert received(proxy).endswith(b"\r\n\r\nplain.test /page?x=/y\n")


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://plain.test", "/"), ("http://plain.test?a=/b", "/?a=/b"), ("http://plain.test:80/a//b?c", "/a//b?c")],
)
def test_the_proxy_asks_for_the_same_page(agent, url, target):
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        authority = url.removeprefix("http://").partition("/")[0].partition("?")[0]
        assert request(proxy, url, authority).status == 200
    assert [seen.partition("plain.test")[2].split()[-1] for seen in agent.requests()] == [target]


def test_the_proxy_keeps_to_itself_what_is_meant_for_it(agent):
    headers = {
        "Proxy-Connection": "keep-alive",
        "Proxy-Authorization": "Basic c2VjcmV0",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "X-End": "2",
    }
    with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
        shown = request(proxy, "http://plain.test/echo", "plain.test", **headers).body
    assert shown == b"GET /echo HTTP/1.1\r\nhost: plain.test\r\nx-end: 2\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("door", TUNNELS)
def test_answers_without_a_body(agent, door):
    with agent.dial("plain.test", 80, door) as client:
        assert request(client, "/", "plain.test", "HEAD").body == b""
        assert request(client, "/status/204", "plain.test").status == 204
        assert request(client, "/status/304", "plain.test").status == 304
        assert request(client, "/last", "plain.test").body == b"plain.test /last\n"


@pytest.mark.parametrize("door", WEB_DOORS)
def test_a_websocket(agent, door):
    if door.startswith("absolute"):
        client = agent.sandbox.connect("::1" if door.endswith("6") else "127.0.0.1", 3128)
    else:
        client = agent.dial("plain.test", 80, door)
    target = "http://plain.test/upgrade" if door.startswith("absolute") else "/upgrade"
    with client:
        upgrade = "Host: plain.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        client.sendall(f"GET {target} HTTP/1.1\r\n{upgrade}".encode() + b"early ")
        assert read_head(client).startswith(b"HTTP/1.1 101 ")
        client.sendall(b"\x81\x00GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")  # the server's business, from here on
        client.shutdown(socket.SHUT_WR)
        assert received(client) == b"early \x81\x00GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"


def test_an_offer_that_is_declined(agent):
    with agent.dial("plain.test", 80) as client:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
        assert request(client, "/declined", "plain.test", **headers).body == b"plain.test /declined\n"
        assert request(client, "/next", "plain.test").body == b"plain.test /next\n"


def test_interim_answers(agent):
    def script(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with scripted_server(agent.universe, script), agent.dial("v4.test", 8080) as client:
        client.sendall(GET % b"/")
        assert read_head(client).startswith(b"HTTP/1.1 103 ")
        assert answer(client).body == b"ok"


def test_a_large_head_of_an_answer(agent):
    cookies = b"".join(b"Set-Cookie: %d=%b\r\n" % (number, b"x" * 1000) for number in range(60))

    def script(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + cookies + b"Content-Length: 2\r\n\r\nok")

    with scripted_server(agent.universe, script), agent.dial("v4.test", 8080) as client:
        client.sendall(GET % b"/")
        assert answer(client).body == b"ok"


@pytest.mark.parametrize("connection_header", [b"Connection: close\r\n", b""])
def test_an_answer_before_the_end_of_the_request(agent, connection_header):
    def script(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\n" + connection_header + b"Content-Length: 3\r\n\r\nno\n")

    with scripted_server(agent.universe, script), agent.dial("v4.test", 8080) as client:
        client.sendall(POST + bytes(10))
        page = answer(client)
        assert (page.status, page.body) == (413, b"no\n")
        with contextlib.suppress(ConnectionError):
            client.sendall(bytes(1000000))
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""


def test_an_early_answer_to_a_request_that_goes_on(agent):
    def script(connection: socket.socket) -> int:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n")
        taken = 0
        while taken < 1000000:
            taken += len(connection.recv(min(65536, 1000000 - taken)))
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n")
        return taken

    with scripted_server(agent.universe, script) as served, agent.dial("v4.test", 8080) as client:
        client.sendall(POST)
        assert answer(client).body == b"1\n"
        client.sendall(bytes(1000000) + GET % b"/next")
        assert answer(client).body == b"2\n"
    assert served.result() == 1000000


@pytest.mark.parametrize("page", ["/reset", "/stall"])
def test_an_answer_that_breaks_off_does_not_look_complete(agent, page):
    with agent.dial("plain.test", 80) as client:
        client.sendall(f"GET {page} HTTP/1.1\r\nHost: plain.test\r\n\r\n".encode())
        assert read_head(client).startswith(b"HTTP/1.1 200 ")
        assert client.recv(4, socket.MSG_WAITALL) == b"half"
        if page == "/reset":
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_a_server_that_says_more_than_it_was_asked(agent):
    """A second answer would be taken for that to the next request."""

    def script(connection: socket.socket) -> None:
        read_head(connection)
        ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        connection.sendall(ok + ok)
        read_head(connection)

    with scripted_server(agent.universe, script), agent.dial("v4.test", 8080) as client:
        client.sendall(GET % b"/")
        assert received(client) == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_server_that_hangs_up_between_requests(agent):
    """The client must learn of it before it sends another request in vain."""

    def script(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with scripted_server(agent.universe, script), agent.dial("v4.test", 8080) as client:
        client.sendall(GET % b"/")
        assert answer(client).body == b"ok"
        assert client.recv(1) == b""


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_client_that_loses_patience(agent, how):
    """Nothing may be held for a client that is gone; one that has ended its side alone still gets its answer."""
    asked = threading.Event()

    def script(connection: socket.socket) -> bytes | None:
        read_head(connection)
        asked.set()
        try:
            end = connection.recv(1)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except ConnectionResetError:
            return None
        return end

    with scripted_server(agent.universe, script) as served, agent.dial("v4.test", 8080) as client:
        client.sendall(GET % b"/")
        asked.wait(60)
        if how == "half":
            client.shutdown(socket.SHUT_WR)
            assert answer(client).body == b"ok"
        elif how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        else:
            client.close()
    assert served.result() == (None if how == "reset" else b"")


@pytest.mark.parametrize("door", ["direct", "absolute", "connect"])
def test_a_server_that_is_not_there(agent, door):
    if door == "connect":
        with agent.sandbox.connect("127.0.0.1", 3128) as proxy:
            proxy.sendall(b"CONNECT v4.test:8080 HTTP/1.1\r\nHost: v4.test:8080\r\n\r\n")
            page = answer(proxy)
    else:
        page = agent.get("v4.test", port=8080, door=door)
    assert page.status == 502
    assert page.problem["detail"] == "v4.test:8080: Connection refused"
    agent.settle()
    closed = agent.audit()[-1]
    assert (closed["event"], closed["how"], closed["name"]) == ("flow.closed", "failed", "v4.test")


def test_bytes_are_counted(agent):
    with agent.dial("plain.test", 80) as client:
        first = b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n"
        second = b"GET /chunked HTTP/1.1\r\nHost: plain.test\r\n\r\n"
        client.sendall(first[:9])
        client.sendall(first[9:] + second)
        client.shutdown(socket.SHUT_WR)
        down = len(received(client))
    agent.settle()
    allowed, closed = agent.audit()[-2:]
    assert (allowed["event"], allowed["name"], allowed["claimed"]) == ("flow.allowed", "plain.test", "plain.test")
    assert (closed["event"], closed["how"]) == ("flow.closed", "closed")
    assert (closed["bytes_up"], closed["bytes_down"]) == (len(first + second), down)


def test_a_name_is_enough_where_its_address_is_not_known(agent):
    """Dialled by address, a request for a granted name goes to where that name is, not to the address."""
    assert agent.get(addresses.EVIL, called="plain.test").body == b"plain.test /\n"
    assert {seen.address for seen in agent.universe.internet.witness.of_kind("request")} == {addresses.PUBLIC_V6}
