"""Whether brokers can be tried: that takes modules which an installation may lack, and does not need for the rest."""

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Final

from belljar.verify.catalogue import title
from belljar.verify.probes.kit import Probe
from belljar.verify.probes.running import needs_broker
from belljar.verify.report import ProbeVerdict, Result

MODULES: Final = ("h11", "httpcore2")


def missing_modules() -> list[str]:
    """Return what brokers need and this installation lacks."""
    return [name for name in MODULES if find_spec(name) is None]


def triable(chosen: Iterable[Probe]) -> tuple[list[Probe], list[Result]]:
    """Return the probes that can be run here, and a row for each of the others."""
    missing = missing_modules()
    untried = [probe for probe in chosen if missing and needs_broker(probe)]
    why = f"there are no brokers without {' and '.join(missing)}; pip install 'belljar[broker]'"
    rows = [Result(probe.id, title(probe.way_out), probe.tried, ProbeVerdict.OUT_OF_SCOPE, why) for probe in untried]
    return [probe for probe in chosen if probe not in untried], rows
