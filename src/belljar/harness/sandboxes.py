"""Sandboxes as the harness uses them: made for one purpose, sealed, recorded, and gone at its end."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Protocol, TypeVar

from belljar.backends.interface import Backend, GoneError, Inspectable, State
from belljar.errors import BelljarError
from belljar.harness.evidence import AuditReader, NetworkEvidence
from belljar.policy.language.reading import Reading
from belljar.runtime.assembly import Runtime
from belljar.runtime.commands import Ended
from belljar.runtime.context import run_in_thread
from belljar.runtime.lifecycle import Order, new_id
from belljar.runtime.problems import ProblemError
from belljar.runtime.sandbox import Sandbox, Status
from belljar.sandbox.layers import Layer, LayerName, unknown_layers
from belljar.sandbox.spec import Command, SandboxSpec

T = TypeVar("T")

NO_SERVICES: Final[Mapping[str, Path]] = {}
SEAL: Final = frozenset(LayerName) - {LayerName.USER_NAMESPACE}
"""The layers that a work sandbox must have. A container of an engine that runs as root has users of the host's."""

NOTHING: Final[Mapping[str, Any]] = {"mode": "block-all"}
"""A policy."""


class SealError(BelljarError):
    """A sandbox is not sealed as it should be. Nothing of the agent's was run in it."""


class HarnessSandbox(Protocol):
    """A sandbox that runs. Methods raise BelljarError: GoneError if all its processes have ended."""

    @property
    def id(self) -> str:
        """Its name."""

    async def run(  # noqa: PLR0913 - a command, and where everything of it comes from or goes
        self,
        command: Command,
        output: BinaryIO,
        *,
        stdin: bytes = b"",
        timeout: float | None = None,
        limit: int,
        errors: BinaryIO | None = None,
    ) -> Ended:
        """Run a command to its end, or kill it at the end of its time.

        Standard output and error are written to a file as they come, up to `limit` bytes; the rest is thrown away.
        Standard error goes to `errors` if that is given, and each of the two has the limit for itself.
        """

    async def put_tree(self, path: PurePosixPath, archive: Path) -> None:
        """Unpack a tar archive below a directory inside, with the agent's rights."""

    async def get_tree(self, path: PurePosixPath, archive: Path, *, names: tuple[str, ...], limit: int) -> None:
        """Write a tar archive of what is below a directory inside; what it holds is not to be trusted."""


class SandboxOpener(Protocol):
    """What makes sandboxes."""

    def __call__(
        self, spec: SandboxSpec, *, purpose: str, services: Mapping[str, Path] = NO_SERVICES
    ) -> AbstractAsyncContextManager[HarnessSandbox]:
        """Make a sandbox that can reach nothing but some services, and destroy it at the end.

        `purpose` is `judge`, or `submission` for one that is made as the work sandbox is and has no tests. `services`
        are unix sockets of the host by the names that they have below `belljar.internal`.
        """


class SandboxHost:
    """Makes the sandboxes of one run, on one backend."""

    def __init__(self, runtime: Runtime, backend: str, audit: AuditReader) -> None:
        self._runtime, self.backend, self._audit = runtime, backend, audit

    async def check(self) -> None:
        """Make sure that there is what makes sandboxes, an engine for example. Raises MachineError."""
        backend = self._runtime.context.backends[self.backend]
        with suppress(GoneError):  # there is no such sandbox, and what answers so is running
            await run_in_thread(lambda: backend.get_file("none", "/"))

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, purpose: str, log: Path) -> AsyncIterator["RuntimeSandbox"]:
        """Make a sandbox that can reach nothing, and destroy it at the end. Raises BelljarError.

        `purpose` is `work` or `judge`; `log` is the file for what the gateway sees of it.
        """
        prepared = await self._runtime.networks.prepare(Reading(dict(NOTHING)), spec)
        name = new_id()
        evidence = self._audit.record(name, log)
        order = Order(
            backend=self.backend,
            spec=spec,
            labels={"purpose": purpose},
            ttl=None,
            hard_ttl=None,
            prepared=prepared,
            request=None,
            id=name,
        )
        try:
            sandbox, _ = await self._runtime.sandboxes.create(order)
        except BaseException:
            self._audit.drop(name)  # the gateway may never have heard of it
            raise
        try:
            yield RuntimeSandbox(self._runtime, sandbox, evidence)
        finally:
            with suppress(BelljarError):  # housekeeping tries again, and so does the next run
                await self._runtime.sandboxes.delete(sandbox, "request")
            await self._audit.finish(name)


