"""The gateway: one loop that serves the listeners of any number of sandboxes.

A sandbox can have thousands of flows, and to cut them takes a while. Others need not wait for that: it is done in the
sandbox's own turns, flow by flow, and before anything else in them. So from the moment a policy has changed, or a
sandbox is closed, the gateway reads and sends nothing more that it should not, whenever it is that the last flow is
cut. What the kernel has in its buffers by then is still sent, until the flow is reset. What a closed sandbox has
attempted by then is still decided and reported (`closing`).
"""

from collections.abc import Callable
from functools import partial

from belljar.gateway.accepting import accept_for_ever
from belljar.gateway.closing import close
from belljar.gateway.dns.forwarding import forward
from belljar.gateway.dns.service import DnsService, Forward
from belljar.gateway.io.budget import Descriptors, Share
from belljar.gateway.io.loop import Loop, Task
from belljar.gateway.listeners import Listeners
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.tcp import proxies, transparent
from belljar.gateway.udp.flow import Answers
from belljar.gateway.udp.service import UdpService
from belljar.gateway.upstream.dialing import Dialler
from belljar.gateway.upstream.proxy import check_enforceable
from belljar.gateway.upstream.resolver import Resolver
from belljar.policy import CompiledPolicy


class Gateway:
    """Serves sandboxes until it is closed. Everything happens on the loop's thread."""

    def __init__(
        self, loop: Loop, resolver: Resolver, settings: Settings = DEFAULTS, *, broker: int | None = None
    ) -> None:
        """`broker` is a descriptor of the broker's socket, for services that are brokers."""
        self._loop = loop
        self._settings = settings
        self._dialler = Dialler(loop, resolver, settings, broker=broker)
        self._forward: Forward = partial(forward, resolver)
        self._budget = Descriptors()
        self._sandboxes: dict[str, SandboxState] = {}
        self._closing: dict[SandboxState, Task] = {}
        self.on_closed: Callable[[], None] = lambda: None
        """Called when everything has ended."""

    def open(self, sandbox: SandboxState, listeners: Listeners) -> None:
        """Begin to serve a sandbox through its listeners, which the gateway owns from now on.

        Raises UnenforceableError, and then serves nothing.
        """
        if sandbox.policy is not None:
            check_enforceable(sandbox.policy, self._settings)
        sandbox.serve_with(self._loop, self._dialler, Share(self._budget), listeners)
        with self._loop.working_for(sandbox.owner):
            self._listen(sandbox)
        self._sandboxes[sandbox.id] = sandbox
        sandbox.observer.sandbox_opened(sandbox.policy)

    def change_policy(self, sandbox_id: str, policy: CompiledPolicy | None) -> int:
        """Put a new policy in force, or none; return how many live flows are cut.

        Raises KeyError for an unknown sandbox and UnenforceableError; then nothing has changed.
        """
        if policy is not None:
            check_enforceable(policy, self._settings)
        sandbox = self._sandboxes[sandbox_id]
        cuts = sandbox.change_policy(policy)
        self._loop.call_first_for(sandbox.owner, [*cuts, *sandbox.dns.policy_changed()])
        return len(cuts)

    def close(self, sandbox_id: str, on_closed: Callable[[], None] = lambda: None) -> Task:
        """Serve a sandbox no more; return the task that ends when everything of the sandbox has, after `on_closed`."""
        sandbox = self._sandboxes.pop(sandbox_id)
        closing = self._closing[sandbox] = close(sandbox)
        closing.when_done(partial(self._forget, sandbox, on_closed))
        return closing

    def close_all(self) -> None:
        """End everything at once."""
        for sandbox_id in list(self._sandboxes):
            self.close(sandbox_id)
        for sandbox, closing in list(self._closing.items()):
            self._loop.run_owner(sandbox.owner, partial(getattr, closing, "done"))
        self._dialler.close()
        self.on_closed()

    def _listen(self, sandbox: SandboxState) -> None:
        """Start what serves each of a sandbox's listeners."""
        listeners = sandbox.listeners
        for group, handle in (
            (listeners.tcp, transparent.handle),
            (listeners.http_proxy, proxies.handle_http),
            (listeners.socks, proxies.handle_socks),
        ):
            for listener in group:
                accepting = accept_for_ever(self._loop, sandbox, listener, partial(handle, sandbox))
                sandbox.acceptors.append(self._loop.spawn(accepting))
        sandbox.dns = DnsService(self._loop, sandbox, sandbox.wildcards, self._forward)
        sandbox.dns.serve(listeners.dns_udp, listeners.dns_tcp)
        sandbox.udp = UdpService(sandbox, Answers(listeners.udp_answers))
        sandbox.udp.serve(listeners.udp)

    def _forget(self, sandbox: SandboxState, on_closed: Callable[[], None]) -> None:
        closing = self._closing.pop(sandbox)
        if closing.error is not None:
            sandbox.observer.bug_found(closing.error)
        sandbox.pipes.close()
        sandbox.observer.sandbox_closed()
        on_closed()
