"""What a supervisor holds of a sandbox: all that it takes to serve it, and the policy that it is to have."""

from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Final

from belljar.errors import BelljarError
from belljar.gateway.limits import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.workers.namememory import NameMemory
from belljar.gateway.workers.process import PATIENCE, WorkerProcess
from belljar.policy import ResolvedPolicy

_NUMBERS: Final = count(1)


@dataclass(slots=True, eq=False)
class PendingPolicy:
    """A policy that a sandbox is to have; None leaves it nothing to reach."""

    policy: ResolvedPolicy | None
    until: float | None = None
    """When it has to have been replaced, in seconds since the machine was started, sleep included."""

    number: int = field(default_factory=lambda: next(_NUMBERS))
    attempts: int = 0
    """How many workers were told of it, one after the other, and have not answered."""

    is_in_force: bool = False
    flows_cut: int = 0
    error: BelljarError | None = None
    """Why a worker has refused it."""

    @property
    def is_over(self) -> bool:
        """Tell whether a worker has put it in force, or refused it."""
        return self.is_in_force or self.error is not None

    @property
    def generation(self) -> int:
        """That of the policy; 0 without one."""
        return self.policy.generation if self.policy is not None else 0


@dataclass(slots=True, eq=False)
class SupervisedSandbox:
    """A sandbox that is to be served."""

    id: str
    change: PendingPolicy
    """The latest: no worker is ever told of one before it again."""

    listeners: Listeners
    limits: Limits
    names: NameMemory
    holder: WorkerProcess | None = None
    """The worker that has opened it, while it lives."""

    openings: int = 0
    """How many times a worker was asked to open it, and has not answered."""

    is_new: bool = True
    """Whether no worker has opened it yet."""

    async def put_to(self, worker: WorkerProcess) -> int:
        """Have a worker put the latest change in force, and return how many flows that has cut.

        Raises RefusedError, WorkerSilentError, WorkerLostError.
        """
        change = self.change
        data: dict[str, Any] = {
            "sandbox": self.id,
            "change": change.number,
            "policy": change.policy.to_data() if change.policy is not None else None,
        }
        cut: int
        if self.holder is worker:
            cut = await worker.ask("change_policy", patience=PATIENCE, **data)
        else:
            cut = await worker.ask(
                "open",
                [self.names.descriptor, *(listener.fileno() for listener in self.listeners)],
                patience=PATIENCE,
                limits=asdict(self.limits),
                listeners={group: len(sockets) for group, sockets in self.listeners.groups().items()},
                **data,
            )
        return cut

    def close(self) -> None:
        """Leave the sandbox without listeners."""
        self.listeners.close()
        self.names.close()
