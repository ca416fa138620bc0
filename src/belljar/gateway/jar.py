"""One sandbox as the gateway sees it: its policy, its names, its live flows, its limits, and what it has tried."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from belljar.gateway.budget import Budget, Buffers, Share
from belljar.gateway.events import Limit
from belljar.gateway.loop import Task
from belljar.gateway.metrics import BUFFERED, FLOWS_LIVE, VIRTUAL_NAMES
from belljar.gateway.observing import Observer
from belljar.gateway.virtual import VirtualNames
from belljar.gateway.wildcards import WildcardBudget
from belljar.policy import CompiledPolicy, Flow, Verdict, without_policy

_DESCRIPTORS_PER_CONNECTION: Final = 2
_REMEMBERED_VERDICTS: Final = 1024
_COPIES: Final = 3  # of what a client has said: as received, in the parser, and as a message
_ALWAYS: Final = _COPIES << 12  # a page is kept for every connection, as one is relayed
_MORE_TO_DIAL: Final = 1  # questions to a name server, and attempts to connect, come in pairs


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use of the gateway."""

    connections: int = 8192
    handshakes: int = 512
    """Connections whose destination is not settled yet."""

    first_bytes_seconds: float = 5.0
    """How long a client may take to say whom it wants, where that has to be known."""

    buffered_bytes: int = 64 << 20
    """How much may be held of what is on its way, before connections have to make do with a page each, and before what
    is not complete is refused."""

    dial_seconds: float = 15.0
    udp_flows: int = 1024
    udp_waiting_bytes: int = 1 << 20
    """Datagrams whose destination is not settled yet."""

    dns_per_second: int = 500
    names_under_wildcard: int = 1000
    """How many different names may be asked for under one wildcard: names can carry data."""


class LimitError(OSError):
    """A limit of the sandbox is reached; it has been noted already."""


class Carried(NamedTuple):
    """How many bytes a flow has carried so far, from the sandbox and to it."""

    up: int = 0
    down: int = 0


class LiveFlow:
    """A flow that was allowed and is still open."""

    __slots__ = ("carried", "cut", "end", "flow", "started")

    def __init__(
        self,
        flow: Flow,
        started: float,
        cut: Callable[[Verdict], None],
        end: Callable[[], None],
        carried: Callable[[], Carried],
    ) -> None:
        self.flow = flow
        self.started = started
        self.cut = cut
        self.end = end
        self.carried = carried

    def let_go(self) -> None:
        """Forget who could be asked to cut or to end the flow: it has ended."""
        self.cut, self.end, self.carried = _nothing, _nothing, Carried


def _nothing(*_: object) -> None:
    pass


