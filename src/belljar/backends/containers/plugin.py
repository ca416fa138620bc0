"""Docker and Podman, as the registry knows them."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from belljar.errors import BelljarError
from belljar.sandbox.spec import Command, SandboxSpec

if TYPE_CHECKING:
    from belljar.backends.attending import Outcome
    from belljar.backends.containers.engine.places import Kind
    from belljar.backends.containers.late import LateBackend
    from belljar.backends.findings import MachineFinding
    from belljar.sandbox.network import NetworkAccess

# Whoever runs one command does not wait for what the others need.
# ruff: noqa: PLC0415


class _Engine:
    """See `registry.Plugin`."""

    runs_images = True

    def __init__(self, kind: "Kind") -> None:
        self.name: Kind = kind
        self.trial = f"belljar.verify.containers:{kind}"

    def open(self, state: Path, environment: Mapping[str, str]) -> "LateBackend":
        """See `registry.Plugin`. That there is no engine is no error before somebody wants a container."""
        from belljar.backends.containers.late import LateBackend

        return LateBackend(self.name, state, environment)

    def findings(self, environment: Mapping[str, str]) -> "Iterator[MachineFinding]":
        from belljar.backends.containers.engine.requirements import findings
        from belljar.backends.containers.running import Runner
        from belljar.backends.findings import MachineFinding

        yield from findings(self.name, environment, lambda: Runner(self.name, environment).trial())
        with suppress(BelljarError):  # what is wrong with the engine was said above
            if swept := Runner(self.name, environment).sweep():
                detail = f"of killed runs, taken away: {swept} containers"
                yield MachineFinding(f"{self.name} leftovers", holds=True, detail=detail)

    def run(
        self,
        spec: SandboxSpec,
        command: Command,
        network: "Callable[[], NetworkAccess] | None",
        *,
        timeout: float | None,
        after_entrypoint: bool,
    ) -> "Outcome":
        from belljar.backends.containers.running import Program, Runner

        access = network() if network is not None else None
        return Runner(self.name, os.environ).run(spec, Program(command.arguments, after_entrypoint), access, timeout)


DOCKER: Final = _Engine("docker")
PODMAN: Final = _Engine("podman")
