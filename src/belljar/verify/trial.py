"""One sandbox that is made as `belljar run` makes it, with the probes as its command."""

import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NoReturn

from belljar.backends.local.running import Network, run
from belljar.errors import BelljarError
from belljar.gateway.audit import AuditLog, open_log
from belljar.gateway.hostfiles import Server
from belljar.gateway.settings import Settings
from belljar.linux.hostaddresses import own_addresses
from belljar.linux.processes import get_signal_when_parent_dies
from belljar.policy import compile_policy, policy_from
from belljar.policy.reading import Reading
from belljar.sandbox.ledger import Ledger
from belljar.sandbox.notice import notice
from belljar.sandbox.spec import Spec
from belljar.sandbox.view import POLICY_FILE
from belljar.verify.bundle import bundle, interpreter
from belljar.verify.probes import places
from belljar.verify.world import World

SECONDS: Final = 50
"""How long all probes together may take."""

BUNDLE: Final = Path("/run/belljar/probes.pyz")

POLICY: Final = {
    "mode": "block-all",
    "egress": {
        "allowed_domains": [f"*.{places.ABOVE_GRANTED}", f"*.{places.SSH_NAME}:{places.SSH}"],
        "allowed_cidrs": list(places.BY_ADDRESS.values()),
    },
    "host_ports": [places.HOST_PORT],
}

_ERROR: Final = "error"


class TrialError(BelljarError):
    """The sandbox did not start, so nothing was tried."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be tried, and where."""

    world: World
    workdir: Path
    audit: Path
    run: str
    probes: Sequence[str]
    prepare: Callable[[], object]
    """Called in the process that makes the sandbox, before it does."""

    def start(self) -> tuple[int, socket.socket]:
        """Start the sandbox; return its process, and where the findings come from. For a process without threads."""
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            ours.close()
            self._become(theirs)
        theirs.close()
        return process, ours

    def _become(self, output: socket.socket) -> NoReturn:
        try:
            get_signal_when_parent_dies(signal.SIGKILL)
            self.world.host.enter()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output.fileno(), 1)
            os.environ[places.PRIVATE_VARIABLE] = self.run
            self.prepare()
            self._run()
        except Exception as error:  # noqa: BLE001 - told to the parent, who raises it
            why = str(error) if isinstance(error, BelljarError) else f"{type(error).__name__}: {error}"
            with suppress(OSError):
                output.sendall(json.dumps({_ERROR: why}).encode() + b"\n")
        finally:
            os._exit(0)

    def _run(self) -> None:
        policy = compile_policy(policy_from(Reading(POLICY)).policy, host_addresses=own_addresses())
        settings = Settings(resolvers=tuple(Server(ip_address(address)) for address in places.RESOLVER.values()))
        python = interpreter()
        spec = Spec(
            command=(python.program, "-I", str(BUNDLE), self.run, _namespaces(), *self.probes),
            workdir=self.workdir,
            environment={"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME") or "/nonexistent"},
            binds=python.binds,
        )
        network = Network(policy, settings, Ledger(AuditLog(open_log(str(self.audit)))))
        run(spec, network, {POLICY_FILE: notice(policy), BUNDLE: bundle()}, timeout=SECONDS)


def _namespaces() -> str:
    return json.dumps({path.name: str(path.readlink()) for path in Path("/proc/self/ns").iterdir()})


def read_findings(text: str) -> dict[str, dict[str, Any]]:
    """Return what the probes reported, by their ids. Raises TrialError."""
    findings = {}
    for line in text.splitlines():
        told = json.loads(line)
        if _ERROR in told:
            raise TrialError(told[_ERROR])
        findings[told.pop("id")] = told | {key: _printable(told[key]) for key in ("evidence", "crash") if key in told}
    return findings


def _printable(text: str) -> str:
    """Return a text that can be shown: what others answered to a probe is part of its evidence."""
    return "".join(character if character.isprintable() else "?" for character in text)
