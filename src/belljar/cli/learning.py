"""The smallest policy that would have allowed what a run used."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from belljar.policy import Mode, Policy, Syntax, render
from belljar.policy.model import DomainPattern, Egress, PortRange
from belljar.policy.reserved import HOST_NAMES, is_service_name
from belljar.policy.services import Service
from belljar.sandbox.ledger import Ledger, UsedDestination

_WEB_PORTS = (80, 443)


def learned(ledger: Ledger, services: Iterable[Service] = ()) -> str:
    """Return a policy, ready to be saved, with a line for what no policy that blocks can grant.

    Of the services that the run had, it has those that were used.
    """
    reached = [where for where in ledger.reached if where.protocol == "tcp"]
    others = sorted(str(where) for where in ledger.reached if where.protocol != "tcp")
    notes = [f"# was used, but cannot be granted in block-all: {destination}\n" for destination in others]
    return "".join(["# what this run reached\n", *notes, render(_policy(reached, services), Syntax.YAML)])


def _policy(reached: list[UsedDestination], services: Iterable[Service]) -> Policy:
    domains, addresses, host_ports = set(), set(), set()
    names = {where.name for where in reached}
    for where in reached:
        if where.name in HOST_NAMES and where.port is not None:
            host_ports.add(where.port)
        elif where.name is not None and not is_service_name(where.name):
            domains.add((where.name, None if where.port in _WEB_PORTS else where.port))
        elif where.name is None and where.address is not None:
            addresses.add(ip_address(where.address))
    return Policy(
        Mode.BLOCK_ALL,
        Egress(
            allowed_domains=tuple(
                DomainPattern(name, port=port)
                for name, port in sorted(domains, key=lambda item: (item[0], item[1] or 0))
            ),
            allowed_cidrs=tuple(
                ip_network(address) for address in sorted(addresses, key=lambda a: (a.version, int(a)))
            ),
        ),
        host_ports=tuple(PortRange(port, port) for port in sorted(host_ports)),
        services=tuple(service for service in services if service.host in names),
    )
