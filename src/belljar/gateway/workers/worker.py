"""A worker process: a gateway that does what the supervisor says.

It is asked one thing after the other, and answers each with `{"answer": …}`, or with `{"refused": …}` if it has done
nothing. Anything unexpected ends it: the supervisor will start another one. It also ends when the supervisor does.
"""

import socket
import sys
from collections.abc import Callable
from signal import SIGKILL
from typing import Any

from belljar.errors import BelljarError
from belljar.gateway.audit import AuditLog, keep_flushed
from belljar.gateway.gateway import Gateway
from belljar.gateway.jar import Jar, Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.loop import Loop
from belljar.gateway.metrics import Metrics
from belljar.gateway.observing import Observer
from belljar.gateway.resolver import Resolver
from belljar.gateway.virtual import VirtualNames
from belljar.gateway.workers.channel import Channel, Message
from belljar.gateway.workers.data import flow_to_data, policy_from_data, settings_from_data
from belljar.gateway.workers.namememory import NameMemory
from belljar.linux.descriptors import adopt
from belljar.linux.processes import allow_most_descriptors, get_signal_when_parent_dies, keep_memory_private
from belljar.policy import question


class Worker:
    """Serves the sandboxes that it is given."""

    def __init__(self, loop: Loop, begin: Message) -> None:
        self._loop = loop
        self._metrics = Metrics()
        self._audit = None
        if begin.descriptors:
            self._audit = AuditLog(begin.descriptors[0], on_full=begin.data["on_full"])
            loop.spawn(keep_flushed(loop, self._audit))
        settings = settings_from_data(begin.data["settings"])
        self._gateway = Gateway(loop, Resolver(loop, settings.resolvers), settings)
        self._jars: dict[str, Jar] = {}
        self._memories: dict[str, NameMemory] = {}
        self._tasks: dict[str, Callable[[Message], Any]] = {
            "open": self._open,
            "change_policy": self._change_policy,
            "close": self._close,
            "denials": lambda message: self._jars[message.data["sandbox"]].observer.denials(),
            "flows": self._flows,
            "metrics": lambda _message: self._metrics.render(),
        }

    def do(self, message: Message) -> dict[str, Any]:
        """Do what a message asks for, and return what to say to it."""
        try:
            return {"answer": self._tasks[message.data["do"]](message)}
        except BelljarError as error:
            return {"refused": str(error)}

    def end(self) -> None:
        """Close every door."""
        self._gateway.close_all()
        if self._audit is not None:
            self._audit.close()

    def _open(self, message: Message) -> None:
        data, sandbox = message.data, message.data["sandbox"]
        memory = NameMemory(message.descriptors[0])
        sockets = map(adopt, message.descriptors[1:])
        listeners = Listeners(
            **{door: tuple(next(sockets) for _ in range(count)) for door, count in data["listeners"].items()}
        )
        try:
            policy = policy_from_data(data["policy"]) if data["policy"] is not None else None
            names = VirtualNames(remember=memory.write)
            names.restore(memory.read(), self._loop.clock())
            observer = Observer(sandbox, audit=self._audit, metrics=self._metrics)
            jar = Jar(sandbox, policy, observer, Limits(**data["limits"]), names)
            _count_again(jar, memory.read())
            self._gateway.open(jar, listeners)
        except BelljarError:
            listeners.close()
            memory.close()
            self._metrics.forget(sandbox)
            raise
        self._jars[sandbox], self._memories[sandbox] = jar, memory

    def _change_policy(self, message: Message) -> dict[str, Any]:
        policy = policy_from_data(message.data["policy"])
        cut = self._gateway.change_policy(message.data["sandbox"], policy)
        return {"generation": policy.generation, "flows_cut": cut}

    def _flows(self, message: Message) -> list[list[Any]]:
        now = self._loop.clock()
        return [
            [flow_to_data(live.flow), *live.carried(), now - live.started]
            for live in self._jars[message.data["sandbox"]].flows
        ]

    def _close(self, message: Message) -> None:
        sandbox = message.data["sandbox"]
        self._gateway.close(sandbox)
        self._memories.pop(sandbox).close()
        del self._jars[sandbox]
        self._metrics.forget(sandbox)


def _count_again(jar: Jar, names: list[str]) -> None:
    """Charge the names of an earlier worker to the wildcards they are under: a crash wins no fresh budget."""
    for name in names:
        verdict = jar.decide(question(name))
        if verdict.allowed and jar.policy is not None:
            jar.wildcards.admits(jar.policy, verdict)


async def _converse(loop: Loop, channel: Channel) -> None:
    """Do what the supervisor says, until it ends the conversation or is gone."""
    try:
        worker = Worker(loop, await channel.receive())
        await channel.send({"answer": None})
        try:
            while True:
                await channel.send(worker.do(await channel.receive()))
        finally:
            worker.end()
    except EOFError:
        pass


def main() -> None:
    """Work for whoever holds the other end of the socket whose descriptor is the last argument."""
    get_signal_when_parent_dies(SIGKILL)  # even if we should be too busy to notice
    keep_memory_private()
    allow_most_descriptors()
    loop = Loop()
    conversation = loop.spawn(_converse(loop, Channel(loop, socket.socket(fileno=int(sys.argv[-1])))))
    conversation.when_done(loop.stop)
    loop.run()
    if conversation.error is not None:
        raise conversation.error
