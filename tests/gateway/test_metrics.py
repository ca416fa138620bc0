"""Metrics, as Prometheus reads them."""

import re

import pytest

from belljar.gateway.audit.metrics import (
    BUCKETS,
    DNS_QUERIES,
    FLOWS_CUT,
    FLOWS_LIVE,
    METRICS,
    STEP_SECONDS,
    Metrics,
)

_SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
_ESCAPED = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}


def read_exposition(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Read the text format (version 0.0.4) strictly; return samples by name and labels."""
    samples = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
            assert line.split()[3] in ("counter", "gauge", "histogram")
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert re.fullmatch(f"{family}(_bucket|_sum|_count)?", match[1])
            labels = {
                name: re.sub(r"\\.", lambda escape: _ESCAPED[escape[0]], value)
                for name, value in _LABEL.findall(match[2])
            }
            key = match[1], frozenset(labels.items())
            assert key not in samples, line
            samples[key] = float(match[3])
    assert text.endswith("\n")
    return samples


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return read_exposition(metrics.render()).get((name, frozenset(labels.items())))


def test_counters_of_several_sandboxes():
    metrics = Metrics()
    metrics.of("one").counts(DNS_QUERIES)["udp", "denied"] += 2
    metrics.of("one").counts(DNS_QUERIES)["tcp", "address"] += 1
    metrics.of("two").counts(DNS_QUERIES)["udp", "denied"] += 5
    metrics.of("two").counts(FLOWS_CUT)[()] += 1
    assert read_exposition(metrics.render()) == {
        ("belljar_dns_queries_total", frozenset({("sandbox", "one"), ("transport", "udp"), ("result", "denied")})): 2,
        ("belljar_dns_queries_total", frozenset({("sandbox", "one"), ("transport", "tcp"), ("result", "address")})): 1,
        ("belljar_dns_queries_total", frozenset({("sandbox", "two"), ("transport", "udp"), ("result", "denied")})): 5,
        ("belljar_flows_cut_total", frozenset({("sandbox", "two")})): 1,
    }


def test_a_gauge_is_read_when_somebody_looks():
    metrics = Metrics()
    flows: list[str] = []
    metrics.of("jar").gauges[FLOWS_LIVE] = lambda: len(flows)
    assert sample(metrics, "belljar_flows_live", sandbox="jar") == 0
    flows.append("a flow")
    assert sample(metrics, "belljar_flows_live", sandbox="jar") == 1


def test_a_histogram_is_cumulative():
    metrics = Metrics()
    observed = [0.0, 1e-6, 5e-6, 0.003, 0.2, 0.25, 14.0, 99.0]
    for seconds in observed:
        metrics.of("jar").histograms(STEP_SECONDS)["dial",].observe(seconds)
    for bound in (*BUCKETS, float("inf")):
        shown = "+Inf" if bound == float("inf") else repr(bound)
        counted = sample(metrics, "belljar_step_seconds_bucket", sandbox="jar", step="dial", le=shown)
        assert counted == sum(seconds <= bound for seconds in observed)
    assert sample(metrics, "belljar_step_seconds_count", sandbox="jar", step="dial") == len(observed)
    assert sample(metrics, "belljar_step_seconds_sum", sandbox="jar", step="dial") == pytest.approx(sum(observed))


@pytest.mark.parametrize("sandbox", ['quote "', "back\\slash", "new\nline", "\\n", "}", "käse"])
def test_any_id_of_a_sandbox_is_shown(sandbox):
    metrics = Metrics()
    metrics.of(sandbox).counts(FLOWS_CUT)[()] += 1
    assert sample(metrics, "belljar_flows_cut_total", sandbox=sandbox) == 1


def test_a_sandbox_that_is_gone_is_forgotten():
    metrics = Metrics()
    metrics.of("jar").counts(FLOWS_CUT)[()] += 1
    metrics.forget("jar")
    metrics.forget("never there")
    assert read_exposition(metrics.render()) == {}


def test_every_metric_is_announced():
    assert re.findall(r"^# TYPE (\S+) (\S+)$", Metrics().render(), re.MULTILINE) == [
        (metric.name, metric.kind) for metric in METRICS
    ]


@pytest.mark.parametrize("metric", METRICS, ids=[metric.name for metric in METRICS])
def test_names_follow_the_conventions(metric):
    assert re.fullmatch(r"belljar_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".")
    assert "sandbox" not in metric.labels
