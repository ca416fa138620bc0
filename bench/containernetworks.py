"""What containers can be given for a network, with Docker in the universe that everything is measured in.

    client in a container ──▶ whatever stands in between ──(a veth pair)──▶ origin

The containers of the clients are all alike, but for their network: the backend has made them, and a peer's takes away
the network that it does not use. The engine lives where the gateway does, and reaches nothing but the origin's side.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine import client
from belljar.backends.containers.inventory import SANDBOX
from belljar.errors import BelljarError
from belljar.gateway.listeners import Listeners
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import find, run
from belljar.sandbox.spec import Bind, Isolation, SandboxSpec
from bench.arena import PATIENCE, ROOT, Arena, System, answers
from bench.fetching import PEERS, MissingError, output_of
from bench.ourselves import ORIGIN_PORT
from bench.peers import Peer, squid
from bench.processes import GATEWAY_CPU, on_cpu
from tests.engines import BUSYBOX, busybox, make_image, start_docker
from tests.engines.api import ApiError
from tests.universe.addresses import PUBLIC

_OURS = [str(ROOT / name) for name in (".venv", "src", "bench", "tests")]
_SEEN = [path for path in {"/usr", "/lib", "/lib64", sys.base_prefix, *_OURS} if Path(path).exists()]
"""What it takes to run this Python and this benchmark in a container."""

_USERS = ("/etc/passwd", "/etc/group")
_LOOK_UP = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
_PROXY_PORT = 3128
_PROXY_SUBNET, _PROXY = "10.88.77.0/24", "10.88.77.2"
_PROXY_RIGHTS = ["NET_ADMIN", "SETUID", "SETGID", "CHOWN"]
_PROXY_FILTER = f"""\
*filter
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
-A INPUT -p tcp --dport {_PROXY_PORT} -j ACCEPT
-A INPUT -j DROP
COMMIT
"""
_CHAIN = f"""\
*filter
:SFORGE -
-A SFORGE -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN
-A SFORGE -d {PUBLIC} -p tcp --dport {ORIGIN_PORT} -j RETURN
-A SFORGE -j DROP
-I DOCKER-USER -s {{address}} -j SFORGE
-I INPUT -i docker0 -s {{address}} -j SFORGE
COMMIT
"""


class ContainerArena(Arena):
    """The universe with the origin, Docker, and containers with clients in them."""

    def __init__(self) -> None:
        super().__init__()
        try:
            self._engine = self._stack.enter_context(start_docker(self._universe.gateway.namespace))
            make_image(self._engine, BUSYBOX, busybox())
            used = client.Engine("docker", self._engine.socket)
            self._backend = ContainerBackend(used, self._directory / "state", self._directory / "toolbox")
        except AssertionError as error:
            self.close()
            raise MissingError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def bridge(self) -> System:
        """Return the network that Docker gives to everybody."""
        found = self._container("bridge")
        return self._dialling("Docker's bridge", "nothing is checked; the container reaches everything", found)

    def sealed(self) -> System:
        """Seal a container, and have Belljar serve it."""
        does = "the container has no interface; policy, own resolution, server name checked, audit and metrics on"
        return self._served("Belljar, sealed", does, Isolation.SEALED)

    def perimeter(self) -> System:
        """Put rules around a container, and have Belljar serve it."""
        does = "a bridge of its own that leads to the gateway alone; the rest as above"
        return self._served("Belljar, perimeter", does, Isolation.PERIMETER)

    def internal_squid(self) -> System:
        """Put a container on an internal network, where Squid in another container is all there is: as tsk does it."""
        peer = squid(self._directory, f"0.0.0.0:{_PROXY_PORT}")
        network = {"Name": "inside", "Internal": True, "IPAM": {"Config": [{"Subnet": _PROXY_SUBNET}]}}
        self._call("POST", "/networks/create", network)
        proxy = self._proxy(peer)
        client = self._container("inside")
        self._call("POST", "/networks/inside/connect", {"Container": client["Id"]})
        self._call("POST", "/networks/bridge/disconnect", {"Container": client["Id"]})
        does = f"internal network, Squid in a container: {peer.does} (version {peer.version})"
        inside, pid = self._inside(client), proxy["State"]["Pid"]
        return System(
            "Squid, internal", does, self._universe.gateway, lambda _: _PROXY, _PROXY_PORT, peer.connect_to, pid, inside
        )

    def chain(self) -> System:
        """Put a chain of the host's packet filter around a container on the bridge: as SForge does it."""
        client = self._container("chain")
        rules = _CHAIN.format(address=client["NetworkSettings"]["Networks"]["bridge"]["IPAddress"])
        self._universe.gateway.call(run, "iptables-restore", "--noflush", text=rules)
        does = "established connections, and new ones to the origin's address and port, which are fixed; no names"
        return self._dialling("iptables chain", does, client)

    def _dialling(self, name: str, does: str, client: Any) -> System:
        place, inside = self._universe.gateway, self._inside(client)
        return System(name, does, place, lambda _: PUBLIC, ORIGIN_PORT, inside=inside)

    def _served(self, name: str, does: str, isolation: Isolation) -> System:
        listeners = self._make(isolation.value, isolation)
        process = self._serve(name, listeners)
        listeners.close()
        inside = self._inside(self._found(isolation.value))
        return System(
            name, does, self._universe.gateway, _looking_up(inside), ORIGIN_PORT, pid=process.pid, inside=inside
        )

    def _container(self, name: str) -> Any:
        """Make a container with the network that Docker gives to everybody."""
        self._make(name, Isolation.NONE)
        return self._found(name)

    def _make(self, name: str, isolation: Isolation) -> Listeners:
        binds = tuple(Bind(Path(path).resolve(), Path(path), writable=False) for path in _SEEN)
        wanted = SandboxSpec(image=BUSYBOX, binds=binds, isolation=isolation)
        try:
            return self._universe.gateway.call(self._backend.create, name, wanted)
        except BelljarError as error:
            raise MissingError(str(error)) from error

    def _found(self, name: str) -> Any:
        [container] = self._call("GET", f"/containers/json?{_labelled(name)}")
        return self._call("GET", f"/containers/{container['Id']}/json")

    def _inside(self, container: Any) -> tuple[str, ...]:
        """Return what runs a command in a container."""
        return (find("docker"), "--host", self._engine.url, "exec", "--workdir", str(ROOT), container["Id"])

    def _proxy(self, peer: Peer) -> Any:
        """Start a proxy in a container that is on both sides."""
        wanted = {
            "Image": BUSYBOX,
            "Entrypoint": on_cpu(GATEWAY_CPU, *peer.command),
            "Env": [f"{name}={value}" for name, value in peer.environment.items()],
            "HostConfig": {
                "Binds": [
                    *(f"{path}:{path}:ro" for path in (*_SEEN, *_USERS, PEERS)),
                    f"{self._directory}:{self._directory}",
                ],
                "CapDrop": ["ALL"],
                "CapAdd": _PROXY_RIGHTS,
                "SecurityOpt": ["no-new-privileges"],
            },
        }
        made = self._call("POST", "/containers/create", wanted)["Id"]
        address = {"IPAMConfig": {"IPv4Address": _PROXY}}
        self._call("POST", "/networks/inside/connect", {"Container": made, "EndpointConfig": address})
        self._call("POST", f"/containers/{made}/start")
        found = self._call("GET", f"/containers/{made}/json")
        descriptor = os.open(f"/proc/{found['State']['Pid']}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        with NetworkNamespace(descriptor) as namespace:
            namespace.run(lambda: run("iptables-restore", "--noflush", text=_PROXY_FILTER))
        self._await_answer(found)
        return found

    def _await_answer(self, proxy: Any) -> None:
        place, given_up = self._universe.gateway, time.monotonic() + PATIENCE
        while not answers(place, (_PROXY, _PROXY_PORT)):
            if (
                not self._call("GET", f"/containers/{proxy['Id']}/json")["State"]["Running"]
                or time.monotonic() > given_up
            ):
                said = self._engine.api.send("GET", f"/containers/{proxy['Id']}/logs?stdout=1&stderr=1")
                raise MissingError(f"does not start: {said.decode(errors='replace').strip()[-200:]}")
            time.sleep(0.02)

    def _call(self, method: str, path: str, document: object = None) -> Any:
        try:
            return self._engine.api.call(method, path, document)
        except ApiError as error:
            raise MissingError(str(error)) from error


def _labelled(name: str) -> str:
    return urlencode({"filters": json.dumps({"label": [f"{SANDBOX}={name}"]})})


def _looking_up(inside: tuple[str, ...]) -> Callable[[str], str]:
    """Return what finds the address of a name as a client does."""

    def look_up(name: str) -> str:
        return output_of(*inside, sys.executable, "-c", _LOOK_UP, name).strip()

    return cache(look_up)
