"""One sandbox with the probes as its command, whatever makes it, and what is the same for all.

The probes are told what to do on their standard input, and report on their standard output: one socket is both, the
trial's channel.
"""

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Protocol

from belljar.errors import BelljarError
from belljar.gateway.audit.log import AuditLog, open_log
from belljar.gateway.limits import Limits
from belljar.gateway.settings import Settings
from belljar.gateway.upstream.hostfiles import Server
from belljar.linux.interfaces import own_addresses
from belljar.linux.programs import run as run_program
from belljar.linux.sharedmemory import can_be_bounded
from belljar.policy import CompiledPolicy, compile_policy, policy_from
from belljar.policy.language.reading import Reading
from belljar.policy.language.render import flatten
from belljar.sandbox.files.view import POLICY_FILE
from belljar.sandbox.ledger import Ledger
from belljar.sandbox.network import NetworkAccess
from belljar.sandbox.notice import notice
from belljar.sandbox.spec import Bind
from belljar.verify.brokers import missing_modules
from belljar.verify.bundle import bundle
from belljar.verify.internet.world import BY_SOURCE_TABLE, World
from belljar.verify.probes import places
from belljar.verify.probes.host.planted import OWN_PLACE

SECONDS: Final = 50
"""How long all probes together may take."""

BUNDLE: Final = Path("/run/belljar/probes.pyz")

POLICY: Final = {
    "mode": "block-all",
    "egress": {
        "allowed_domains": [
            f"*.{places.ABOVE_GRANTED}",
            f"*.{places.SSH_NAME}:{places.SSH}",
            f"*.{places.ABOVE_MANY}",
        ],
        "allowed_cidrs": [*places.BY_ADDRESS.values(), *places.LATE.values(), *places.BY_SOURCE.values()],
    },
    "host_ports": [places.HOST_PORT],
}

_SERVICES: Final = {
    places.BROKER_NAME.partition(".")[0]: {
        "url": f"http://{places.BROKER_ADDRESS}:{places.BROKER_PORT}",
        "header": {"x-api-key": f"${{{places.KEY_VARIABLE}}}"},
    }
}
"""What the sandbox has beside that, where brokers can be had."""

_LIMITS: Final = Limits(names_under_wildcard=places.NAMES_UNDER_WILDCARD)
"""Those of every sandbox, but for one that would take longer to reach."""

_LATER: Final = "".join(
    f"route replace local {address} dev lo table {table}\n"
    for table, addresses in (("main", places.LATE), (BY_SOURCE_TABLE, places.BY_SOURCE))
    for address in addresses.values()
)
"""What happens to the host's network when the policy has been made."""

_ERROR: Final = "error"
_READ_BYTES: Final = 65536


class TrialError(BelljarError):
    """The sandbox did not start, so nothing was tried."""


class Trial(Protocol):
    """A sandbox that is tried out."""

    channel: socket.socket
    """What is sent here, the probes read; what they report is received here, until the sandbox has ended."""

    maker: int | None
    """The process that the sandbox's are descendants of, once it has been started; None if an engine makes them."""

    def start(self, world: World) -> None:
        """Start the probes, with a gateway on the world's host. For a process without threads."""

    def finish(self) -> None:
        """Wait until nothing is left of the sandbox."""


PROBES_NAME: Final = "probes"
"""The sandbox that is tried out; there is another one next door."""


@dataclass(frozen=True, slots=True)
class TrialTask:
    """What a sandbox is made for."""

    name: str
    run: str
    workdir: Path
    binds: tuple[Bind, ...]
    home: Path
    """That of whoever makes it."""

    audit: Path
    prepare: Callable[[], object]
    """Called in each process that has a part in making the sandbox, before it does anything."""

    def fork(self, become: Callable[[], None], channel: socket.socket) -> int:
        """Fork a process that does something; return its number. What it fails with is said on the channel."""
        process = os.fork()
        if process:
            return process
        try:
            self._be_somebody()
            self.prepare()
            become()
        except BaseException as error:  # noqa: BLE001 - told to the parent, who raises it
            why = str(error) if isinstance(error, BelljarError) else f"{type(error).__name__}: {error}"
            with suppress(OSError):
                channel.sendall(json.dumps({_ERROR: why}).encode() + b"\n")
        finally:
            os._exit(0)

    def _be_somebody(self) -> None:
        """Have something to lose: secrets, a home, and a Python that imports from where the agent works."""
        os.environ |= {places.PRIVATE_VARIABLE: self.run, "HOME": str(self.home)}
        os.environ |= {places.KEY_VARIABLE: places.broker_key(self.run), "no_proxy": "*"}
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{self.workdir / OWN_PLACE}{f'{os.pathsep}{before}' if before else ''}"

    def network(self) -> NetworkAccess:
        """Return what the sandbox can reach. For a process on the world's host."""
        settings = Settings(resolvers=tuple(Server(ip_address(address)) for address in places.RESOLVER.values()))
        policy = _policy()
        run_program("ip", "-batch", "-", text=_LATER)
        state = self.audit.with_name(f"{self.name}.broker")
        state.mkdir(mode=0o700, exist_ok=True)
        ledger = Ledger(AuditLog(open_log(str(self.audit))))
        is_tried = self.name == PROBES_NAME  # and there it is not to be waited for; next door nobody asks for it
        return NetworkAccess(policy, settings, ledger, _LIMITS, state, starts_broker_at_once=is_tried)


@dataclass(frozen=True, slots=True)
class TrialMaker:
    """Makes sandboxes."""

    trial: Callable[[TrialTask], Trial]
    """Gets a sandbox ready to be tried out. To be called before there is a world."""

    lacking: Mapping[str, str] = field(default_factory=dict)
    """Probes that find a layer missing, and why it is."""

    sockets: tuple[str, ...] = ()
    """Where it talks to an engine."""

    bounds: Mapping[str, int] = field(default_factory=dict)
    """What it promises that there is inside at most (`Scene`)."""


def boundless_memory() -> dict[str, str]:
    """Return what every sandbox lacks here, and why."""
    why = "before Linux 6.9 nobody but root of the machine can set a bound; the control group's has to do"
    return {} if can_be_bounded() else {"71-shared-memory": why}


def files() -> dict[Path, bytes]:
    """Return what is seen inside alone."""
    policy = _policy()
    return {POLICY_FILE: notice(flatten(policy.policy, policy.expansion)), BUNDLE: bundle()}


def _policy() -> CompiledPolicy:
    document = POLICY if missing_modules() else {**POLICY, "services": _SERVICES}
    return compile_policy(policy_from(Reading(document)).policy, host_addresses=own_addresses())


def hear(channel: socket.socket) -> bytes:
    """Return the next bytes of a report; none if it has ended, be it before anybody read what the probes were told."""
    try:
        return channel.recv(_READ_BYTES)
    except ConnectionResetError:
        return b""


def read_report(text: bytes) -> list[dict[str, Any]]:
    """Return what was reported, a line each. Raises TrialError."""
    told: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    for line in told:
        if _ERROR in line:
            raise TrialError(line[_ERROR])
    return [line | {key: _printable(line[key]) for key in ("evidence", "crash") if key in line} for line in told]


def _printable(text: str) -> str:
    """Return a text that can be shown: what others answered to a probe is part of its evidence."""
    return "".join(character if character.isprintable() else "?" for character in text)