class RuntimeSandbox:
    """A `HarnessSandbox` of a runtime."""

    def __init__(self, runtime: Runtime, sandbox: Sandbox, evidence: NetworkEvidence) -> None:
        self._runtime, self._sandbox, self.evidence = runtime, sandbox, evidence

    @property
    def id(self) -> str:
        """See `HarnessSandbox`."""
        return self._sandbox.id

    async def run(  # noqa: PLR0913 - a command, and where everything of it comes from or goes
        self,
        command: Command,
        output: BinaryIO,
        *,
        stdin: bytes = b"",
        timeout: float | None = None,
        limit: int,
        errors: BinaryIO | None = None,
    ) -> Ended:
        """See `HarnessSandbox`."""
        running = await self._unless_gone(self._runtime.commands.start(self._sandbox, command, stdin, timeout))
        left = {"stdout": limit, "stderr": limit}
        both = "stdout" if errors is None else None
        async with aclosing(running.follow()) as items:
            async for item in items:
                if isinstance(item, Ended):
                    return item
                file = output if errors is None or item.stream == "stdout" else errors
                room = left[both or item.stream]
                file.write(item.data[:room])
                file.flush()
                left[both or item.stream] -= min(room, len(item.data))
        raise GoneError(f"the sandbox {self.id} has ended")

    async def put_tree(self, path: PurePosixPath, archive: Path) -> None:
        """See `HarnessSandbox`."""

        def send(backend: Backend) -> None:
            with archive.open("rb") as source:
                backend.put_tree(self.id, str(path), source.fileno())

        await self._inside(send)

    async def get_tree(self, path: PurePosixPath, archive: Path, *, names: tuple[str, ...], limit: int) -> None:
        """See `HarnessSandbox`."""

        def receive(backend: Backend) -> None:  # goes on if the task is cancelled, so the descriptor is the thread's
            with archive.open("wb") as target:
                backend.get_tree(self.id, str(path), target.fileno(), names=names, limit=limit)

        await self._inside(receive)

    async def _set_policy(self, document: Mapping[str, Any]) -> None:
        networks = self._runtime.networks
        prepared = await networks.prepare(Reading(dict(document)))
        change = await networks.replace(self._sandbox, prepared, None)
        if not change.in_force:
            raise SealError(f"the policy of {self.id} is not in force; see whether the machine is overloaded")

    async def is_alive(self) -> bool:
        """Return whether its processes live."""
        backend = self._runtime.context.backends[self._sandbox.backend]
        found = {status.sandbox: status.state for status in await run_in_thread(backend.sandboxes)}
        return self.id in found and found[self.id] is not State.DEAD

    async def seal(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Look at the seal, put a policy in force, and return the proof of both.

        The look tries destinations that are denied; the evidence counts what comes after it. Raises SealError if a
        layer that can be seen does not hold.
        """
        layers = await self._inside(self._look)
        broken = [layer for layer in layers if layer.active is False and layer.name in SEAL]
        if broken:
            raise SealError("; ".join(f"the layer {layer.name} does not hold: {layer.evidence}" for layer in broken))
        self.evidence.restart_at_next_policy()
        await self._set_policy(document)
        resolved = self._sandbox.network.resolved()
        compiled = await run_in_thread(resolved.compile)
        return {
            "sandbox": self.id,
            "backend": self._sandbox.backend,
            "layers": [asdict(layer) for layer in layers],
            "policy": dict(resolved.document),
            "policy_digest": f"sha256:{compiled.digest}",
            "policy_generation": resolved.generation,
        }

    def _look(self, backend: Backend) -> tuple[Layer, ...]:
        if isinstance(backend, Inspectable):
            return backend.look(self.id)
        return unknown_layers(f"the backend {self._sandbox.backend} cannot look into its sandboxes")

    async def _inside(self, act: Callable[[Backend], T]) -> T:
        return await self._unless_gone(self._runtime.context.inside(self._sandbox, act))

    async def _unless_gone(self, act: Awaitable[T]) -> T:
        """Await something, and raise GoneError if the sandbox has died."""
        try:
            return await act
        except ProblemError:
            if self._sandbox.status is Status.DEAD:
                raise GoneError(f"all processes of the sandbox {self.id} have ended") from None
            raise
