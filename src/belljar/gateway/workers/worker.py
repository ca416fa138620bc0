"""A worker process: a gateway that does what the supervisor says.

It answers everything that it is asked, with `{"answer": …}`, or with `{"refused": …}` if it has done nothing. Anything
unexpected ends it: the supervisor will start another one. It also ends when the supervisor does.

Policies are compiled on threads: a large one takes a second, and the loop has sandboxes to serve meanwhile. So answers
may come in another order than questions. What counts for a sandbox is what was said of it last: a policy that is
compiled when another one, or the sandbox's end, has been asked for is not put in force any more.

A worker that takes another's place is given all sandboxes first, and serves none of them before: who is served already
could keep it from the others.
"""

import gc
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from signal import SIGKILL
from typing import Any, Final

from belljar.errors import BelljarError
from belljar.gateway.audit.log import AuditLog, keep_flushed
from belljar.gateway.audit.metrics import Metrics
from belljar.gateway.audit.observing import Observer
from belljar.gateway.dns.virtual import VirtualNames
from belljar.gateway.gateway import Gateway
from belljar.gateway.io.loop import Loop
from belljar.gateway.limits import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.upstream.proxy import check_enforceable
from belljar.gateway.upstream.resolver import Resolver
from belljar.gateway.workers.channel import Channel, Message
from belljar.gateway.workers.data import flow_to_data, settings_from_data
from belljar.gateway.workers.namememory import NameMemory
from belljar.linux.descriptors import adopt
from belljar.linux.processes import allow_most_descriptors, get_signal_when_parent_dies, keep_memory_private
from belljar.policy import CompiledPolicy, ResolvedPolicy, question

_CLOSE_TIMEOUT: Final = 1.0
"""Seconds, a half of those after which the supervisor gives up a worker that does not answer (`keeper.BOUND`)."""

_THREADS: Final = 2  # so that a large policy does not keep a small one waiting
_COLLECT_AFTER: Final = 10_000
"""New objects. A large policy is many that stay, and a collector that comes often walks over them again and again."""


class _SupersededError(BelljarError):
    """Something newer was asked for meanwhile."""


