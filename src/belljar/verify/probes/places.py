"""The map of the witness's world, the same inside and outside: addresses, names and ports.

Every address in it is the witness's, so whatever leaves the sandbox arrives, wherever it was sent. The addresses that
probes call their own are theirs alone: who turns up there is known by that.
"""

from hashlib import sha256
from typing import Final

HOST: Final = {4: "192.0.2.1", 6: "2001:db8:1::1"}
"""The machine that the sandbox is on."""

ROUTER: Final = {4: "192.0.2.2", 6: "2001:db8:1::2"}
"""Its way to everywhere else."""

RESOLVER: Final = {4: "198.51.100.53", 6: "2001:db8:53::53"}
ALLOWED: Final = {4: "198.51.100.10", 6: "2001:db8:a::10"}
"""Where granted names lead."""

BY_ADDRESS: Final = {4: "198.51.100.20", 6: "2001:db8:a::20"}
"""Granted as an address, on every port."""

LATE: Final = {4: "198.51.100.30", 6: "2001:db8:a::30"}
"""Granted as addresses, too; but they become the host's own once the policy has been made."""

BY_SOURCE: Final = {4: "198.51.100.40", 6: "2001:db8:a::40"}
"""And these: the host's own for whoever sends from the host's address, and for nobody else."""

ABOVE_GRANTED: Final = "allowed.test"
"""Everything below is granted for the web's ports; `ssh.allowed.test` for that of SSH."""

ABOVE_MANY: Final = "many.test"
"""Granted in the same way, for a probe that uses up all the names that a sandbox may use there."""

NAMES_UNDER_WILDCARD: Final = 200

SSH_NAME: Final = "ssh.allowed.test"
HOST_NAME: Final = "host.belljar.internal"

SSH, DNS, HTTP, HTTPS = 22, 53, 80, 443
HOST_PORT: Final = 7001
"""The one service of the host that is granted."""

OTHER_HOST_PORT: Final = 7002
HTTP_PROXY, SOCKS_PROXY = 3128, 1080

METADATA: Final = "169.254.169.254"
MARKER: Final = "belljar-witness"
"""What every answer of the witness holds, followed by the address and port that it was reached at."""

ABSTRACT_SOCKET: Final = "\0belljar-verify"
"""A unix socket of the host that has no place in the file system."""

MACHINES_SOCKET: Final = "\0belljar-verify-{run}"
"""The same of the machine itself, beside those of everybody else."""

FORGED_EVENT: Final = "belljar-verify.forged"
"""What a client tries to write into the log."""

NEIGHBOUR_PORT: Final = 7003
NEIGHBOUR_SOCKET: Final = "\0belljar-verify-neighbour"
"""Where another sandbox waits to be reached."""

OWN: Final = {4: "192.0.0.8", 6: "fd62:656c:6c6a::1"}
"""The address that every sandbox has for itself, beside those of the loopback interface."""

BROKER_NAME: Final = "models.belljar.internal"
BROKER_ADDRESS, BROKER_PORT = "127.0.0.2", 7004
"""Where a broker is inside, and what it leads to: a service of the host, where the witness stands in for a provider."""

KEY_VARIABLE: Final = "VERIFY_API_KEY"
"""Where whoever starts the sandbox has the key for it."""

PRIVATE_VARIABLE: Final = "BELLJAR_VERIFY_PRIVATE"
"""A variable in the environment of whoever starts the sandbox."""

OWN_V4: Final = "203.0.113.{number}"
OWN_V6: Final = "2001:db8:bad::{number:x}"
PRIVATE_V4: Final = "10.9.0.{number}"
PRIVATE_V6: Final = "fd00:9::{number:x}"
"""Addresses of one probe alone; there are 254 of each."""


def broker_key(run: str) -> str:
    """Return the key of a run's broker. It is nowhere but where it was made: whoever looks for it makes it anew."""
    return f"sk-{sha256(run.encode()).hexdigest()}"
