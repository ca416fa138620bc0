"""A runtime for one run: its sandboxes end with it."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from belljar.backends import registry
from belljar.backends.interface import Backend
from belljar.gateway.settings import read_settings
from belljar.harness.evidence import AuditReader
from belljar.harness.leftovers import BACKENDS
from belljar.harness.sandboxes import SandboxHost
from belljar.runtime.assembly import RuntimeParts, assemble
from belljar.runtime.events import RuntimeEvent
from belljar.runtime.storage import MemoryStore

_SANDBOXES_OF_A_WORKER: Final = 16
_MAX_WORKERS: Final = 4


@asynccontextmanager
async def open_host(directory: Path, backend: str, sandboxes: int) -> AsyncIterator[SandboxHost]:
    """Open a backend in a run's private directory, for about so many sandboxes at a time. Raises BelljarError."""
    audit = AuditReader()
    try:
        workers = min(os.cpu_count() or 1, _MAX_WORKERS, 1 + sandboxes // _SANDBOXES_OF_A_WORKER)
        parts = RuntimeParts(
            state=directory / BACKENDS,
            backends=partial(_open_backend, backend),
            store=MemoryStore(),
            events=_NoEvents(),
            audit=audit.descriptor,
            workers=workers,
            settings=read_settings(os.environ),
        )
        async with assemble(parts) as runtime:
            yield SandboxHost(runtime, backend, audit)
    finally:
        audit.close()


def _open_backend(name: str, state: Path) -> Mapping[str, Backend]:
    return {name: registry.find(name).open(state / name, os.environ)}


class _NoEvents:
    """A sink that drops events: a run knows what it does with its sandboxes."""

    def tell(self, sandbox: str, event: RuntimeEvent) -> None:
        """Drop an event."""
