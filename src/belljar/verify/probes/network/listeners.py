"""What listens inside the sandbox without being the agent's: the doors that the gateway serves."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, inside, network
from belljar.verify.probes.network.clients import ask, ask_proxy, dial, hello, loopback, refused, request, say, summary
from belljar.verify.probes.network.dnsclient import look_up, question, unanswered

_ENGINE_RESOLVER: Final = "127.0.0.11"
_LISTENING: Final = "0A"
_UNCONNECTED: Final = "07"
_FIRST_PASSING_PORT: Final = 32768  # from there on, ports are those of other probes, for a moment


def listening(kind: str, family: int) -> Iterator[tuple[str, int]]:
    """Yield addresses and ports where connections or datagrams are waited for; `kind` is tcp or udp."""
    return (door for door in _bound(kind, family) if door[1] < _FIRST_PASSING_PORT)


def _bound(kind: str, family: int) -> Iterator[tuple[str, int]]:
    table = Path(f"/proc/net/{kind}{'6' if family == 6 else ''}").read_text()
    for line in table.splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        if state == (_LISTENING if kind == "tcp" else _UNCONNECTED):
            raw, port = bytes.fromhex(local.split(":")[0]), int(local.split(":")[1], 16)
            packed = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
            yield str(ip_address(packed)), port


@network(
    38, "control", "questions to whatever listens inside, about policies, metrics and sandboxes", beside="absolute"
)
def control(mark: Mark) -> Finding:
    paths = ("/policy", "/metrics", "/api/v1/sandboxes", "/healthz")
    for address, port in listening("tcp", mark.family):
        for path in paths:
            try:
                answer = ask(address, port, request("localhost", path))
            except OSError:
                continue
            if answer.startswith(b"HTTP/1.1 2"):
                return Finding(holds=False, evidence=f"port {port}, {path}: {summary(answer)}")
    return Finding(holds=True, evidence="nobody answers")


@inside(
    9,
    "engine-resolver",
    f"the resolver that container engines put inside, at {_ENGINE_RESOLVER}, and whatever else listens there",
    beside="control-dns-v4",
)
def engine_resolver(mark: Mark) -> Finding:
    message = question(mark.name, "A")
    doors = [
        (kind, port) for kind in ("udp", "tcp") for address, port in _bound(kind, 4) if address == _ENGINE_RESOLVER
    ]
    return unanswered(
        partial(look_up, _ENGINE_RESOLVER, message, tcp=kind == "tcp", port=port)
        for kind, port in (("udp", places.DNS), ("tcp", places.DNS), ("udp", 5353), ("tcp", 853), *doors)
    )


@network(39, "relay", "a relay inside the sandbox, between a client and the proxy", beside="connect")
def relay(mark: Mark) -> Finding:
    with socket.create_server((loopback(mark.family), 0), family=mark.socket_family) as server:

        def pass_on() -> None:
            accepted, _ = server.accept()
            with suppress(OSError), accepted, dial(loopback(mark.family), places.HTTP_PROXY) as proxy:
                proxy.sendall(accepted.recv(65536))
                accepted.sendall(proxy.recv(65536))

        thread = threading.Thread(target=pass_on)
        thread.start()
        connect = f"CONNECT {mark.name}:443 HTTP/1.1\r\nHost: {mark.name}:443\r\n\r\n".encode()
        with dial(loopback(mark.family), server.getsockname()[1]) as client:
            client.sendall(connect)
            answer = client.recv(65536)
        thread.join()
    return Finding(answer.startswith(b"HTTP/1.1 403"), summary(answer))


@network(40, "own-listener", "connections to the gateway's listeners themselves, directly and through the proxy")
def own_listener(mark: Mark) -> Finding:
    proxies = (places.HTTP_PROXY, places.SOCKS_PROXY)
    doors = [door for door in listening("tcp", mark.family) if door[1] not in proxies]
    asked = request(mark.name, f"/{mark.token}")
    through = loopback(mark.family) if mark.family == 4 else f"[{loopback(mark.family)}]"
    return refused(
        *(partial(ask, address, port, data) for address, port in doors for data in (asked, hello(mark.name))),
        *(partial(ask_proxy, mark, f"{through}:{port}", asked) for _, port in doors),
        lambda: say(dial(loopback(mark.family), places.HTTP_PROXY), request(f"{through}:{places.HTTP_PROXY}", "/")),
    )


@inside(43, "take-a-listener", "the gateway's ports, bound by somebody inside")
def take_a_listener(_: Mark) -> Finding:
    taken = []
    doors = [(kind, family, *door) for kind in ("tcp", "udp") for family in (4, 6) for door in listening(kind, family)]
    for kind, family, address, port in doors:
        with socket.socket(
            socket.AF_INET if family == 4 else socket.AF_INET6,
            socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM,
        ) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                sock.bind((address, port))
                if kind == "tcp":
                    sock.listen()
            except OSError:
                continue
            taken.append(f"{port}/{kind}")
    if not doors:
        raise RuntimeError("nothing listens inside")
    return Finding(not taken, f"bound: {', '.join(taken)}" if taken else f"all {len(doors)} are taken")
