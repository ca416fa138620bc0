"""What a probe is, and the list of them all."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from belljar.verify.probes import places


class Finding(NamedTuple):
    """What the client saw. A way out is closed only if the witness agrees."""

    holds: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known about a run before anything is tried."""

    run: str
    """A word that all tokens of the run end in."""

    outside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By their kinds, the namespaces of whoever made the sandbox and of its gateway, as links in /proc/self/ns say."""

    neighbour: Mapping[str, str] = field(default_factory=dict)
    """Those of another sandbox."""

    sockets: Sequence[str] = ()
    """Where whoever made the sandbox talks to others."""

    owners: Sequence[str] = ()
    """Files and directories of whoever made the sandbox."""

    homes: Sequence[str] = ()
    """Home directories of whoever made the sandbox."""

    mounts: Sequence[tuple[str, str]] = ()
    """What is mounted outside: the numbers of its file systems, and which parts of them."""

    bounds: Mapping[str, int] = field(default_factory=dict)
    """What there may be inside at most: `bytes` and `files` in memory, `shared` memory; limits of processes, by their
    names; and of control groups that can be seen inside, `memory` and `pids`."""

    descriptors: frozenset[int] = frozenset()
    """What was open when the first program inside began."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a probe calls its own in one run, so that the witness can tell whose doing something was."""

    number: int
    token: str
    """A word that must not be seen outside or, from a control, must be."""

    family: int
    """4 or 6."""

    scene: "Scene"

    @property
    def address(self) -> str:
        """An address that nobody is granted."""
        return (places.OWN_V4 if self.family == 4 else places.OWN_V6).format(number=self.number)

    @property
    def other_address(self) -> str:
        """The same in the other family."""
        return (places.OWN_V6 if self.family == 4 else places.OWN_V4).format(number=self.number)

    @property
    def private_address(self) -> str:
        """An address of a private network."""
        return (places.PRIVATE_V4 if self.family == 4 else places.PRIVATE_V6).format(number=self.number)

    @property
    def name(self) -> str:
        """A name that nobody is granted."""
        return f"{self.token}.evil.test"

    @property
    def granted(self) -> str:
        """A granted name. It leads to one family, so that the whole way is of that family."""
        return self.leading_to("web")

    def leading_to(self, where: str) -> str:
        """Return a granted name that leads to a kind of place (`belljar.verify.internet.zone`)."""
        return f"g{self.number}.v{self.family}.{where}.{places.ABOVE_GRANTED}"

    @property
    def socket_family(self) -> socket.AddressFamily:
        """The same for sockets."""
        return socket.AF_INET if self.family == 4 else socket.AF_INET6


Function = Callable[[Mark], Finding]


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that is tried."""

    id: str
    way_out: int
    """The number of the way out in the catalogue; 0 for a control."""

    tried: str
    function: Function
    family: int
    beside: str | None
    """The control without which this probe proves nothing."""

    targets: tuple[str, ...] = ()
    """Addresses that this probe tries to reach beside its own."""

    seen_outside: bool = False
    """Whether the witness must have seen it."""

    next_door: bool = False
    """Whether it is run in another sandbox."""

    denials: int = 0
    """How many different denials the audit log must tell of."""

    @property
    def is_control(self) -> bool:
        """Whether it is to succeed."""
        return self.way_out == 0

    def mark(self, scene: Scene) -> Mark:
        """Return what the probe calls its own in a run."""
        number = list(PROBES).index(self.id) + 1
        return Mark(number, f"leak{number}x{scene.run}", self.family, scene)


PROBES: Final[dict[str, Probe]] = {}
"""All of them, in the order of the modules; the place in it is a probe's number, from 1."""


def network(
    way_out: int, slug: str, tried: str, *, beside: str = "http", targets: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Register an attempt to reach something, once for each family."""

    def register(function: Function) -> Function:
        for family in (4, 6):
            name = f"{way_out}-{slug}-v{family}"
            _add(
                Probe(name, way_out, f"{tried} (IPv{family})", function, family, f"control-{beside}-v{family}", targets)
            )
        return function

    return register


def told(way_out: int, slug: str, tried: str, denials: int) -> Callable[[Function], Function]:
    """Register attempts that the audit log has to tell of, once for each family."""

    def register(function: Function) -> Function:
        for family in (4, 6):
            name, what = f"{way_out}-{slug}-v{family}", f"{tried} (IPv{family})"
            _add(Probe(name, way_out, what, function, family, f"control-http-v{family}", denials=denials))
        return function

    return register


def inside(
    way_out: int, slug: str, tried: str, *, beside: str | None = None, targets: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Register something that does not depend on a family of addresses."""

    def register(function: Function) -> Function:
        _add(Probe(f"{way_out}-{slug}", way_out, tried, function, 4, beside, targets))
        return function

    return register


def control(
    slug: str, tried: str, *, seen_outside: bool = True, next_door: bool = False
) -> Callable[[Function], Function]:
    """Register something that must succeed, once for each family."""

    def register(function: Function) -> Function:
        for family in (4, 6):
            name, what = f"control-{slug}-v{family}", f"{tried} (IPv{family})"
            _add(Probe(name, 0, what, function, family, None, seen_outside=seen_outside, next_door=next_door))
        return function

    return register


def _add(probe: Probe) -> None:
    if probe.id in PROBES:
        raise ValueError(f"there are two probes {probe.id}")
    PROBES[probe.id] = probe
