"""The world that a sandbox is tried out in, where everything that arrives in the internet is led to the witness.

sandbox ──(what is being tested)──▶ host ──(the wire)──▶ internet
"""

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from belljar.linux.namespaces import CLONE_NEWUSER, NetworkNamespace, unshare
from belljar.linux.programs import ProgramFailedError, ProgramMissingError, run
from belljar.testing.internet.ground import WorldError, join, not_made
from belljar.verify.probes import places

STREAMS_TO: Final = 9
DATAGRAMS_TO: Final = 7
"""Ports in the internet to which everything is redirected, whatever its destination; but DNS is left alone."""

_NAMESERVER: Final = f"""\
address add {places.RESOLVER[4]}/32 dev lo
address add {places.RESOLVER[6]}/128 dev lo nodad
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


class World:
    """The two namespaces, for as long as this object is open."""

    def __init__(self) -> None:
        _become_root()
        with ExitStack() as stack:
            try:
                self.internet = stack.enter_context(NetworkNamespace.create())
                self.host = stack.enter_context(NetworkNamespace.create())
                join(self.host, self.internet, places.HOST, places.ROUTER, more=_NAMESERVER)
                self.host.run(_set_up_host)
                self.internet.run(lambda: run("nft", "-f", "-", text=_REDIRECTION))
            except (OSError, ProgramFailedError, ProgramMissingError) as error:
                raise not_made(error) from error
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def _set_up_host() -> None:
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
