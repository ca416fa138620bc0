"""TLS (ways out 12 to 16, 42): the server name can narrow a grant, never widen one, however it is sent."""

import contextlib
import socket
import ssl

import pytest

from tests.gateway.ways_out.agents import TUNNELS, TurnedAwayError, request, scripted_server
from tests.universe import Contact, addresses
from tests.universe.clients import received
from tests.wire.hellos import ech, extension, hello, hello_of_wire_size, padding, record, server_name, vector

ACCESS_DENIED = bytes.fromhex("15030300020231")
EMPTY_ALERT = bytes.fromhex("1503010002015a")  # a warning: user_canceled


@pytest.mark.parametrize("door", TUNNELS)
def test_end_to_end(agent, door):
    """The certificate is the server's own: nobody is in the middle."""
    with agent.handshake("plain.test", "plain.test", door=door) as client:
        assert request(client, "/secret", "plain.test").body == b"plain.test /secret\n"
        assert dict(client.getpeercert()["subjectAltName"]) == {"DNS": "plain.test"}
    assert agent.handshakes() == ["plain.test"]


@pytest.mark.parametrize("door", TUNNELS)
@pytest.mark.parametrize("name", ["evil.test", "v4.test", "www.plain.test"])
def test_another_name_than_was_dialled(agent, door, name):
    with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
        agent.handshake("plain.test", name, door=door)
    assert agent.reason() == "name_mismatch"
    assert agent.handshakes() == []
    assert agent.works(door)


@pytest.mark.parametrize("address", [addresses.EVIL, addresses.EVIL_V6])
def test_a_granted_name_at_an_address_of_somebody_else(agent, address):
    """The client's address plays no part: the name is resolved, and dialled where it is."""
    with agent.handshake(address, "v4.test") as client:
        assert request(client, "/", "v4.test").body == b"v4.test /\n"
    assert {seen.address for seen in agent.universe.internet.witness.of_kind("handshake")} == {addresses.PUBLIC}
    assert Contact("tcp", address, 443) not in agent.universe.wire.contacts()


@pytest.mark.parametrize("host", [addresses.CDN, "one.cdn.test"])
def test_two_names_on_one_address(agent, host):
    with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
        agent.handshake(host, "two.cdn.test")
    assert agent.reason() == ("name_mismatch" if host == "one.cdn.test" else "not_allowed_domain")
    assert agent.get(host, called="two.cdn.test").status == 403
    assert agent.handshakes() == agent.requests() == []
    with agent.handshake(host, "one.cdn.test") as client:
        assert request(client, "/", "one.cdn.test").body == b"one.cdn.test /\n"
    assert agent.get(host, called="one.cdn.test").status == 200


@pytest.mark.parametrize("address", [addresses.PUBLIC, addresses.PUBLIC_V6])
def test_no_name_at_an_address_that_is_not_granted(agent, address):
    with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
        agent.handshake(address, None)
    assert agent.reason() == "not_allowed_address"
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("door", TUNNELS)
def test_no_name_where_the_name_is_known_anyway(agent, door):
    with agent.handshake("plain.test", None, door=door) as client:
        assert request(client, "/", "plain.test").status == 200
    assert agent.handshakes() == [""]


@pytest.mark.parametrize("door", ["direct", "connect", "socks"])
@pytest.mark.parametrize("address", ["203.0.113.12", "2001:db8::12"])
def test_a_name_at_an_address_that_is_granted_as_such(agent, door, address):
    with agent.handshake(address, "evil.test", door=door) as client:
        assert request(client, "/", "evil.test").status == 200
    assert {seen.address for seen in agent.universe.internet.witness.of_kind("handshake")} == {address}


@pytest.mark.parametrize("door", ["connect", "socks"])
def test_a_proxy_decides_an_address_as_an_address_whatever_is_said_inside(agent, door):
    with pytest.raises(TurnedAwayError):
        agent.handshake(addresses.PUBLIC, "plain.test", door=door)
    assert agent.reason() == "not_allowed_address"
    assert agent.reached_nobody()
    assert agent.works(door)


def in_records_of(size: int) -> bytes:
    return hello(server_name(b"evil.test"), record_size=size)