@dataclass(slots=True)
class Jar:
    """The state of one sandbox in the gateway."""

    id: str
    policy: CompiledPolicy | None
    observer: Observer
    limits: Limits = field(default_factory=Limits)
    names: VirtualNames = field(default_factory=VirtualNames)
    flows: set[LiveFlow] = field(default_factory=set)
    handlers: set[Task] = field(default_factory=set)
    """What serves connections whose way is not clear yet, or who are being turned away."""

    connections: int = 0
    handshakes: int = 0
    udp_waiting_bytes: int = 0
    descriptors: Share = field(default_factory=lambda: Share(Budget()))
    buffers: Buffers = field(init=False)
    wildcards: WildcardBudget = field(init=False)
    _verdicts: dict[Flow, Verdict] = field(default_factory=dict)
    """What the policy has said so far: a connection asks several times, and there are many to the same destination."""

    _verdicts_by: CompiledPolicy | None = None

    def __post_init__(self) -> None:
        self.buffers = Buffers(self.limits.buffered_bytes)
        self.wildcards = WildcardBudget(self.limits.names_under_wildcard)
        self.observer.read_from(BUFFERED, lambda: self.buffers.held)
        self.observer.read_from(FLOWS_LIVE, lambda: len(self.flows))
        self.observer.read_from(VIRTUAL_NAMES, lambda: len(self.names))

    @property
    def generation(self) -> int:
        """The generation of the policy in force; 0 without one."""
        return self.policy.generation if self.policy is not None else 0

    def admit_connection(self) -> bool:
        """Tell whether the sandbox may have one more connection, and count it until `connection_ended`."""
        if self.connections >= self.limits.connections:
            return self.refuse("connections")
        if not self.descriptors.take(_DESCRIPTORS_PER_CONNECTION):
            return self.refuse("descriptors")
        self.connections += 1
        return True

    def connection_ended(self) -> None:
        """Make room for another connection."""
        self.connections -= 1
        self.descriptors.give_back(_DESCRIPTORS_PER_CONNECTION)

    def handshake(self) -> "_Handshake":
        """Count a connection whose destination is not settled yet, for the length of a block. Raises LimitError."""
        return _Handshake(self)

    def dialling(self) -> "_Dialling":
        """Account for what it takes to make a connection, for the length of a block. Raises LimitError."""
        return _Dialling(self)

    def unfinished(self) -> "Unfinished":
        """Account for what is kept of a client's words until they are complete."""
        return Unfinished(self)

    def decide(self, flow: Flow) -> Verdict:
        """Decide a flow by the policy of this moment."""
        if self._verdicts_by is not self.policy or len(self._verdicts) >= _REMEMBERED_VERDICTS:
            self._verdicts_by = self.policy
            self._verdicts.clear()
        verdict = self._verdicts.get(flow)
        if verdict is None:
            policy = self.policy
            verdict = self._verdicts[flow] = policy.decide(flow) if policy is not None else without_policy(flow)
        return verdict

    def admits_name(self, verdict: Verdict) -> bool:
        """Tell whether an allowed name may be looked up: under a wildcard, only so many different ones may."""
        if self.policy is None or self.wildcards.admits(self.policy, verdict):
            return True
        return self.refuse("names_under_wildcard")

    def change_policy(self, policy: CompiledPolicy | None) -> Sequence[Callable[[], None]]:
        """Put a new policy in force; return what cuts the live flows that it denies, one by one.

        That has to be called before anything else is done for the sandbox. Without a policy everything is denied.
        """
        self.policy = policy
        decided = [(live, self.decide(live.flow)) for live in self.flows]
        cuts = [partial(self._cut, live, verdict) for live, verdict in decided if not verdict.allowed]
        self.observer.policy_changed(self.generation, policy.digest if policy is not None else None, len(cuts))
        return cuts

    def end(self) -> Sequence[Callable[[], None]]:
        """Return what ends every connection, one by one, because the sandbox is closed."""
        return [*(partial(self._end, live) for live in self.flows), *(handler.cancel for handler in self.handlers)]

    def _cut(self, live: LiveFlow, verdict: Verdict) -> None:
        with self._containing():
            live.cut(verdict)

    def _end(self, live: LiveFlow) -> None:
        with self._containing():
            live.end()

    @contextmanager
    def _containing(self) -> Iterator[None]:
        """Do something to one flow; a bug that it meets must not save the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            self.observer.bug_found(error)

    def refuse(self, limit: Limit) -> bool:
        """Take note that a limit was reached; return False, for whoever asked whether there is room."""
        self.observer.limit_reached(limit)
        return False


class _Handshake:
    """A block during which a connection's destination is being settled."""

    __slots__ = ("_jar",)

    def __init__(self, jar: Jar) -> None:
        self._jar = jar

    def __enter__(self) -> None:
        jar = self._jar
        if jar.handshakes >= jar.limits.handshakes:
            jar.refuse("handshakes")
            raise LimitError("too many connections whose destination is not settled")
        jar.handshakes += 1

    def __exit__(self, *_: object) -> None:
        self._jar.handshakes -= 1


class Unfinished:
    """What is kept of a client's words because they are not complete, or because nobody has taken them yet."""

    __slots__ = ("_held", "_jar")

    def __init__(self, jar: Jar) -> None:
        self._jar = jar
        self._held = 0

    def keep(self, data: bytes) -> bytes:
        """Account for some more bytes, and return them. Raises LimitError if that is too much."""
        size, buffers = _COPIES * len(data), self._jar.buffers
        if self._held + size > _ALWAYS and buffers.left < size:
            self._jar.refuse("buffered_bytes")
            raise LimitError("too much that is not complete")
        buffers.left -= size
        self._held += size
        return data

    def let_go(self) -> None:
        """Take note that nothing is kept any more."""
        self._jar.buffers.left += self._held
        self._held = 0


class _Dialling:
    """A block during which a connection is being made."""

    __slots__ = ("_jar",)

    def __init__(self, jar: Jar) -> None:
        self._jar = jar

    def __enter__(self) -> None:
        if not self._jar.descriptors.take(_MORE_TO_DIAL):
            self._jar.refuse("descriptors")
            raise LimitError("no more descriptors")

    def __exit__(self, *_: object) -> None:
        self._jar.descriptors.give_back(_MORE_TO_DIAL)