class Worker:
    """Serves the sandboxes that it is given."""

    def __init__(self, loop: Loop, begin: Message) -> None:
        self._loop = loop
        self._metrics = Metrics()
        self._audit = None
        handed = dict(zip(begin.data["handed"], begin.descriptors, strict=True))
        if "audit" in handed:
            self._audit = AuditLog(handed["audit"], on_full=begin.data["on_full"])
            loop.spawn(keep_flushed(loop, self._audit))
        settings = settings_from_data(begin.data["settings"])
        self._gateway = Gateway(loop, Resolver(loop, settings.resolvers), settings, broker=handed.get("broker"))
        self._settings = settings
        self._compiling = ThreadPoolExecutor(_THREADS, thread_name_prefix="belljar-policies")
        self._newest: dict[str, int] = {}
        """The number of the change that each sandbox is to have, and of that which it has."""
        self._in_force: dict[str, int] = {}
        self._unserved: list[tuple[SandboxState, Listeners]] | None = []
        """What waits for all sandboxes to be there; None from then on."""
        self._sandboxes: dict[str, SandboxState] = {}
        self._memories: dict[str, NameMemory] = {}
        self._changes: dict[str, Callable[[Message, CompiledPolicy | None], Any]] = {
            "open": self._open,
            "change_policy": self._change_policy,
        }
        self._tasks: dict[str, Callable[[Message], Any]] = {
            "serve": self._serve,
            "hold": self._hold,
            "denials": lambda message: self._sandboxes[message.data["sandbox"]].observer.denials(),
            "flows": self._flows,
            "metrics": lambda _message: self._metrics.render(),
            "ping": lambda _message: None,
        }

    async def do(self, message: Message) -> dict[str, Any]:
        """Do what a message asks for, and return what to say to it."""
        what, number = message.data["do"], message.data["number"]
        try:
            if what in self._changes:
                return {"number": number, "answer": await self._change(self._changes[what], message)}
            if what == "close":
                await self._close(message)
                return {"number": number, "answer": None}
            return {"number": number, "answer": self._tasks[what](message)}
        except BelljarError as error:
            return {"number": number, "refused": str(error)}

    def end(self) -> None:
        """Close every listener."""
        self._gateway.close_all()
        if self._audit is not None:
            self._audit.close()

    async def _change(self, change: Callable[[Message, CompiledPolicy | None], Any], message: Message) -> Any:
        """Do something with a policy, unless something newer is known by the time it is compiled."""
        data, sandbox, number = message.data["policy"], message.data["sandbox"], message.data["change"]
        self._newest[sandbox] = number
        try:
            policy = await self._compile(data) if data is not None else None
            if self._newest.get(sandbox) != number:
                raise _SupersededError
            if policy is not None:
                check_enforceable(policy, self._settings)
        except BelljarError:
            for descriptor in message.descriptors:
                os.close(descriptor)
            raise
        answer = change(message, policy)
        self._in_force[sandbox] = number
        return answer

    async def _compile(self, data: dict[str, Any]) -> CompiledPolicy:
        compiled = self._compiling.submit(lambda: ResolvedPolicy.from_data(data).compile())

        def arrange(wake: Callable[[], None]) -> Callable[[], None]:
            compiled.add_done_callback(lambda _: self._loop.call_from_thread(wake))
            return lambda: None

        await self._loop.wait_for(arrange)
        return compiled.result()

    def _serve(self, _message: Message) -> None:
        unserved, self._unserved = self._unserved or [], None
        for sandbox, listeners in unserved:
            self._gateway.open(sandbox, listeners)

    def _open(self, message: Message, policy: CompiledPolicy | None) -> int:
        data, sandbox = message.data, message.data["sandbox"]
        if sandbox in self._sandboxes:  # the policy was changed while it was being opened
            for descriptor in message.descriptors:
                os.close(descriptor)
            return self._change_policy(message, policy)
        memory = NameMemory(message.descriptors[0])
        sockets = map(adopt, message.descriptors[1:])
        listeners = Listeners(
            **{group: tuple(next(sockets) for _ in range(count)) for group, count in data["listeners"].items()}
        )
        names = VirtualNames(remember=memory.write)
        names.restore(memory.read(), self._loop.clock())
        observer = Observer(sandbox, audit=self._audit, metrics=self._metrics)
        state = SandboxState(sandbox, policy, observer, Limits(**data["limits"]), names)
        _count_again(state, memory.read())
        self._sandboxes[sandbox], self._memories[sandbox] = state, memory
        if self._unserved is None:
            self._gateway.open(state, listeners)
        else:
            self._unserved.append((state, listeners))
        return 0

    def _change_policy(self, message: Message, policy: CompiledPolicy | None) -> int:
        return self._put_in_force(message.data["sandbox"], policy)

    def _put_in_force(self, sandbox: str, policy: CompiledPolicy | None) -> int:
        """Change the policy of a sandbox, whether it is served yet or not; return how many flows are cut."""
        if self._unserved is None:
            return self._gateway.change_policy(sandbox, policy)
        return len(self._sandboxes[sandbox].change_policy(policy))

    def _hold(self, message: Message) -> None:
        """Have no policy in force until a change that is under way is done; a newer one may be in force already."""
        sandbox = message.data["sandbox"]
        if sandbox in self._sandboxes and self._in_force.get(sandbox, 0) < message.data["change"]:
            self._put_in_force(sandbox, None)

    def _flows(self, message: Message) -> list[list[Any]]:
        now = self._loop.clock()
        return [
            [flow_to_data(live.flow), *live.carried(), now - live.started]
            for live in self._sandboxes[message.data["sandbox"]].flows
        ]

    async def _close(self, message: Message) -> None:
        """Close a sandbox, and wait until its last attempts are on record, unless that takes too long."""
        sandbox = message.data["sandbox"]
        self._newest.pop(sandbox, None)  # and one that is still being compiled is never opened
        if sandbox not in self._sandboxes:
            return
        self._in_force.pop(sandbox, None)
        state = self._sandboxes.pop(sandbox)
        memory = self._memories.pop(sandbox)
        if self._unserved is None:
            closing = self._gateway.close(sandbox, on_closed=partial(self._forget, sandbox, memory))
            with suppress(TimeoutError), self._loop.timeout(_CLOSE_TIMEOUT):
                await self._loop.wait_for(closing.when_done)
        else:
            for _, listeners in (waiting for waiting in self._unserved if waiting[0] is state):
                listeners.close()
            self._unserved = [waiting for waiting in self._unserved if waiting[0] is not state]
            self._forget(sandbox, memory)

    def _forget(self, sandbox: str, memory: NameMemory) -> None:
        self._metrics.forget(sandbox)
        memory.close()


def _count_again(sandbox: SandboxState, names: list[str]) -> None:
    """Charge the names of an earlier worker to the wildcards they are under: a crash wins no fresh budget."""
    for name in names:
        verdict = sandbox.decide(question(name))
        if verdict.allowed and sandbox.policy is not None:
            sandbox.wildcards.admits(sandbox.policy, verdict)


async def _converse(loop: Loop, channel: Channel) -> None:
    """Do what the supervisor says, until it ends the conversation or is gone."""
    with suppress(EOFError):
        begin = await channel.receive()
        worker = Worker(loop, begin)
        channel.send({"number": begin.data["number"], "answer": None})
        failed: list[BaseException] = []

        async def answer(message: Message) -> None:
            try:
                channel.send(await worker.do(message))
            except Exception as error:  # noqa: BLE001 - it ends the worker, and not this task alone
                failed.append(error)
                listening.throw(EOFError())

        async def listen() -> None:
            while True:
                loop.spawn(answer(await channel.receive()))

        listening = loop.spawn(listen())
        try:
            await loop.join(listening)
        finally:
            worker.end()
            if failed:
                raise failed[0]


def main() -> None:
    """Work for whoever holds the other end of the socket whose descriptor is the last argument."""
    get_signal_when_parent_dies(SIGKILL)  # even if we should be too busy to notice
    keep_memory_private()
    allow_most_descriptors()
    gc.set_threshold(_COLLECT_AFTER)
    loop = Loop()
    conversation = loop.spawn(_converse(loop, Channel(loop, socket.socket(fileno=int(sys.argv[-1])))))
    conversation.when_done(loop.stop)
    loop.run()
    if conversation.error is not None:
        raise conversation.error
