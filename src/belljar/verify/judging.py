"""From what the client and the witness saw to a verdict.

A way out is closed if the client did not get through *and* the witness saw nothing of it, *and* the control beside it
worked: otherwise a dead network, or a lying client, would pass for a sealed one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from belljar.verify.auditing import LoggedDenial
from belljar.verify.catalogue import title
from belljar.verify.internet.witness import Sighting, SightingKind
from belljar.verify.probes import places
from belljar.verify.probes.kit import Mark, Probe
from belljar.verify.report import ProbeVerdict, Result

WITNESS: Final = "witness"
"""The row for what the witness saw of nobody in particular."""

_NOTHING: Final[Mapping[str, str]] = {}


class ProbeJudge:
    """Judges the probes of one run."""

    def __init__(
        self,
        marks: Mapping[Probe, Mark],
        findings: Mapping[str, dict[str, Any]],
        seen: Sequence[Sighting],
        lacking: Mapping[str, str] = _NOTHING,
        denials: Collection[LoggedDenial] = (),
    ) -> None:
        """Have what was seen; the probes that may find something, each with the reason; and what the log tells."""
        self._marks, self._lacking, self._denials = marks, lacking, denials
        self._findings = findings
        self._seen = seen
        self._working = {
            probe.id for probe in marks if probe.is_control and self._control(probe)[0] is ProbeVerdict.HOLDS
        }

    def results(self) -> list[Result]:
        """Return a row for each probe, and one for what the witness saw of nobody in particular."""
        rows = []
        for probe in self._marks:
            verdict, evidence = self._control(probe) if probe.is_control else self._attempt(probe)
            rows.append(Result(probe.id, title(probe.way_out), probe.tried, verdict, evidence))
        return [*rows, self._rest()]

    def _control(self, probe: Probe) -> tuple[ProbeVerdict, str]:
        told = self._findings.get(probe.id, {})
        evidence = told.get("evidence") or told.get("crash") or "it reported nothing"
        if not told.get("holds"):
            return ProbeVerdict.BROKEN, evidence
        token = self._marks[probe].token.encode()
        if probe.seen_outside and not any(
            seen.kind is SightingKind.STREAM and token in seen.data for seen in self._seen
        ):
            return ProbeVerdict.BROKEN, f"{evidence}; but the witness did not see it"
        return ProbeVerdict.HOLDS, evidence

    def _attempt(self, probe: Probe) -> tuple[ProbeVerdict, str]:
        told = self._findings.get(probe.id, {})
        leaks = sorted({seen.what for seen in self._seen if self._is_to_blame(probe, seen)})
        if leaks:
            return ProbeVerdict.BROKEN, f"the witness saw: {'; '.join(leaks[:3])}"
        if "holds" not in told:
            return ProbeVerdict.UNPROVEN, told.get("crash") or "it reported nothing"
        if not told["holds"] and probe.id in self._lacking:
            return ProbeVerdict.OUT_OF_SCOPE, f"{told['evidence']}; {self._lacking[probe.id]}"
        if not told["holds"]:
            return ProbeVerdict.BROKEN, told["evidence"]
        mark = self._marks[probe]
        denials = sum(denial.concerns(mark.token, mark.address) for denial in self._denials)
        if denials < probe.denials:
            return ProbeVerdict.BROKEN, f"of {probe.denials} denials the log tells {denials}"
        if probe.beside is not None and probe.beside not in self._working:
            return ProbeVerdict.UNPROVEN, f"{told['evidence']}; but {probe.beside} did not work"
        return ProbeVerdict.HOLDS, told["evidence"]

    def _is_to_blame(self, probe: Probe, seen: Sighting) -> bool:
        mark = self._marks[probe]
        if seen.address in (mark.address, mark.other_address, mark.private_address, *probe.targets):
            return True
        return mark.token.encode() in seen.data.lower()

    def _rest(self) -> Result:
        """Judge what nobody has claimed: everything that arrives is either granted, or somebody's leak."""
        blamed = [seen for seen in self._seen if any(self._is_to_blame(probe, seen) for probe in self._marks)]
        strange = sorted({seen.what for seen in self._seen if seen not in blamed and not is_expected(seen)})
        evidence = (
            f"the witness saw: {'; '.join(strange[:5])}" if strange else f"{len(self._seen)} sightings, all explained"
        )
        verdict = ProbeVerdict.BROKEN if strange else ProbeVerdict.HOLDS
        return Result(WITNESS, "anything else", "whatever else reaches the witness", verdict, evidence)


def is_expected(seen: Sighting) -> bool:
    """Tell whether the policy of the run grants what was seen."""
    if seen.kind is SightingKind.QUESTION:
        return seen.data.endswith((f".{places.ABOVE_GRANTED}".encode(), f".{places.ABOVE_MANY}".encode()))
    if seen.address in places.RESOLVER.values():
        return seen.port == places.DNS
    if seen.address in places.ALLOWED.values():
        return seen.port in (places.SSH, places.HTTP, places.HTTPS)
    if seen.address in places.BY_ADDRESS.values():
        return True
    if seen.address in places.BY_SOURCE.values():  # it takes a connection to find out whose they are, but not a byte
        return seen.kind is SightingKind.PACKET or not seen.data
    if seen.address == places.BROKER_ADDRESS:
        return seen.port == places.BROKER_PORT
    return seen.address in ("127.0.0.1", "::1") and seen.port == places.HOST_PORT
