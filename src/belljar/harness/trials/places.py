"""What a task's sandboxes are made of on a backend: its images, or a private directory in which setup runs.

Images that were built for a task have everything in them. Where there are none (the local backend, or an engine that
has only the base image), the task's directory is an empty private one, and `setup_cmds` are run in the sealed sandbox
before anything else.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from belljar.backends import registry
from belljar.backends.interface import ImageMissingError
from belljar.errors import BelljarError, printable
from belljar.harness.sandboxes import RuntimeSandbox, SandboxHost
from belljar.harness.tasks.model import EvalTask, TaskStage
from belljar.sandbox.spec import Command, SandboxSpec

_MAX_SETUP_OUTPUT: Final = 1 << 20
_SHOWN_OUTPUT: Final = 2000
_EVALUATE: Final = 'script=$(cat); exec </dev/null; eval "set -x; $script"'
"""The script comes by standard input: as an argument it could have 128 KiB, and would be seen by `ps`.

Only its own commands are traced: what surrounds them would bury the one that failed.
"""

_SETUP: Final = f"""\
if command -v bash >/dev/null; then exec bash -euo pipefail -c '{_EVALUATE}'; else exec sh -eu -c '{_EVALUATE}'; fi
"""


class SetupError(BelljarError):
    """A task's setup failed. Correct its `setup_cmds`."""


@dataclass(frozen=True, slots=True)
class TaskSandboxes:
    """Makes the work and judge sandboxes of tasks."""

    host: SandboxHost
    setup_timeout: float

    @property
    def runs_images(self) -> bool:
        """Whether the sandboxes are made of images."""
        return registry.find(self.host.backend).runs_images

    @asynccontextmanager
    async def open(
        self, task: EvalTask, stage: TaskStage, spec: SandboxSpec, *, purpose: str, log: Path
    ) -> AsyncIterator[RuntimeSandbox]:
        """Make a sandbox for a stage of a task, with its setup done. Raises BelljarError.

        `spec` says what it has besides; see `SandboxHost.open` for the rest.
        """
        async with AsyncExitStack() as stack:
            sandbox, is_built = await self._enter(stack, self._candidates(task, stage, spec), purpose, log)
            if not is_built and stage.setup_cmds:
                with tempfile.TemporaryFile() as output:
                    await self._set_up(sandbox, task, stage, purpose, output)
            yield sandbox

    def _candidates(self, task: EvalTask, stage: TaskStage, spec: SandboxSpec) -> Iterator[tuple[SandboxSpec, bool]]:
        """Yield what a sandbox can be made of, the best first, and whether setup is done in it already."""
        private = replace(spec, scratch=Path(task.cwd))
        if not self.runs_images:
            yield private, False
            return
        if stage.image is not None:
            yield replace(spec, image=stage.image), True
        if not stage.prebuilt:
            yield replace(private, image=task.base_image.official_image), False

    async def _enter(
        self, stack: AsyncExitStack, candidates: Iterator[tuple[SandboxSpec, bool]], purpose: str, log: Path
    ) -> tuple[RuntimeSandbox, bool]:
        missing = []
        for spec, is_built in candidates:
            try:
                return await stack.enter_async_context(self.host.open(spec, purpose=purpose, log=log)), is_built
            except ImageMissingError:
                missing.append(spec.image)
        raise ImageMissingError(
            f"{self.host.backend} has no image {' and no image '.join(map(str, missing))}; build the task's image, or "
            f"fetch its base image and tag it so: {self.host.backend} tag IMAGE {missing[-1]}"
        )

    async def _set_up(
        self, sandbox: RuntimeSandbox, task: EvalTask, stage: TaskStage, purpose: str, output: BinaryIO
    ) -> None:
        """Run `setup_cmds` in the task's directory. Raises SetupError."""
        script = "\n".join(stage.setup_cmds).encode()
        command = Command(("/bin/sh", "-c", _SETUP), workdir=Path(task.cwd))
        ended = await sandbox.run(command, output, stdin=script, timeout=self.setup_timeout, limit=_MAX_SETUP_OUTPUT)
        if ended.exit_code == 0 and not ended.timed_out:
            return
        output.seek(0)
        printed = output.read()[-_SHOWN_OUTPUT:].decode(errors="replace").strip()
        why = f"took more than {self.setup_timeout:g} s" if ended.timed_out else f"exited with {ended.exit_code}"
        raise SetupError(
            f"{task.path}: {purpose}.setup_cmds {why}; they run without a network, as an ordinary user, and can write "
            f"to {task.cwd}, /tmp and home\n" + "\n".join(map(printable, printed.splitlines()))
        )
