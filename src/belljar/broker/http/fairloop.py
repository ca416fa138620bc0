"""An asyncio event loop that shares its thread fairly among sandboxes.

Theory of operation
-------------------
asyncio calls what is ready in the order in which it became so: a sandbox with a thousand busy connections is called a
thousand times before a neighbour is. Here, work has an owner (`belljar.turns`), which is found in a context variable:
tasks, futures and timers inherit it, because asyncio runs each call in the context in which it was made. `call_soon`
puts the call of an owner into that owner's queue, and owners take turns of one slice each. Between two slices the loop
looks for what has arrived. Calls without an owner are the broker's own, and are made as soon as they are ready.

Three things are left to the code that runs on this loop:

- A call cannot be interrupted. Code that may have much to do in one call awaits `give_way` in between.
- Callbacks of transports are not queued. `ByteStream` reads no more than its task has asked for, so an owner that has
  to wait for its turn causes few of them, and charges what they take.
- A call that is made by hand in another owner's context is charged to that owner.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context, ContextVar
from math import inf
from typing import Final, TypeVarTuple, Unpack

from belljar.turns import Line, Owner

_MAX_CALLS: Final = 256
"""In a slice, even if time should stand still."""

_MAX_ACCOUNTS: Final = 4096
_owner: Final[ContextVar[Owner | None]] = ContextVar("owner", default=None)
_OURS: Final = Context()
"""The context of calls that serve all owners, and so belong to none."""

Arguments = TypeVarTuple("Arguments")


class FairLoop(asyncio.SelectorEventLoop):
    """Runs the calls of owners in turns, and all others at once."""

    def __init__(self) -> None:
        self._line = Line()
        self._is_scheduled = False
        self._turn_ends = inf
        super().__init__()

    @property
    def turn_is_over(self) -> bool:
        """Whether the call that runs now should leave the rest of its work for the owner's next turn."""
        return self.time() >= self._turn_ends

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call something in the next turn of the owner of its context, or at once if there is none."""
        owner = _owner.get() if context is None else context.get(_owner)
        if owner is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(callback, args, self, context)
        owner.calls.append(call.run)
        if not owner.in_line:
            self._line.join(owner)
            self._schedule()
        return call

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            super().call_soon(self._take_turn, context=_OURS)

    def _take_turn(self) -> None:
        """Make the calls of the owner whose turn it is, until its slice is over."""
        self._is_scheduled = False
        owner = self._line.begin_turn()
        if owner is not None:
            calls = owner.calls
            used = time.thread_time()
            self._turn_ends = self.time() + owner.credit
            try:
                for _ in range(_MAX_CALLS):
                    calls.popleft()()
                    if not calls or self.turn_is_over:
                        break
            finally:
                self._turn_ends = inf
                # An owner is not charged for the time in which the machine ran something else.
                self._line.end_turn(owner, time.thread_time() - used)
        if self._line:
            self._schedule()


class _Call(asyncio.Handle):
    """A call that waits for its owner's turn."""

    def run(self) -> None:
        """Make the call, unless it was cancelled. What it raises goes to the loop's exception handler."""
        if not self.cancelled():
            self._run()


class Accounts:
    """The accounts of sandboxes.

    An account is kept while there is room, also when its sandbox has no connection: a sandbox that reconnects must not
    begin without its debts.
    """

    def __init__(self) -> None:
        self._accounts = OrderedDict[str, Owner]()

    def of(self, sandbox: str) -> Owner:
        """Return the account of a sandbox."""
        owner = self._accounts.setdefault(sandbox, Owner())
        self._accounts.move_to_end(sandbox)
        if len(self._accounts) > _MAX_ACCOUNTS:
            self._accounts.popitem(last=False)
        return owner


def owned_by(owner: Owner) -> None:
    """Make an account the owner of this context."""
    _owner.set(owner)


async def work_for(owner: Owner) -> None:
    """Make an account the owner of all that this task does from here on."""
    if _owner.get() is not owner:
        _owner.set(owner)
        await asyncio.sleep(0)  # continues in the owner's turn


async def give_way() -> None:
    """Continue in the owner's next turn if this one is over."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, FairLoop) and loop.turn_is_over:
        await asyncio.sleep(0)


def current_owner() -> Owner | None:
    """Return the account that what runs now is charged to."""
    return _owner.get()
