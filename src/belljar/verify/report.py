"""What has been proven: for people, for programs, and for the machines that run tests."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from xml.etree import ElementTree as ET


class ProbeVerdict(StrEnum):
    """What became of a row of the table."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNPROVEN = "unproven"
    """It could not be tried, or not beside a control that worked."""

    OUT_OF_SCOPE = "out of scope"


@dataclass(frozen=True, slots=True)
class Result:
    """A row of the table."""

    id: str
    way_out: str
    tried: str
    verdict: ProbeVerdict
    evidence: str


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    backend: str
    started: datetime
    seconds: float
    results: tuple[Result, ...]

    @property
    def all_hold(self) -> bool:
        """Whether everything that is in scope holds."""
        verdicts = {result.verdict for result in self.results}
        return ProbeVerdict.HOLDS in verdicts and verdicts <= {ProbeVerdict.HOLDS, ProbeVerdict.OUT_OF_SCOPE}

    def summary(self) -> dict[str, int]:
        """Return how many rows had which verdict."""
        counts = Counter(result.verdict for result in self.results)
        return {outcome.value: counts[outcome] for outcome in ProbeVerdict}

    def as_json(self) -> str:
        """Return the run as one document."""
        document: dict[str, Any] = {
            "backend": self.backend,
            "started": self.started.astimezone(UTC).isoformat(timespec="seconds"),
            "seconds": round(self.seconds, 1),
            "results": [asdict(result) for result in self.results],
            "summary": self.summary(),
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def as_junit(self) -> str:
        """Return the run as JUnit XML."""
        counts = self.summary()
        suite = ET.Element(
            "testsuite",
            name=f"belljar verify ({self.backend})",
            tests=str(len(self.results)),
            failures=str(counts[ProbeVerdict.BROKEN]),
            errors=str(counts[ProbeVerdict.UNPROVEN]),
            skipped=str(counts[ProbeVerdict.OUT_OF_SCOPE]),
            time=f"{self.seconds:.1f}",
            timestamp=self.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        )
        elements = {
            ProbeVerdict.BROKEN: "failure",
            ProbeVerdict.UNPROVEN: "error",
            ProbeVerdict.OUT_OF_SCOPE: "skipped",
        }
        for result in self.results:
            case = ET.SubElement(suite, "testcase", classname=result.way_out, name=f"{result.id}: {result.tried}")
            if result.verdict in elements:
                ET.SubElement(case, elements[result.verdict], message=result.evidence)
        text: str = ET.tostring(suite, encoding="unicode")
        return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
