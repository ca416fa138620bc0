"""The world that a sandbox is tried out in: two network namespaces, the *host* and the *internet*, and a wire.

    sandbox ──(what is being tested)──▶ host ──(the wire, a veth pair)──▶ internet

Neither is joined to anything else, so nothing that happens here reaches the machine's own network.
"""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from belljar.errors import BelljarError
from belljar.linux.namespaces import CLONE_NEWUSER, NetworkNamespace, unshare
from belljar.linux.programs import ProgramFailedError, ProgramMissingError, run
from belljar.verify.probes import places

STREAMS_TO: Final = 9
DATAGRAMS_TO: Final = 7
"""Ports in the internet to which everything is redirected, whatever its destination; but DNS is left alone."""

_INTERNET: Final = f"""\
link set lo up
link add name wire type veth peer name wire netns {{host}}
address add {places.ROUTER[4]}/30 dev wire
address add {places.ROUTER[6]}/64 dev wire nodad
address add {places.RESOLVER[4]}/32 dev lo
address add {places.RESOLVER[6]}/128 dev lo nodad
link set wire up
route add local 0.0.0.0/0 dev lo table main
route add local ::/0 dev lo table main
"""

_HOST: Final = f"""\
link set lo up
address add {places.HOST[4]}/30 dev wire
address add {places.HOST[6]}/64 dev wire nodad
link set wire up
route add 0.0.0.0/0 via {places.ROUTER[4]}
route add ::/0 via {places.ROUTER[6]}
"""

BY_SOURCE_TABLE: Final = 100
"""Where the host looks for a route to `places.BY_SOURCE`, for packets that come from its own address."""

_REDIRECTION: Final = f"""\
table inet witness {{
    chain arriving {{
        type nat hook prerouting priority -100;
        meta l4proto tcp redirect to :{STREAMS_TO}
        udp dport != {places.DNS} redirect to :{DATAGRAMS_TO}
    }}
}}
"""


class WorldError(BelljarError):
    """There is no world to test in."""


class World:
    """The two namespaces, for as long as this object is open."""

    def __init__(self) -> None:
        _become_root()
        with ExitStack() as stack:
            try:
                self.internet = stack.enter_context(NetworkNamespace.create())
                self.host = stack.enter_context(NetworkNamespace.create())
                end = f"/proc/{os.getpid()}/fd/{self.host.fileno()}"
                self.internet.run(lambda: run("ip", "-batch", "-", text=_INTERNET.format(host=end)))
                self.host.run(_set_up_host)
                self.internet.run(lambda: run("nft", "-f", "-", text=_REDIRECTION))
            except (OSError, ProgramFailedError, ProgramMissingError) as error:
                raise WorldError(
                    f"the network to test in could not be made: {error}\n"
                    "It takes iproute2 and nftables, and root or user namespaces."
                ) from error
            for namespace in (self.internet, self.host):
                _check_that_it_leads_nowhere(namespace)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def _set_up_host() -> None:
    run("ip", "-batch", "-", text=_HOST)
    for family, address in places.BY_SOURCE.items():
        where = ("from", places.HOST[family], "to", address, "lookup", str(BY_SOURCE_TABLE))
        run("ip", f"-{family}", "rule", "add", *where)


def _become_root() -> None:
    """Become root of a user namespace of our own, unless we are root. For a process with one thread."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        return
    try:
        unshare(CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise WorldError(f"this machine does not let you make user namespaces: {error}; run as root") from error


def _check_that_it_leads_nowhere(namespace: NetworkNamespace) -> None:
    """Make sure before anybody sends anything."""
    links = json.loads(namespace.run(lambda: run("ip", "-j", "link")))
    others = {link["ifname"] for link in links if "UP" in link["flags"]} - {"lo", "wire"}
    if others:
        raise WorldError(f"the network to test in is joined to another one: {', '.join(sorted(others))}")
