"""A runtime from its first part to its last: gateway, backends, sandboxes, commands.

`belljar serve` and the evaluation harness open it alike. They bring the store and the sink of events; what an earlier
life has left in the store and the backends is adopted or swept before anything else happens.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from belljar.backends.interface import Backend
from belljar.gateway.attachment import Gateways
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.workers.supervisor import Workers
from belljar.runtime.adoption import adopt_all
from belljar.runtime.commands import Commands
from belljar.runtime.context import Context
from belljar.runtime.housekeeping import Housekeeping
from belljar.runtime.lifecycle import Sandboxes
from belljar.runtime.policies import Networks
from belljar.runtime.storage import EventSink, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeParts:
    """What a runtime is assembled from."""

    state: Path
    """A directory that only this process uses. No sandbox ever sees it."""

    backends: Callable[[Path], Mapping[str, Backend]]
    """Opens the backends, which keep their own files in the state directory."""

    store: Store
    events: EventSink
    audit: int | None = None
    """A descriptor that the gateway writes its audit lines to; it stays the caller's."""

    workers: int = 1
    settings: Settings = DEFAULTS
    control_port: int | None = None
    """A port of this machine that no sandbox may reach."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime that works."""

    context: Context
    sandboxes: Sandboxes
    networks: Networks
    commands: Commands
    workers: Workers


@asynccontextmanager
async def assemble(parts: RuntimeParts) -> AsyncIterator[Runtime]:
    """Start a runtime, and stop it at the end. Sandboxes live on, and can reach nothing then. Raises BelljarError."""
    async with AsyncExitStack() as stack:
        broker = parts.state / "broker"
        broker.mkdir(mode=0o700, exist_ok=True)
        start = partial(Workers, parts.workers, parts.settings, audit=parts.audit, broker_state=broker)
        workers = await asyncio.to_thread(start)
        stack.push_async_callback(asyncio.to_thread, workers.shut_down)
        backends = await asyncio.to_thread(parts.backends, parts.state)
        for backend in backends.values():
            stack.push_async_callback(asyncio.to_thread, backend.close)
        _raise_descriptor_limit()  # after the backends: their child processes keep the usual limit
        gateways = Gateways(workers, parts.settings, audit=parts.audit)
        stack.push_async_callback(asyncio.to_thread, gateways.close_elsewhere)
        context = Context(
            parts.state, parts.control_port, backends, gateways, parts.store, parts.events, parts.settings
        )
        networks = Networks(context)
        runtime = Runtime(context, Sandboxes(context), networks, Commands(context, networks), workers)
        late = await adopt_all(context, runtime.sandboxes)
        runtime.commands.drain_orphans()
        stack.push_async_callback(runtime.commands.finish)
        await asyncio.to_thread(workers.wait_until_up)
        rounds = asyncio.create_task(Housekeeping(context, runtime.sandboxes, networks).run(late))
        stack.push_async_callback(_cancel, rounds)
        yield runtime


def _raise_descriptor_limit() -> None:
    """Use every descriptor that this process may have: each sandbox takes a dozen for its listeners."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