STRANGE = {
    "large": hello_of_wire_size(65536),
    "too-large": hello(server_name(b"evil.test"), padding(65500)),
    "tiny-records": in_records_of(1),
    "two-records": in_records_of(40),
    "two-names": hello(server_name(b"plain.test", b"evil.test")),
    "two-extensions": hello(server_name(b"plain.test"), server_name(b"evil.test")),
    "other-type": hello(server_name(b"evil.test", kind=1)),
    "alert-in-front": EMPTY_ALERT + hello(server_name(b"evil.test")),
    "change-cipher-spec-in-front": record(b"\1", kind=20) + hello(server_name(b"evil.test")),
    "empty-record-in-front": record(b"") + hello(server_name(b"evil.test")),
    "application-data-in-front": record(b"x", kind=23) + hello(server_name(b"evil.test")),
    "old-version": record(hello(server_name(b"evil.test"))[5:], version=0x0300),
    "odd-version": b"\x16\x03\x09" + hello(server_name(b"evil.test"))[3:],
    "hidden-name": hello(server_name(b"evil.test"), ech()),
    "hidden-name-draft": hello(server_name(b"evil.test"), ech(0xFFCE)),
    "second-hello-in-the-record": record(hello(server_name(b"plain.test"))[5:] + hello(server_name(b"evil.test"))[5:]),
}


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("door", ["direct6", "connect"])
def test_strange_hellos(agent, data, door):
    with agent.dial("plain.test", 443, door) as client, contextlib.suppress(ConnectionResetError):
        client.sendall(data)
        assert received(client) == ACCESS_DENIED
    assert agent.reason() in ("name_mismatch", "protocol_refused")
    assert agent.handshakes() == []
    assert agent.works(door)


@pytest.mark.parametrize("address", [addresses.EVIL, addresses.EVIL_V6])
@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
def test_strange_hellos_by_address(agent, data, address):
    with agent.dial(address, 443) as client, contextlib.suppress(ConnectionResetError):
        client.sendall(data)
        assert received(client) == ACCESS_DENIED
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("host", [addresses.EVIL, "plain.test"])
def test_a_hello_in_small_pieces(agent, size, host):
    data = hello(server_name(b"evil.test"))
    with agent.dial(host, 443) as client, contextlib.suppress(OSError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            client.sendall(data[start : start + size])
        assert received(client) == ACCESS_DENIED
    assert agent.reason() in ("not_allowed_domain", "name_mismatch")
    assert agent.handshakes() == []
    assert agent.works()


def test_a_hello_in_small_pieces_for_a_granted_name(agent):
    context, incoming, outgoing = agent.universe.certificates.client_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="plain.test")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    with agent.dial(addresses.EVIL, 443) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in outgoing.read():
            client.sendall(bytes([byte]))
        while tls.version() is None:
            incoming.write(client.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
    assert tls.getpeercert()["subjectAltName"] == (("DNS", "plain.test"),)


@pytest.mark.parametrize(
    "data", [b"", b"\x16", hello(server_name(b"plain.test"))[:40]], ids=["nothing", "byte", "half"]
)
@pytest.mark.parametrize("address", [addresses.EVIL, addresses.EVIL_V6])
def test_a_hello_that_never_comes(enter, data, address):
    agent = enter("mode: block-all\negress: {allowed_domains: [plain.test]}", first_bytes_seconds=0)
    assert agent.is_reset(address, 443, data)
    assert agent.reason() == "not_allowed_address"
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("port", [443, 22, 5432])
def test_names_count_on_every_port(agent, port):
    with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
        agent.handshake(addresses.EVIL, "evil.test", port=port)
    assert agent.reached_nobody()
    with agent.dial("plain.test", addresses.DATABASE) as client:
        client.sendall(hello(server_name(b"evil.test")))
        assert received(client) == ACCESS_DENIED
    assert agent.reason() == "name_mismatch"
    assert agent.works()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-agent\r\n",
        b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"EHLO x\r\n",
    ],
    ids=["ssh", "ssl2", "postgres", "smtp"],
)
@pytest.mark.parametrize("address", [addresses.PUBLIC, addresses.PUBLIC_V6])
def test_something_else_than_tls_names_nobody(agent, data, address):
    """Even where the address is that of a granted name: many names may live there."""
    assert agent.is_reset(address, 443, data)
    assert agent.reason() == "not_allowed_address"
    assert agent.reached_nobody()
    assert agent.works()


SSL_REQUEST = bytes.fromhex("0000000804d2162f")
PREFACES = {"postgres": SSL_REQUEST, "postgres-gss": bytes.fromhex("0000000804d21630") + SSL_REQUEST}


@pytest.mark.parametrize("preface", PREFACES.values(), ids=PREFACES)
@pytest.mark.parametrize("name", ["evil.test", "plain.test"])
def test_a_hello_behind_what_databases_say_first(agent, preface, name):
    """The echo that answers here says more than a database would, but not before it has been asked."""
    data = hello(server_name(name.encode()))
    with agent.dial("plain.test", addresses.DATABASE) as client:
        client.sendall(preface)
        assert client.recv(len(preface), socket.MSG_WAITALL) == preface
        client.sendall(data)
        if name == "plain.test":
            assert client.recv(len(data), socket.MSG_WAITALL) == data
        else:
            with pytest.raises(ConnectionResetError):
                client.recv(1)
            assert agent.reason() == "name_mismatch"
    assert agent.works()


