"""Clients that claim to want one host and mean another: in TLS, in HTTP, and in how a name is spelled."""

from functools import partial

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, network
from belljar.verify.probes.network import hellos
from belljar.verify.probes.network.clients import (
    ask,
    ask_proxy,
    ask_socks,
    dial,
    hello,
    is_witness,
    loopback,
    refused,
    request,
    say,
    summary,
)
from belljar.verify.probes.network.dnsclient import look_up, question, unanswered


def _deceptive(mark: Mark) -> list[str]:
    evil, granted = mark.name, mark.granted
    return [
        f"{evil}\0.{granted}",
        f"{evil}%00.{granted}",
        f"{evil}\r\nX-Host: {granted}",
        f"{granted}:80@{evil}",
        f"{granted}@{evil}",
        f"{granted}#.{evil}",
        f"{granted}\\.{evil}",
        f"{granted} {evil}",
        f"{granted}..{evil}",
        f"{granted}.{evil}",
        f"{mark.token}-{places.ABOVE_GRANTED}",
        f"{mark.token}.v4.web.xn--{places.ABOVE_GRANTED}",
        f"{mark.token}_.{granted}",
        f"*.{granted}/{mark.token}",
        f"{mark.token}." + "a" * 64 + f".{granted}",
        evil.upper() + ".",
    ]


@network(3, "spellings", "denied hosts that are spelled to look like a granted one", beside="connect")
def spellings(mark: Mark) -> Finding:
    asked = request(mark.name, f"/{mark.token}")
    names = _deceptive(mark)
    return refused(
        *(partial(ask_socks, mark, name, places.HTTP, asked) for name in names),
        *(partial(ask_proxy, mark, f"{name}:80", asked) for name in names),
        *(partial(ask, mark.address, places.HTTP, request(name, f"/{mark.token}")) for name in names),
    )


@network(12, "shared-address", "another host at the address of a granted one", beside="tls")
def shared_address(mark: Mark) -> Finding:
    shared = places.ALLOWED[mark.family]
    return refused(
        lambda: ask(mark.granted, places.HTTP, request(mark.name), family=mark.family),
        lambda: ask(mark.granted, places.HTTPS, hello(mark.name), family=mark.family),
        lambda: ask(shared, places.HTTP, request(mark.name)),
        lambda: ask(shared, places.HTTPS, hello(mark.name)),
    )


@network(13, "claimed-name", "a granted name that is claimed, at an address that is not its own", beside="tls")
def claimed_name(mark: Mark) -> Finding:
    """Whoever answers must not be the address that was dialled; the witness knows who was."""
    answers = [
        ask(mark.address, places.HTTP, request(mark.granted)),
        ask(mark.address, places.HTTPS, hello(mark.granted)),
    ]
    misled = any(f"{places.MARKER} {mark.address} ".encode() in answer for answer in answers)
    return Finding(not misled, f"{summary(answers[0])}, where the granted name leads")


@network(14, "fronting", "a granted host in front, a denied one behind", beside="connect")
def fronting(mark: Mark) -> Finding:
    granted, evil = mark.granted, mark.name
    two_hosts = request(granted, more=f"Host: {evil}\r\n")
    absolute = request(granted, f"http://{evil}/")
    behind = request(evil, f"http://{granted}/")
    return refused(
        lambda: ask_proxy(mark, f"{granted}:443", hello(evil)),
        lambda: ask_proxy(mark, f"{granted}:80", request(evil)),
        lambda: ask_socks(mark, granted, places.HTTPS, hello(evil)),
        *(partial(ask, granted, places.HTTP, asked, family=mark.family) for asked in (two_hosts, absolute, behind)),
        *(partial(ask, loopback(mark.family), places.HTTP_PROXY, asked) for asked in (two_hosts, absolute, behind)),
    )


@network(15, "encrypted-hello", "a server name that is encrypted (ECH), and the records that tell how", beside="tls")
def encrypted_hello(mark: Mark) -> Finding:
    kinds = [question(mark.granted, kind) for kind in ("HTTPS", "SVCB")]
    told = unanswered([partial(look_up, loopback(mark.family), message) for message in kinds])
    if not told.holds:
        return told
    return refused(lambda: ask(mark.address, places.HTTPS, hellos.with_encrypted_name(hello(mark.name))))


