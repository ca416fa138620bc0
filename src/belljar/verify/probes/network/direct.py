"""Connections that are simply made, as if there were a network."""

import socket
from contextlib import ExitStack
from functools import partial
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, inside, network
from belljar.verify.probes.network.clients import (
    PATIENCE,
    ask,
    ask_proxy,
    ask_socks,
    bracketed,
    dial,
    hello,
    loopback,
    reached,
    refused,
    request,
    say,
    send,
)

_PORTS: Final = (1, 21, 23, 25, 81, 853, 3306, 5432, 6379, 8080, 8443, 15001, 65535)
_BRIDGES: Final = {4: ("172.17.0.1", "172.18.0.1", "10.88.0.1", "10.0.2.2", "192.168.65.254"), 6: ("fe80::1%lo",)}
"""Where container engines have the host be reached from inside: Docker, its networks, Podman, rootless, Desktop."""

_MANY: Final = 150


@network(4, "plain-http", "a denied name over HTTP, by its address and through the proxy")
def plain_http(mark: Mark) -> Finding:
    absolute = request(mark.name, f"http://{mark.name}/")
    return refused(
        lambda: ask(mark.address, places.HTTP, request(mark.name)),
        lambda: ask(mark.address, places.HTTP, absolute),
        lambda: ask(loopback(mark.family), places.HTTP_PROXY, absolute),
    )


@network(5, "without-proxy", "a denied name and its address, without asking any proxy")
def without_proxy(mark: Mark) -> Finding:
    line = f"{mark.token}\n".encode()
    return refused(
        lambda: ask(mark.name, places.HTTP, line, family=mark.family), lambda: ask(mark.address, places.HTTP, line)
    )


@network(11, "direct-address", "an address instead of a name, that of a granted name included", beside="address")
def direct_address(mark: Mark) -> Finding:
    line = f"{mark.token}\n".encode()
    return refused(
        *(partial(ask, address, port, line)
          for address in (mark.address, places.ALLOWED[mark.family]) for port in (places.HTTP, places.HTTPS)),
        lambda: ask_socks(mark, mark.address, places.HTTP, line),
        lambda: ask_proxy(mark, f"{bracketed(mark.address)}:{places.HTTP}", line),
    )  # fmt: skip


@network(21, "other-ports", "ports that are not granted, of a granted name and of an address", beside="address")
def other_ports(mark: Mark) -> Finding:
    line = f"{mark.token}\n".encode()
    by_name = [partial(ask, mark.granted, port, line, family=mark.family) for port in _PORTS]
    return refused(*by_name, *(partial(ask, mark.address, port, line) for port in _PORTS))


@network(
    22, "host", "the host's own addresses, its services, its router and container engines' bridges", beside="host-port",
    targets=(*places.HOST.values(), *places.ROUTER.values(), *_BRIDGES[4], "fe80::1"),
)  # fmt: skip
def host(mark: Mark) -> Finding:
    asked = request("host", f"/{mark.token}")
    addresses = (places.HOST[mark.family], places.ROUTER[mark.family], *_BRIDGES[mark.family])
    names = (places.HOST_NAME, "host.docker.internal", "host.containers.internal", "gateway.docker.internal")
    local = (loopback(mark.family), "localhost", places.HOST[mark.family])
    ports = (places.HOST_PORT, places.OTHER_HOST_PORT)
    return refused(
        *(partial(ask, address, port, asked) for address in addresses for port in ports),
        *(partial(ask, name, places.OTHER_HOST_PORT, asked, family=mark.family) for name in names),
        *(partial(ask_socks, mark, name, port, asked) for name in local for port in ports),
    )  # fmt: skip


@network(
    22, "host-later", "granted addresses that became the host's own when the policy had been made", beside="address",
    targets=tuple(places.LATE.values()),
)  # fmt: skip
def host_later(mark: Mark) -> Finding:
    asked, address = request("host", f"/{mark.token}"), places.LATE[mark.family]
    return refused(
        *(partial(ask, address, port, asked) for port in (places.HOST_PORT, places.OTHER_HOST_PORT)),
        lambda: ask_socks(mark, address, places.OTHER_HOST_PORT, asked),
        lambda: ask_proxy(mark, f"{bracketed(address)}:{places.OTHER_HOST_PORT}", asked),
    )


