"""What every way out of one sandbox has in common."""

from dataclasses import dataclass

from belljar.gateway.dialing import Dialler
from belljar.gateway.jar import Jar
from belljar.gateway.loop import Loop
from belljar.gateway.pipes import Pipes
from belljar.names import Host
from belljar.policy import Flow, Verdict, to_address, to_name


@dataclass(frozen=True, slots=True)
class Door:
    """The sandbox, and the means to serve it."""

    loop: Loop
    jar: Jar
    dialler: Dialler
    pipes: Pipes

    def flow_to(self, host: Host, port: int) -> Flow:
        """Return the flow to what a client asks for: a virtual address means the name it was handed out for."""
        if isinstance(host, str):
            return to_name(host, port)
        name = self.jar.names.name_of(host)
        return to_name(name, port) if name is not None else to_address(host, port)

    def decide(self, flow: Flow) -> Verdict:
        """Decide a new flow, and take the time that takes."""
        started = self.loop.clock()
        verdict = self.jar.decide(flow)
        self.jar.observer.took("decide", self.loop.clock() - started)
        return verdict
