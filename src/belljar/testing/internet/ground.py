"""The ground of a stand-in for the internet: two network namespaces, the *host* and the *internet*, and a wire.

    host ──(the wire, a veth pair)──▶ internet

Every address there is belongs to the internet, so that whatever is sent there arrives. Neither is joined to anything
else, so nothing that happens here reaches the machine's own network; and that is checked.
"""

import json
import os
from collections.abc import Collection, Mapping
from typing import Final

from belljar.errors import BelljarError
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import ProgramFailedError, ProgramMissingError, run

WIRE: Final = "wire"
"""What its ends are called."""

_INTERNET: Final = """\
link set lo up
link add name {wire} type veth peer name {wire} netns {host}
address add {v4}/30 dev {wire}
address add {v6}/64 dev {wire} nodad
link set {wire} up
route add local 0.0.0.0/0 dev lo table main
route add local ::/0 dev lo table main
"""

_HOST: Final = """\
link set lo up
address add {v4}/30 dev {wire}
address add {v6}/64 dev {wire} nodad
link set {wire} up
route add 0.0.0.0/0 via {router4}
route add ::/0 via {router6}
"""


class WorldError(BelljarError):
    """There is no world to test in."""


def join(
    host: NetworkNamespace,
    internet: NetworkNamespace,
    addresses: Mapping[int, str],
    router: Mapping[int, str],
    *,
    more: str = "",
) -> None:
    """Lay the wire between two bare namespaces, with these addresses at its ends, by family.

    `more` is for `ip -batch` in the internet. Raises WorldError, and nobody has sent anything by then.
    """
    end = f"/proc/{os.getpid()}/fd/{host.fileno()}"
    there = _INTERNET.format(wire=WIRE, host=end, v4=router[4], v6=router[6]) + more
    here = _HOST.format(wire=WIRE, v4=addresses[4], v6=addresses[6], router4=router[4], router6=router[6])
    try:
        internet.run(lambda: run("ip", "-batch", "-", text=there))
        host.run(lambda: run("ip", "-batch", "-", text=here))
    except (OSError, ProgramFailedError, ProgramMissingError) as error:
        raise not_made(error) from error
    for namespace in (internet, host):
        check_that_it_leads_nowhere(namespace)


def not_made(error: Exception) -> WorldError:
    """Return what to say when the namespaces cannot be made as they should be."""
    return WorldError(
        f"the network to test in could not be made: {error}\n"
        "It takes iproute2 and nftables, and root or user namespaces."
    )


def check_that_it_leads_nowhere(namespace: NetworkNamespace, known: Collection[str] = ("lo", WIRE)) -> None:
    """Make sure that a namespace has no interface that is up but those that are known. Raises WorldError."""
    links = json.loads(namespace.run(lambda: run("ip", "-j", "link")))
    others = {link["ifname"] for link in links if "UP" in link["flags"]}.difference(known)
    if others:
        raise WorldError(f"the network to test in is joined to another one: {', '.join(sorted(others))}")
