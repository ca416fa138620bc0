"""The containers of one owner.

The engine's labels say whose a container is, so that whoever comes later finds it, and nobody takes another's away. A
label alone proves nothing, since an image can have some: the container has to be called as they say.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine, EngineError, EngineLostError
from belljar.backends.containers.exec.state import kill_container
from belljar.backends.interface import GoneError, LostError, MachineError, PausedError, SpecError, State, is_name
from belljar.errors import BelljarError
from belljar.linux.lives import Life
from belljar.sandbox.files.workdirs import ViewError

OWNER: Final = "dev.belljar.owner"
SANDBOX: Final = "dev.belljar.sandbox"
"""Labels: who has made a container, and what it is called there."""

_STATES: Final = {"running": State.RUNNING, "paused": State.PAUSED}

_BUSY: Final = ("dependent containers", "already in progress")
"""What engines say when they will soon be able to take a container away."""

_SECONDS_TO_REMOVE: Final = 5.0
"""Until we help. An agent can keep an engine waiting for what runs inside."""

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


class Containers:
    """Containers of an engine, by the names of their sandboxes."""

    def __init__(self, engine: Engine, owner: str, labels: Mapping[str, str]) -> None:
        """Have labels for all containers."""
        self.engine, self._owner = engine, owner
        self.labels = {**labels, OWNER: owner}
        self._first: dict[str, Life] = {}
        """The first process of each container that was seen: an agent can keep an engine from telling it again."""

    def name(self, sandbox: str) -> str:
        """Return what a sandbox's container is called."""
        return f"belljar-{self._owner}-{sandbox}"

    def path(self, sandbox: str) -> str:
        """Return where the engine's API has a container."""
        return f"/containers/{self.name(sandbox)}"

    def inspect(self, sandbox: str, engine: Engine | None = None) -> Any:
        """Return what the engine knows of a container. Raises GoneError, EngineError, EngineLostError."""
        if not is_name(sandbox):
            raise GoneError(f"there is no sandbox {sandbox!a}")
        found = (engine or self.engine).get(f"{self.path(sandbox)}/json")
        if found["Config"]["Labels"].get(OWNER) != self._owner:
            raise GoneError(f"there is no sandbox {sandbox} of this owner")
        with suppress(OSError):  # it has ended, or is on another machine
            self._first[sandbox] = Life.of(found["State"]["Pid"])
        return found

    def states(self) -> dict[str, State]:
        """Return how each of them is. Raises EngineError, EngineLostError."""
        labelled = self.engine.get("/containers/json", all=True, filters={"label": [f"{OWNER}={self._owner}"]})
        return {
            container["Labels"][SANDBOX]: _STATES.get(container["State"], State.DEAD)
            for container in labelled
            if self._is_named(container)
        }

    def kill(self, sandbox: str) -> None:
        """Have the engine end all that runs in a container. Raises EngineError, EngineLostError."""
        replace(self.engine, patience=_SECONDS_TO_REMOVE).post(f"{self.path(sandbox)}/kill")

    def remove(self, sandbox: str) -> None:
        """Take a container away, which the engine may be doing for somebody else. Raises as `inspect` does.

        It may also have to take away the helper first that has sealed it.
        """
        engine = replace(self.engine, patience=_SECONDS_TO_REMOVE)
        for pause in (*_PAUSES, None):
            try:
                self.inspect(sandbox, engine)
                engine.delete(self.path(sandbox), force=True, v=True)
            except EngineLostError:
                if engine is self.engine:
                    raise
                if sandbox in self._first:
                    kill_container(self._first[sandbox])
                engine = self.engine
            except EngineError as error:
                if pause is None or not any(reason in str(error) for reason in _BUSY):
                    raise
                time.sleep(pause)
            else:
                self._first.pop(sandbox, None)
                return

    @contextmanager
    def asking(self, sandbox: str) -> Iterator[None]:
        """Say what an engine's errors mean for a sandbox."""
        try:
            yield
        except ViewError as error:
            raise SpecError(str(error)) from error
        except EngineLostError as error:
            raise LostError(str(error)) from error
        except EngineError as error:
            raise _meaning(self.engine, sandbox, error) from error

    def _is_named(self, container: Any) -> bool:
        sandbox = container["Labels"].get(SANDBOX)
        return sandbox is not None and f"/{self.name(sandbox)}" in container["Names"]


def state_of(found: Any) -> State:
    """Return how a container is that was inspected."""
    return _STATES.get(found["State"]["Status"], State.DEAD)


def _meaning(engine: Engine, sandbox: str, error: EngineError) -> BelljarError:
    text = str(error).lower()
    if error.status == 404 and "container" in text:
        return GoneError(f"there is no sandbox {sandbox}")
    if "is paused" in text:
        return PausedError(f"the sandbox {sandbox} is paused; resume it first")
    if error.status == 409 and ("not running" in text or "state improper" in text):
        return GoneError(f"all processes of the sandbox {sandbox} have ended; destroy it")
    return MachineError(f"{engine.kind} could not do it: {error}")
