"""Counting: what is counted, and how Prometheus reads it (text exposition format 0.0.4).

Every metric has the label `sandbox`; the values of all other labels come from small closed sets, so that nothing a
sandbox does can make the number of series grow. A counter is a number in a dictionary, which is as cheap as counting
gets; a gauge is a function that is called when somebody looks.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, Literal, NamedTuple, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS: Final = (5e-6, 1e-5, 2.5e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0)
"""In seconds: a decision takes microseconds, a dial may take all the time it is given."""


class Metric(NamedTuple):
    """Something that is counted or measured; `labels` are those beside `sandbox`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


FLOWS: Final = Metric(
    "belljar_flows_total", "counter", "Decisions on flows that were acted upon.", ("protocol", "result", "reason")
)
FLOWS_CLOSED: Final = Metric("belljar_flows_closed_total", "counter", "Allowed flows that have ended.", ("how",))
FLOWS_CUT: Final = Metric("belljar_flows_cut_total", "counter", "Live flows that a new policy ended.")
FLOWS_LIVE: Final = Metric("belljar_flows_live", "gauge", "Allowed flows that are open.")
BYTES: Final = Metric("belljar_bytes_total", "counter", "Bytes of flows that have ended.", ("direction",))
STEP_SECONDS: Final = Metric("belljar_step_seconds", "histogram", "How long a step towards a flow took.", ("step",))
DNS_QUERIES: Final = Metric("belljar_dns_queries_total", "counter", "Questions, by outcome.", ("transport", "result"))
DNS_DENIED: Final = Metric("belljar_dns_denied_total", "counter", "Questions that the policy denied.", ("reason",))
VIRTUAL_NAMES: Final = Metric("belljar_virtual_names", "gauge", "Names that have virtual addresses.")
LIMITS: Final = Metric("belljar_limits_reached_total", "counter", "Refusals because of a limit.", ("limit",))
BUGS: Final = Metric("belljar_bugs_total", "counter", "Connections that were reset because of a bug in Belljar.")
CPU_SECONDS: Final = Metric(
    "belljar_cpu_seconds_total", "counter", "Time that the gateway's thread has spent for the sandbox."
)
BUFFERED: Final = Metric("belljar_buffered_bytes", "gauge", "Memory that the gateway holds for what is on its way.")
GENERATION: Final = Metric("belljar_policy_generation", "gauge", "The generation of the policy in force.")
SERVICE_REQUESTS: Final = Metric(
    "belljar_service_requests_total", "counter", "Requests to services that are brokers.", ("service", "result")
)
SERVICE_TOKENS: Final = Metric(
    "belljar_service_tokens_total", "counter", "Tokens that model APIs have counted.", ("service", "direction")
)
SERVICE_DOLLARS: Final = Metric(
    "belljar_service_dollars_total", "counter", "What that cost, by the user's prices.", ("service",)
)
AUDIT_LOST: Final = Metric("belljar_audit_lost_total", "counter", "Audit lines that were not written.", ("cause",))

METRICS: Final = (
    FLOWS,
    FLOWS_CLOSED,
    FLOWS_CUT,
    FLOWS_LIVE,
    BYTES,
    STEP_SECONDS,
    DNS_QUERIES,
    DNS_DENIED,
    VIRTUAL_NAMES,
    LIMITS,
    BUGS,
    CPU_SECONDS,
    BUFFERED,
    GENERATION,
    SERVICE_REQUESTS,
    SERVICE_TOKENS,
    SERVICE_DOLLARS,
    AUDIT_LOST,
)

Counts: TypeAlias = defaultdict[tuple[str, ...], float]
"""The values of a counter by those of its labels: ``counts["udp", "denied"] += 1``."""


class Histogram:
    """How many of the observed values lie between each two bounds."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(BUCKETS, value)] += 1
        self.sum += value


class SandboxMetrics:
    """The numbers of one sandbox."""

    def __init__(self) -> None:
        self._counts: dict[Metric, Counts] = {}
        self._histograms: dict[Metric, defaultdict[tuple[str, ...], Histogram]] = {}
        self.gauges: dict[Metric, Callable[[], float]] = {}

    def counts(self, metric: Metric) -> Counts:
        """Return the values of a counter."""
        return self._counts.setdefault(metric, defaultdict(int))

    def histograms(self, metric: Metric) -> defaultdict[tuple[str, ...], Histogram]:
        """Return the values of a histogram, by those of its labels."""
        return self._histograms.setdefault(metric, defaultdict(Histogram))

    def samples(self, metric: Metric) -> Iterator[tuple[str, dict[str, str], float]]:
        """Yield the lines of a metric: suffix of its name, labels, value."""
        if metric in self.gauges:
            yield "", {}, self.gauges[metric]()
        for values, count in sorted(self._counts.get(metric, {}).items()):
            yield "", dict(zip(metric.labels, values, strict=True)), count
        for values, histogram in sorted(self._histograms.get(metric, {}).items()):
            yield from _histogram_samples(dict(zip(metric.labels, values, strict=True)), histogram)


class Metrics:
    """The numbers of all sandboxes of a gateway."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, SandboxMetrics] = {}

    def of(self, sandbox: str) -> SandboxMetrics:
        """Return the numbers of a sandbox, which begin at zero."""
        return self._sandboxes.setdefault(sandbox, SandboxMetrics())

    def forget(self, sandbox: str) -> None:
        """Drop the numbers of a sandbox that is gone."""
        self._sandboxes.pop(sandbox, None)

    def render(self) -> str:
        """Return all numbers as Prometheus reads them."""
        return "".join(f"{line}\n" for metric in METRICS for line in self._lines(metric))

    def _lines(self, metric: Metric) -> Iterator[str]:
        yield f"# HELP {metric.name} {metric.help}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for sandbox, numbers in self._sandboxes.items():
            for suffix, labels, value in numbers.samples(metric):
                shown = ",".join(f'{label}="{_escape(text)}"' for label, text in {"sandbox": sandbox, **labels}.items())
                yield f"{metric.name}{suffix}{{{shown}}} {value}"


def merge(expositions: Iterable[str]) -> str:
    """Make one exposition of those of several gateways, which serve different sandboxes."""
    metrics: dict[str, dict[str, None]] = {}
    lines: dict[str, None] = {}
    for exposition in expositions:
        for line in exposition.removesuffix("\n").split("\n"):
            if line.startswith("# HELP "):
                lines = metrics.setdefault(line, {})
            lines[line] = None  # an ordered set: what announces a metric is said once
    return "".join(f"{line}\n" for lines in metrics.values() for line in lines)


def _histogram_samples(labels: dict[str, str], histogram: Histogram) -> Iterator[tuple[str, dict[str, str], float]]:
    for bound, count in zip((*map(repr, BUCKETS), "+Inf"), accumulate(histogram.counts), strict=True):
        yield "_bucket", {**labels, "le": bound}, count
    yield "_sum", labels, histogram.sum
    yield "_count", labels, sum(histogram.counts)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
