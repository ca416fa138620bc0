"""A whole run: a world, a witness in it, a sandbox, the probes inside, and the verdicts."""

import difflib
import os
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime

from belljar.backends import registry
from belljar.errors import BelljarError
from belljar.verify import outside
from belljar.verify.brokers import triable
from belljar.verify.catalogue import OUT_OF_SCOPE, WAYS_OUT, title
from belljar.verify.judging import WITNESS
from belljar.verify.probes.kit import PROBES, Probe
from belljar.verify.probes.running import in_order
from belljar.verify.report import ProbeVerdict, Report, Result
from belljar.verify.trial import TrialMaker
from belljar.verify.tryout import try_out
from belljar.verify.workshop import workshop


class UnknownProbeError(BelljarError):
    """A probe was asked for that does not exist."""


def verify(
    backend: str = registry.DEFAULT, *, only: Collection[str] = (), prepare: Callable[[], object] = lambda: None
) -> Report:
    """Try every way out of a sandbox or, with `only`, those with these ids or numbers.

    `prepare` is called in the processes that have a part in making the sandbox, before they do. For a process without
    threads, which is root of a user namespace of its own afterwards if it was not root before. Raises
    UnknownProbeError, UnknownBackendError, MachineError, WorldError, TrialError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    (chosen, untried), policy = triable(choose(only)), outside.policy_of_the_machine()
    maker: TrialMaker = registry.load(registry.find(backend).trial)(os.environ)
    with workshop() as place:
        inside = try_out(chosen, place, maker, prepare)
        around = [
            outside.policies_are_refused(),
            outside.policy_is_as_before(policy),
            outside.planted_files_are_as_before(place),
            outside.nothing_was_written_elsewhere(place),
            *([outside.left_programs_are_not_asked(place)] if _is_wanted("61-seen-from-outside", only) else []),
            outside.audit_is_intact(place),
        ]
    tried = {probe.id for probe in chosen} | {row.id for row in untried} | {WITNESS}
    every = (*inside, *untried, *around, *_out_of_scope())
    rows = [row for row in every if row.id in tried or _is_wanted(row.id, only)]
    return Report(backend, started, time.monotonic() - clock, tuple(sorted(rows, key=_by_way_out)))


def choose(only: Collection[str]) -> list[Probe]:
    """Return the probes to run, in their order: all, or those that are named and the controls beside them.

    Raises UnknownProbeError.
    """
    for name in only:
        if name not in PROBES and name not in map(str, WAYS_OUT):
            near = difflib.get_close_matches(name, PROBES, 1)
            hint = f'did you mean "{near[0]}"?' if near else "give the id of a probe, or the number of a way out"
            raise UnknownProbeError(f'there is no probe "{name}"; {hint}')
    wanted = {probe.id for probe in PROBES.values() if _is_wanted(probe.id, only)}
    beside = {PROBES[name].beside for name in wanted}
    return [probe for probe in in_order() if probe.id in wanted or probe.id in beside]


def _is_wanted(name: str, only: Collection[str]) -> bool:
    return not only or name in only or name.partition("-")[0] in only


def _out_of_scope() -> Iterator[Result]:
    for number, reason in OUT_OF_SCOPE.items():
        yield Result(str(number), title(number), WAYS_OUT[number], ProbeVerdict.OUT_OF_SCOPE, reason)


def _by_way_out(row: Result) -> tuple[int, int]:
    """Sort by number, with the controls in front and the witness's own row at the end."""
    first = row.id.partition("-")[0]
    return (0, 0) if first == "control" else (1, int(first)) if first.isdecimal() else (2, 0)