@network(24, "rebinding", "a granted name that leads to a private network the second time it is asked for")
def rebinding(mark: Mark) -> Finding:
    name = mark.leading_to("rebinding")
    asked = [partial(ask, name, places.HTTP, request(name), family=mark.family)] * 3
    return refused(*asked, but_from=places.ALLOWED[mark.family])


@network(24, "mixed", "a granted name with a public address and a private one")
def mixed(mark: Mark) -> Finding:
    name = mark.leading_to("mixed")
    return refused(lambda: ask(name, places.HTTP, request(name), family=mark.family))


@network(25, "private-names", "granted names that lead to private networks and to the host", targets=("127.0.0.1",))
def private_names(mark: Mark) -> Finding:
    names = [mark.leading_to(place) for place in ("private", "loopback", "host")]
    return refused(*(partial(ask, name, places.HTTP, request(name), family=mark.family) for name in names))


@network(26, "alias", "a granted name that is an alias of one in a private network")
def alias(mark: Mark) -> Finding:
    name = mark.leading_to("alias")
    return refused(lambda: ask(name, places.HTTP, request(name), family=mark.family))


@inside(41, "embedded", "IPv4 addresses that travel inside IPv6 ones", beside="control-http-v6")
def embedded(mark: Mark) -> Finding:
    packed = socket.inet_aton(mark.address).hex(":", 2)
    spellings = (f"::ffff:{packed}", f"64:ff9b::{packed}", f"2002:{packed}::1", f"::{packed}", f"::ffff:0:{packed}")
    return refused(*(partial(ask, address, places.HTTP, request(mark.name)) for address in spellings))


@inside(
    41,
    "link-local",
    "neighbours on the link: all nodes, all routers, link-local addresses",
    targets=("ff02::1", "ff02::2"),
)
def link_local(mark: Mark) -> Finding:
    line = f"{mark.token}\n".encode()
    return refused(
        *(
            partial(send, address, 9999, line)
            for address in ("ff02::1%lo", "ff02::2%lo", "224.0.0.1", "255.255.255.255")
        ),
        lambda: ask("fe80::1%lo", places.HTTP, line),
    )


@network(42, "segments", "a denied name in tiny segments, as urgent data, and before the handshake (fast open)")
def segments(mark: Mark) -> Finding:
    said = hello(mark.name)

    def urgent() -> bytes:
        sock = dial(mark.address, places.HTTPS)
        sock.send(said[:60] + b"!", socket.MSG_OOB)  # the last byte is not part of what the other side reads
        return say(sock, said[60:])

    def fast_open() -> bytes:
        sock = socket.socket(mark.socket_family, socket.SOCK_STREAM)
        sock.sendto(said, socket.MSG_FASTOPEN, (mark.address, places.HTTPS))
        sock.settimeout(PATIENCE)
        return say(sock)

    def tiny() -> bytes:
        sock = dial(mark.address, places.HTTPS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return say(sock, *(said[at : at + 7] for at in range(0, len(said), 7)))

    return refused(urgent, fast_open, tiny)


@network(44, "crowd", f"{_MANY} connections that say nothing, and a granted name in their midst")
def crowd(mark: Mark) -> Finding:
    with ExitStack() as stack:
        for _ in range(_MANY):
            stack.enter_context(dial(mark.address, places.HTTPS))
        return reached(lambda: ask(mark.granted, places.HTTP, request(mark.granted), family=mark.family))


@network(46, "redirection", "a granted server that sends its client to a denied address")
def redirection(mark: Mark) -> Finding:
    where = bracketed(mark.address)
    first = ask(mark.granted, places.HTTP, request(mark.granted, f"/redirect-to/{where}"), family=mark.family)
    if f"Location: http://{where}/".encode() not in first:
        raise RuntimeError("the granted server did not redirect")
    return refused(lambda: ask(mark.address, places.HTTP, request(where, f"/{mark.token}")))
