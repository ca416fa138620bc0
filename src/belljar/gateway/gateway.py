"""The gateway: one loop that serves the doors of any number of sandboxes.

A sandbox can have thousands of flows, and to cut them takes a while. Others need not wait for that: it is done in the
sandbox's own turns, flow by flow, and before anything else in them. So from the moment a policy has changed, or a
sandbox is closed, the gateway reads and sends nothing more that it should not, whenever it is that the last flow is
cut. What the kernel has in its buffers by then is still sent, until the flow is reset.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from belljar.gateway import proxies, transparent
from belljar.gateway.accepting import accept_for_ever
from belljar.gateway.budget import Budget, Share
from belljar.gateway.dialing import Dialler
from belljar.gateway.dnsforwarding import forward
from belljar.gateway.dnsservice import DnsService, Forward
from belljar.gateway.door import Door
from belljar.gateway.jar import Jar
from belljar.gateway.listeners import Listeners
from belljar.gateway.loop import Loop, Task
from belljar.gateway.metrics import CPU_SECONDS
from belljar.gateway.pipes import Pipes
from belljar.gateway.resolver import Resolver
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.streams import Stream
from belljar.gateway.turns import Owner
from belljar.gateway.udp import UdpService
from belljar.gateway.udpflow import Answers
from belljar.gateway.upstreamproxy import check_enforceable
from belljar.policy import CompiledPolicy

_Handler = Callable[[Door, Stream], Coroutine[Any, Any, None]]


class Gateway:
    """Serves sandboxes until it is closed. Everything happens on the loop's thread."""

    def __init__(self, loop: Loop, resolver: Resolver, settings: Settings = DEFAULTS) -> None:
        self._loop = loop
        self._settings = settings
        self._dialler = Dialler(loop, resolver, settings)
        self._forward: Forward = partial(forward, resolver)
        self._budget = Budget()
        self._served: dict[str, _Served] = {}
        self._closing: dict[_Served, Callable[[], None]] = {}

    def open(self, jar: Jar, listeners: Listeners) -> None:
        """Begin to serve a sandbox through its listeners, which the gateway owns from now on.

        Raises UnenforceableError, and then serves nothing.
        """
        if jar.policy is not None:
            check_enforceable(jar.policy, self._settings)
        jar.descriptors = Share(self._budget)
        door = Door(self._loop, jar, self._dialler, Pipes(jar.descriptors, jar.buffers))
        owner = Owner()
        jar.observer.read_from(CPU_SECONDS, lambda: owner.used)
        with self._loop.working_for(owner):
            self._served[jar.id] = _Served(door, owner, listeners, self._forward)
        jar.observer.sandbox_opened(jar.policy)

    def change_policy(self, sandbox: str, policy: CompiledPolicy | None) -> int:
        """Put a new policy in force, or none; return how many live flows are cut.

        Raises KeyError for an unknown sandbox and UnenforceableError; then nothing has changed.
        """
        if policy is not None:
            check_enforceable(policy, self._settings)
        served = self._served[sandbox]
        cuts = served.door.jar.change_policy(policy)
        self._loop.call_first_for(served.owner, [*cuts, *served.dns.policy_changed()])
        return len(cuts)

    def close(self, sandbox: str, on_closed: Callable[[], None] = lambda: None) -> None:
        """Serve a sandbox no more; say so when everything of it has ended."""
        served = self._served.pop(sandbox)
        self._closing[served] = on_closed
        self._loop.call_first_for(served.owner, [*served.close(), partial(self._forget, served)])

    def close_all(self) -> None:
        """End everything at once."""
        for sandbox in list(self._served):
            self.close(sandbox)
        for served in list(self._closing):
            for end in served.door.jar.end():
                end()
            self._forget(served)
        self._dialler.close()

    def _forget(self, served: "_Served") -> None:
        if on_closed := self._closing.pop(served, None):
            served.door.pipes.close()
            served.door.jar.observer.sandbox_closed()
            on_closed()


class _Served:
    """One sandbox and the tasks that serve its doors."""

    def __init__(self, door: Door, owner: Owner, listeners: Listeners, forward: Forward) -> None:
        self.door, self.owner = door, owner
        self._listeners = listeners
        door.jar.descriptors.hold(len(list(listeners)))
        self._tasks: list[Task] = []
        for group, handle in (
            (listeners.tcp, transparent.handle),
            (listeners.http_proxy, proxies.handle_http),
            (listeners.socks, proxies.handle_socks),
        ):
            self._tasks += (self._serve(listener, handle) for listener in group)
        self.dns = DnsService(door.loop, door.jar, door.jar.wildcards, forward)
        self.dns.serve(listeners.dns_udp, listeners.dns_tcp)
        self._udp = UdpService(door, Answers(listeners.udp_answers))
        self._udp.serve(listeners.udp)

    def _serve(self, listener: Any, handle: _Handler) -> Task:
        door = self.door
        return door.loop.spawn(accept_for_ever(door.loop, door.jar, listener, partial(handle, door)))

    def close(self) -> Sequence[Callable[[], None]]:
        """Accept nothing more; return what ends the flows, one by one."""
        for task in self._tasks:
            task.cancel()
        self.dns.close()
        self._udp.close()
        for listener in self._listeners:
            self.door.loop.unwatch(listener)
        self.door.jar.descriptors.give_back(len(list(self._listeners)))
        self._listeners.close()
        return self.door.jar.end()
