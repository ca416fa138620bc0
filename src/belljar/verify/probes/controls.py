"""What must work: without it, a network that is dead would pass for one that is sealed."""

import socket

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, control
from belljar.verify.probes.network.clients import (
    PATIENCE,
    ask,
    ask_proxy,
    ask_socks,
    dial,
    hello,
    loopback,
    reached,
    request,
    say,
)
from belljar.verify.probes.network.dnsclient import look_up, question


@control("http", "a granted name over HTTP")
def http(mark: Mark) -> Finding:
    return reached(lambda: ask(mark.granted, places.HTTP, request(mark.granted, f"/{mark.token}"), family=mark.family))


@control("tls", "a granted name over TLS, with its own server name")
def tls(mark: Mark) -> Finding:
    name = f"{mark.token}.{mark.granted}"
    return reached(lambda: ask(name, places.HTTPS, hello(name), family=mark.family))


@control("ssh", "a server that speaks first")
def ssh(mark: Mark) -> Finding:
    name = f"v{mark.family}.{places.SSH_NAME}"
    with dial(name, places.SSH, mark.family) as sock:
        banner = sock.recv(100)  # before we have said anything
        return reached(lambda: banner + say(sock, f"SSH-2.0-{mark.token}\r\n".encode()))


@control("address", "a granted address, in a protocol of its own")
def address(mark: Mark) -> Finding:
    return reached(lambda: ask(places.BY_ADDRESS[mark.family], 4000, f"{mark.token}\n".encode()))


@control("socks", "a granted name through the SOCKS proxy")
def socks(mark: Mark) -> Finding:
    asked = request(mark.granted, f"/{mark.token}")
    return reached(lambda: ask_socks(mark, mark.granted, places.HTTP, asked))


@control("connect", "a granted name through the HTTP proxy (CONNECT)")
def connect(mark: Mark) -> Finding:
    asked = request(mark.granted, f"/{mark.token}")
    return reached(lambda: ask_proxy(mark, f"{mark.granted}:{places.HTTP}", asked))


@control("absolute", "a granted name through the HTTP proxy (absolute form)")
def absolute(mark: Mark) -> Finding:
    asked = request(mark.granted, f"http://{mark.granted}/{mark.token}")
    return reached(lambda: ask(loopback(mark.family), places.HTTP_PROXY, asked))


@control("host-port", "a granted port of the host")
def host_port(mark: Mark) -> Finding:
    asked = request(f"{places.HOST_NAME}:{places.HOST_PORT}", f"/{mark.token}")
    return reached(lambda: ask(places.HOST_NAME, places.HOST_PORT, asked, family=mark.family))


@control("dns", "a granted name is resolved", seen_outside=False)
def dns(mark: Mark) -> Finding:
    kind = "A" if mark.family == 4 else "AAAA"
    answers = [look_up(loopback(mark.family), question(mark.granted, kind), tcp=tcp) for tcp in (False, True)]
    return Finding(all(answer.code == 0 and answer.records == 1 for answer in answers), str(answers[0]))


@control("localhost", "a server inside the sandbox", seen_outside=False)
def localhost(mark: Mark) -> Finding:
    said = mark.token.encode()
    server = socket.create_server((loopback(mark.family), 0), family=mark.socket_family)
    with server, socket.create_connection(server.getsockname()[:2], PATIENCE) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(said)
            return Finding(accepted.recv(100) == said, f"reached itself at {loopback(mark.family)}")
