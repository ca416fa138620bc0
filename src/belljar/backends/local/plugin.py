"""The local backend, as the registry knows it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from belljar.errors import BelljarError
from belljar.sandbox.spec import Command, SandboxSpec

if TYPE_CHECKING:
    from belljar.backends.attending import Outcome
    from belljar.backends.findings import MachineFinding
    from belljar.backends.local.backend import LocalBackend
    from belljar.sandbox.network import NetworkAccess

# Whoever runs one command does not wait for what the others need.
# ruff: noqa: PLC0415


class _Local:
    """See `registry.Plugin`."""

    name = "local"
    runs_images = False
    trial = "belljar.verify.localtrial:maker"

    def open(self, state: Path, environment: Mapping[str, str]) -> "LocalBackend":  # noqa: ARG002 - it asks nobody
        from belljar.backends.local.backend import LocalBackend

        return LocalBackend(state)

    def findings(self, environment: Mapping[str, str]) -> "Iterator[MachineFinding]":  # noqa: ARG002
        from belljar.backends.local.requirements import findings

        return findings(_trial)

    def run(
        self,
        spec: SandboxSpec,
        command: Command,
        network: "Callable[[], NetworkAccess] | None",
        *,
        timeout: float | None,
        after_entrypoint: bool = False,  # noqa: ARG002 - there is no image
    ) -> "Outcome":
        from belljar.backends.local.running import run

        return run(spec, command, network, timeout=timeout)


LOCAL: Final = _Local()


def _trial() -> str | None:
    """Make a sandbox; return why that did not work."""
    from tempfile import TemporaryDirectory

    from belljar.gateway.settings import DEFAULTS
    from belljar.policy import Mode, Policy, compile_policy
    from belljar.sandbox.ledger import Ledger
    from belljar.sandbox.network import NetworkAccess

    network = NetworkAccess(compile_policy(Policy(Mode.BLOCK_ALL)), DEFAULTS, Ledger())
    with TemporaryDirectory(dir="/var/tmp") as directory:
        spec = SandboxSpec(workdir=Path(directory), environment={"PATH": "/usr/bin:/bin"})
        try:
            code = LOCAL.run(spec, Command(("true",)), lambda: network, timeout=None).code
        except (BelljarError, OSError) as error:
            return str(error)
    return None if code == 0 else f"its command ended with {code}"
