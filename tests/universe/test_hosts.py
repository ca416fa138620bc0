"""Every service answers the gateway as it should, and witnesses it."""

import socket
import ssl

import pytest

from tests.universe import Seen, addresses
from tests.universe.clients import dial, fetch, received

publicly = pytest.mark.parametrize("address", [addresses.PUBLIC, addresses.PUBLIC_V6])


class TestServices:
    @publicly
    @pytest.mark.parametrize("port", [addresses.ECHO, addresses.DATABASE])
    def test_echo_sends_everything_back_and_then_the_end(self, universe, address, port):
        with dial(universe.gateway, address, port) as client:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            assert received(client) == b"hello"
        assert universe.internet.seen == [Seen("connection", address, port)]

    def test_discard_counts(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.DISCARD) as client:
            client.sendall(bytes(3_000_000))
            client.shutdown(socket.SHUT_WR)
            assert received(client) == b"3000000\n"

    def test_stream_sends_without_end(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.STREAM) as client, client.makefile("rb") as file:
            assert file.read(3_000_000) == bytes(3_000_000)

    def test_ssh_speaks_first(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.SSH) as client:
            assert client.recv(99).startswith(b"SSH-2.0-")

    def test_reset_resets(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.RESET) as client:
            client.sendall(b"hello?")
            with pytest.raises(ConnectionResetError):
                client.recv(1)

    def test_silent_says_nothing_until_one_gives_up(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.SILENT) as client:
            client.sendall(b"hello?")
            client.shutdown(socket.SHUT_WR)
            assert received(client) == b""

    def test_many_connections_at_once(self, universe):
        clients = [dial(universe.gateway, addresses.PUBLIC, addresses.ECHO) for _ in range(300)]
        for client in clients:
            client.sendall(b"x")
        for client in clients:
            assert client.recv(1) == b"x"
            client.close()
        assert len(universe.internet.witness.of_kind("connection")) == 300

    @pytest.mark.parametrize("address", [addresses.PUBLIC, addresses.PUBLIC_V6, "8.8.8.8"])
    @pytest.mark.parametrize("port", [addresses.ECHO, addresses.HTTPS])
    def test_udp_is_echoed_from_the_address_it_was_sent_to(self, universe, address, port):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with universe.gateway.call(socket.socket, family, socket.SOCK_DGRAM) as client:
            client.settimeout(60)
            client.connect((address, port))
            client.send(b"hello")
            assert client.recv(99) == b"hello"
        assert universe.internet.seen == [Seen("datagram", address, port)]


PAGES = {
    "/slow": (b"slow\n", "200 OK"),
    "/until-close": (b"until the end\n", "200 OK"),
    "/chunked": (b"4\r\none \r\n4\r\ntwo \r\n6\r\nthree\n\r\n0\r\n\r\n", "200 OK"),
    "/bytes/5": (bytes(5), "200 OK"),
    "/redirect/http://evil.test/": (b"", "302 Found"),
    "/echo": (b"GET /echo HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n", "200 OK"),
    "http://plain.test/absolute": (b"plain.test http://plain.test/absolute\n", "200 OK"),
}


class TestWeb:
    @publicly
    def test_a_page_names_its_host_and_path(self, universe, address):
        with dial(universe.gateway, address, addresses.HTTP) as client:
            head, body = fetch(client, "/some/where")
        assert head.startswith("HTTP/1.1 200 OK\r\n")
        assert body == b"plain.test /some/where\n"
        assert universe.internet.witness.of_kind("request") == [
            Seen("request", address, addresses.HTTP, "GET plain.test /some/where")
        ]

    @pytest.mark.parametrize("target", PAGES)
    def test_pages_behave_as_they_should(self, universe, target):
        body, status = PAGES[target]
        with dial(universe.gateway, addresses.PUBLIC, addresses.HTTP) as client:
            head, answer = fetch(client, target)
        assert (head.split("\r\n")[0], answer) == (f"HTTP/1.1 {status}", body)

    def test_a_connection_is_kept_alive_and_each_request_is_seen(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.HTTP) as client:
            client.sendall(b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            client.sendall(b"PUT /2 HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")
            fetch(client, "/3", host="c")
        assert [seen.what for seen in universe.internet.witness.of_kind("request")] == [
            "POST a /1",
            "PUT b /2",
            "GET c /3",
        ]
        assert len(universe.internet.witness.of_kind("connection")) == 1

    def test_hang_and_stall_and_reset(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.HTTP) as client:
            client.sendall(b"GET /hang HTTP/1.1\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            assert received(client) == b""
        with dial(universe.gateway, addresses.PUBLIC, addresses.HTTP) as client:
            client.sendall(b"GET /stall HTTP/1.1\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            assert received(client).endswith(b"\r\n\r\nhalf")
        with dial(universe.gateway, addresses.PUBLIC, addresses.HTTP) as client:
            client.sendall(b"GET /reset HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                received(client)

    def test_an_upgrade_leads_to_another_protocol(self, universe):
        with dial(universe.gateway, addresses.PUBLIC, addresses.HTTP) as client:
            client.sendall(b"GET /upgrade HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            assert client.recv(999).startswith(b"HTTP/1.1 101 ")
            client.sendall(b"\x00raw")
            assert client.recv(99) == b"\x00raw"

    def test_one_address_has_a_certificate_for_each_name(self, universe):
        context = universe.certificates.client_context()
        for name in ("one.cdn.test", "two.cdn.test"):
            with (
                dial(universe.gateway, addresses.CDN, addresses.HTTPS) as client,
                context.wrap_socket(client, server_hostname=name) as tls,
            ):
                assert fetch(tls, "/", host=name)[1] == f"{name} /\n".encode()
        assert [seen.what for seen in universe.internet.seen if seen.kind in ("handshake", "request")] == [
            "one.cdn.test",
            "GET one.cdn.test /",
            "two.cdn.test",
            "GET two.cdn.test /",
        ]

    def test_nobody_else_trusts_the_authority(self, universe):
        with (
            dial(universe.gateway, addresses.CDN, addresses.HTTPS) as client,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            ssl.create_default_context().wrap_socket(client, server_hostname="one.cdn.test")