@pytest.mark.parametrize("preface", PREFACES.values(), ids=PREFACES)
def test_a_hello_that_does_not_wait_for_the_answer(agent, preface):
    """Databases refuse that as well. The answer tells where TLS begins, and so whether a second hello is asked for."""

    def script(connection: socket.socket) -> bytes:
        with contextlib.suppress(ConnectionResetError):
            return received(connection)
        return b""

    with scripted_server(agent.universe, script) as served:
        agent.is_reset("v4.test", 8080, preface + hello(server_name(b"v4.test")))
    assert b"v4.test" not in served.result()
    assert agent.reason() == "protocol_refused"
    assert agent.works()


@pytest.mark.parametrize("inner", [hello(server_name(b"evil.test")), b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"])
@pytest.mark.parametrize("version", [b"PROXY TCP4 192.0.2.9 192.0.2.9 9 443\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"])
def test_a_connection_inside_of_the_connection(agent, version, inner):
    """Servers behind a load balancer take what it says about a client off the start of the stream."""
    for port in (443, 80):
        assert agent.is_reset("plain.test", port, version + inner) or agent.denials()
        assert agent.reason() == "protocol_refused"
    assert agent.handshakes() == agent.requests() == []
    assert agent.works()


@pytest.mark.parametrize("host", [addresses.EVIL, "plain.test"])
def test_tiny_segments_and_urgent_bytes(agent, host):
    """The gateway ends the connection itself: what it has read is what it passes on, however it came."""
    data = hello(server_name(b"evil.test"))
    address = host if host != "plain.test" else agent.address_of(host)
    client = agent.sandbox.make_socket()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
    with client, contextlib.suppress(ConnectionResetError):
        client.connect((address, 443))
        client.sendall(data[:60])
        client.send(b"!", socket.MSG_OOB)
        client.sendall(data[60:])
        assert received(client) == ACCESS_DENIED
    assert agent.handshakes() == []
    assert agent.works()


@pytest.mark.parametrize("host", [addresses.EVIL, "plain.test"])
def test_data_in_the_first_packet(agent, host):
    address = host if host != "plain.test" else agent.address_of(host)
    client = agent.sandbox.make_socket()
    client.setblocking(True)
    with client, contextlib.suppress(ConnectionResetError):
        client.sendto(hello(server_name(b"evil.test")), socket.MSG_FASTOPEN, (address, 443))
        assert received(client) == ACCESS_DENIED
    assert agent.handshakes() == []
    assert agent.works()


def test_there_is_no_way_to_learn_how_to_hide_a_name(agent):
    """ECH takes a key that is found in HTTPS records, of which there are none."""
    for kind in ("HTTPS", "SVCB"):
        answer = agent.sandbox.resolve("plain.test", kind)
        assert (answer.rcode(), answer.answer) == (0, [])
    assert agent.reached_nobody()
    assert agent.address_of("plain.test")


def test_a_decoy_is_no_reason_to_refuse(agent):
    """Browsers send something that looks like a hidden name all the time."""
    with agent.dial("plain.test", addresses.DATABASE) as client:
        data = hello(server_name(b"plain.test"), ech(), extension(0x0A0A))
        client.sendall(data)
        assert client.recv(len(data), socket.MSG_WAITALL) == data


KEY_OF_X25519 = b"\0\x1d" + vector(2, b"\x09" + bytes(31))


def tls13_hello(name: bytes, *keys: bytes) -> bytes:
    """Make a hello that OpenSSL takes; without a key it asks for another one."""
    return hello(
        server_name(name),
        extension(43, vector(1, b"\3\4")),
        extension(10, vector(2, b"\0\x1d")),
        extension(13, vector(2, bytes.fromhex("040308040401"))),
        extension(51, vector(2, b"".join(keys))),
    )


def answer_to(client: socket.socket) -> bytes:
    """Return the next record that the server sends, or nothing if it is cut off."""
    with contextlib.suppress(ConnectionResetError):
        header = client.recv(5, socket.MSG_WAITALL)
        return header + client.recv(int.from_bytes(header[3:]), socket.MSG_WAITALL)
    return b""


@pytest.mark.parametrize("door", ["direct", "connect", "socks6"])
@pytest.mark.parametrize("together", [False, True])
def test_another_name_in_the_second_hello(agent, door, together):
    """A server that asks for a retry takes the name from that."""
    for name, passes in ((b"plain.test", True), (b"evil.test", False)):
        with agent.dial("plain.test", 443, door) as client:
            first, second = tls13_hello(b"plain.test"), tls13_hello(name, KEY_OF_X25519)
            client.sendall(first + second if together else first)
            assert answer_to(client)[5:6] == b"\2"
            if not together:
                client.sendall(second)
            assert (b"\x16" in [answer_to(client)[:1] for _ in range(2)]) is passes
    assert agent.reason() == "name_mismatch"
