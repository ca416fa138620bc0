"""Sandboxes, and clients that act inside of them."""

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import dns.message
import dns.rcode
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA

from belljar.sandbox.arming import arm
from belljar.testing.internet.ground import check_that_it_leads_nowhere
from tests.layers import cover, make_layer
from tests.universe.clients import PATIENCE, ask
from tests.universe.places import Place

_FILES = {
    "resolv.conf": "nameserver 127.0.0.1\noptions attempts:1\n",
    "nsswitch.conf": "hosts: files dns\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
}

_WITH_FILES = f"""
mount -t tmpfs none /run
{cover("/etc", "$0")}
exec "$@"
"""
"""Programs must look names up in the sandbox. Daemons of the host that would do it for them are called through /run."""


class Sandbox(Place):
    """A sealed sandbox. Its doors are `listeners`; who serves them decides what can be reached."""

    def __init__(self, directory: Path) -> None:
        super().__init__("sandbox")
        check_that_it_leads_nowhere(self.namespace, known={"lo"})
        self.listeners = arm(self.namespace)
        self._directory = directory
        self._layer = make_layer(directory / "etc", _FILES)

    def close(self) -> None:
        """Close its doors, and let it go."""
        self.listeners.close()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make_socket(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0
    ) -> socket.socket:
        """Make a socket inside."""
        made = self.call(socket.socket, family, kind, protocol)
        made.settimeout(PATIENCE)
        return made

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect from inside, to a name or an address. Raises OSError."""
        address = host if _is_address(host) else self.look_up(host)[0]
        return self.call(socket.create_connection, (address, port), PATIENCE)

    def look_up(self, name: str) -> list[str]:
        """Return the addresses of a name, the way a program inside would find them. Raises socket.gaierror."""
        answers = [self.resolve(name, kind) for kind in ("A", "AAAA")]
        records = (record for answer in answers for rrset in answer.answer for record in rrset)
        found = [record.address for record in records if isinstance(record, A | AAAA)]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, dns.rcode.to_text(answers[0].rcode()))
        return found

    def resolve(
        self, name: str, kind: str = "A", *, tcp: bool = False, server: str = "127.0.0.1"
    ) -> dns.message.Message:
        """Ask a DNS question inside, and return the whole answer."""
        return ask(self, name, kind, server=server, tcp=tcp)

    def run(self, command: Sequence[str], **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a program inside. It sees the host's files, but the sandbox's resolver."""
        argv = ["unshare", "--mount", "sh", "-euc", _WITH_FILES, str(self._layer), *command]
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self._directory),
            **variables,
        }
        return self.call(
            subprocess.run,
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * PATIENCE,
        )


def _is_address(text: str) -> bool:
    try:
        socket.getaddrinfo(text, None, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return False
    return True
