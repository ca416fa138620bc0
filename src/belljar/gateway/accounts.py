"""What is kept about a flow from the first "yes" on: among the live ones of its sandbox, and on record."""

from collections.abc import Callable

from belljar.gateway.dialing import DeniedError
from belljar.gateway.door import Door
from belljar.gateway.events import Ending
from belljar.gateway.jar import Carried, LiveFlow
from belljar.policy import Flow, Verdict


class Account:
    """A flow that was allowed, until it is closed."""

    def __init__(
        self,
        door: Door,
        flow: Flow,
        cut: Callable[[Verdict], None],
        end: Callable[[], None],
        carried: Callable[[], Carried],
    ) -> None:
        self._jar, self._clock = door.jar, door.loop.clock
        self._live = LiveFlow(flow, self._clock(), cut, end, carried)
        self._is_told = False
        self._jar.flows.add(self._live)
        if flow.name is not None:
            self._jar.names.hold(flow.name)

    @property
    def flow(self) -> Flow:
        """The flow as far as it is known by now."""
        return self._live.flow

    def update(self, flow: Flow) -> None:
        """Go on with more that is known about the flow. Raises DeniedError."""
        verdict = self._jar.decide(flow)
        if not verdict.allowed:
            raise DeniedError(verdict)
        self._live.flow = flow

    def tell_allowed(self) -> None:
        """Have it on record that the flow is allowed and connected, once."""
        if self._is_told:
            return
        verdict = self._jar.decide(self.flow)
        if verdict.allowed:
            self._is_told = True
            self._jar.observer.flow_allowed(verdict)

    def leave(self) -> None:
        """Be no longer among the live ones."""
        self._jar.flows.discard(self._live)
        self._live.let_go()
        if self.flow.name is not None:
            self._jar.names.release(self.flow.name)

    def tell_closed(self, how: Ending, carried: Carried, error: str | None) -> None:
        """Have it on record how the flow ended."""
        seconds = self._clock() - self._live.started
        if error is None:
            self._jar.observer.flow_closed(self.flow, *carried, seconds, how)
        else:
            self._jar.observer.flow_failed(self.flow, *carried, seconds, error)
