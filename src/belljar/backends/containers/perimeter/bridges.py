"""Where a container lives that has a network of its own: a bridge, and two addresses."""

import secrets
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from belljar.linux.interfaces import own_addresses

_BRIDGE: Final = "dev.belljar.bridge"
_SUBNET: Final = "dev.belljar.subnet"
"""Labels of a network."""

_POOL: Final = IPv4Network("240.0.0.0/6")
"""Whence networks are taken: nobody's network is there, so none is in the way; and no policy can grant it, so that no
sandbox gets to the bridge of another through its gateway."""

_PREFIX: Final = 30
_SIZE: Final = 4


class Bridge(NamedTuple):
    """A network for one container. Its first address is the bridge's, and the gateway's; the second the container's."""

    bridge: str
    subnet: IPv4Network

    @classmethod
    def choose(cls) -> Self:
        """Return one that nobody has, most likely: an engine refuses to make one that it has already."""
        start = _POOL[_SIZE * secrets.randbelow(_POOL.num_addresses // _SIZE)]
        return cls(f"bj-{secrets.token_hex(6)}", IPv4Network((start, _PREFIX)))

    @classmethod
    def read(cls, labels: Mapping[str, str]) -> Self:
        """Return the one that labels tell of."""
        return cls(labels[_BRIDGE], IPv4Network(labels[_SUBNET]))

    @property
    def gateway(self) -> IPv4Address:
        """Where the gateway is, as the container sees it."""
        return self.subnet[1]

    @property
    def address(self) -> IPv4Address:
        """The container's own address."""
        return self.subnet[2]

    def labels(self) -> dict[str, str]:
        """Return the labels that tell of it."""
        return {_BRIDGE: self.bridge, _SUBNET: str(self.subnet)}

    def files(self) -> dict[Path, bytes]:
        """Return how a container finds names: by asking the gateway. Without IPv6 there is one localhost."""
        return {
            Path("/etc/resolv.conf"): f"nameserver {self.gateway}\noptions edns0\n".encode(),
            Path("/etc/hosts"): b"127.0.0.1 localhost belljar\n",
        }

    def join(self, name: str, configuration: dict[str, Any]) -> None:
        """Have a container be on this network, and without IPv6.

        Docker has a resolver of its own in every such container (127.0.0.11), which our resolv.conf does not name and
        anybody may ask all the same. It asks those that are named here, from where the container is: so it leads to the
        gateway, and not to the resolvers of the host.
        """
        without = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
        host = configuration["HostConfig"]
        host |= {"NetworkMode": name, "Dns": [str(self.gateway)], "Sysctls": {**host["Sysctls"], **without}}
        endpoint = {"IPAMConfig": {"IPv4Address": str(self.address)}}
        configuration["NetworkingConfig"] = {"EndpointsConfig": {name: endpoint}}

    def docker_network(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return what Docker is asked for. An internal network would have no route to anywhere, not even to be led.

        There is no room for a second container, so none is kept from talking to it: for that, Docker would have the
        whole machine filter what passes through its bridges.
        """
        return {
            "Name": name,
            "CheckDuplicate": True,
            "Driver": "bridge",
            "EnableIPv6": False,
            "IPAM": {"Config": [{"Subnet": str(self.subnet), "Gateway": str(self.gateway)}]},
            "Options": {
                "com.docker.network.bridge.name": self.bridge,
                "com.docker.network.bridge.enable_ip_masquerade": "false",
            },
            "Labels": dict(labels),
        }

    def podman_network(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return what Podman is asked for, in its own terms: in Docker's, it would have a resolver."""
        return {
            "name": name,
            "driver": "bridge",
            "network_interface": self.bridge,
            "dns_enabled": False,
            "ipv6_enabled": False,
            "internal": False,
            "subnets": [{"subnet": str(self.subnet), "gateway": str(self.gateway)}],
            "labels": dict(labels),
        }

    def is_here(self) -> bool:
        """Tell whether the bridge is in the network namespace of the calling thread."""
        interfaces = [name for _, name in socket.if_nameindex()]
        return self.bridge in interfaces and self.gateway in own_addresses()