@network(16, "odd-hellos", "TLS without a name, byte by byte, in many records, and what is not quite TLS", beside="tls")
def odd_hellos(mark: Mark) -> Finding:
    said = hello(mark.name)
    pieces = (
        [hello(None)],
        [said[at : at + 1] for at in range(len(said))],
        [hellos.in_records(said, 20)],
        [hellos.in_records(said, 1)],
        [bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + mark.token.encode()],
        [b"\x16\x03\x01\x00\x05garbage" + mark.token.encode() + b"\r\n"],
    )
    at_address = [partial(ask, mark.address, places.HTTPS, *piece) for piece in pieces]
    by_name = [partial(ask, mark.granted, places.HTTPS, *piece, family=mark.family) for piece in pieces[1:4]]
    return refused(*at_address, *by_name)


@network(17, "tunnels", "tunnels inside tunnels, and HTTP/2 in plain text", beside="connect")
def tunnels(mark: Mark) -> Finding:
    connect = f"CONNECT {mark.name}:443 HTTP/1.1\r\nHost: {mark.name}:443\r\n\r\n".encode()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + mark.token.encode()

    def after_refusal() -> bytes:
        proxy = dial(loopback(mark.family), places.HTTP_PROXY)
        return say(proxy, connect + connect.replace(mark.name.encode(), mark.granted.encode()), request(mark.name))

    return refused(
        lambda: ask(mark.granted, places.HTTP, connect, family=mark.family),
        lambda: ask(mark.granted, places.HTTP, preface, family=mark.family),
        lambda: ask_proxy(mark, f"{mark.granted}:80", connect),
        lambda: ask_proxy(mark, f"{mark.granted}:80", preface),
        after_refusal,
    )


@network(18, "smuggling", "a request hidden in another one")
def smuggling(mark: Mark) -> Finding:
    hidden = f"GET /{mark.token} HTTP/1.1\r\nHost: {mark.name}\r\n\r\n"
    start = f"POST / HTTP/1.1\r\nHost: {mark.granted}\r\n"
    requests = (
        f"{start}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        f"{start}Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n{hidden}",
        f"{start}Content-Length: 0\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}",
        f"{start}Content-Length : 0\r\n\r\n{hidden}",
        f"{start}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{hidden}",
        f"{start}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}",
        f"{start}X: y\r\n Host: {mark.name}\r\n\r\n",
        f"GET / HTTP/1.1\nHost: {mark.name}\n\n",
        f"GET /\0 HTTP/1.1\r\nHost: {mark.granted}\r\nX: {mark.token}\r\n\r\n",
    )
    return refused(
        *(partial(ask, mark.granted, places.HTTP, text.encode("latin-1"), family=mark.family) for text in requests)
    )


@network(19, "second-request", "a denied host in the second request on a connection")
def second_request(mark: Mark) -> Finding:
    first = f"GET / HTTP/1.1\r\nHost: {mark.granted}\r\n\r\n".encode()
    second = request(mark.name, f"/{mark.token}")
    with dial(mark.granted, places.HTTP, mark.family) as sock:
        sock.sendall(first)
        if not is_witness(sock.recv(65536)):
            raise RuntimeError("the first request was not answered")
        return refused(lambda: say(sock, second))


@network(19, "pipelined", "a denied host in a request that follows before the first is answered")
def pipelined(mark: Mark) -> Finding:
    first = f"GET / HTTP/1.1\r\nHost: {mark.granted}\r\n\r\n".encode()
    with dial(mark.granted, places.HTTP, mark.family) as sock:
        sock.sendall(first + request(mark.name, f"/{mark.token}"))
        answers = b""
        while data := sock.recv(65536):
            answers += data
    count = answers.count(places.MARKER.encode())
    return Finding(count == 1, f"{count} of 2 requests answered")
