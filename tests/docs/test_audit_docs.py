"""docs/audit.md describes every event, field, metric and value that exists, and nothing else."""

import json
import re
from typing import get_args

import pytest

from belljar.gateway.audit.events import (
    COMMON_FIELDS,
    EVENTS,
    VERSION,
    DnsDenied,
    DnsResult,
    Ending,
    Limit,
    LossCause,
)
from belljar.gateway.audit.log import QUEUE_LINES
from belljar.gateway.audit.metrics import METRICS
from belljar.gateway.audit.observing import KEPT_DENIALS
from tests.docs.test_docs import DOCS, first_column, section

PAGE = "audit.md"


def table(heading: str) -> str:
    """Return the table whose first heading this is."""
    match = re.search(rf"^\| {heading} \|.*\n(?:\|.*\n)+", DOCS[PAGE], re.MULTILINE)
    assert match, f"{PAGE} has no table of {heading!r}"
    return match[0]


def test_every_event_is_documented_and_nothing_else():
    assert re.findall(r"^### (.+)$", section(PAGE, "Events"), re.MULTILINE) == list(EVENTS.values())


@pytest.mark.parametrize("event", EVENTS, ids=EVENTS.values())
def test_every_field_is_documented_and_nothing_else(event):
    assert first_column(section(PAGE, EVENTS[event])) == list(event._fields)


def test_the_common_fields_are_documented():
    assert first_column(section(PAGE, "Common fields")) == list(COMMON_FIELDS)
    assert f"The version of the schema: {VERSION}." in section(PAGE, "Common fields")


def test_the_example_is_a_line_of_the_log():
    [line] = re.findall(r"```json\n(.*)\n```", DOCS[PAGE])
    record = json.loads(line)
    assert list(record) == [*COMMON_FIELDS, *DnsDenied._fields]
    assert (record["v"], record["event"]) == (VERSION, EVENTS[DnsDenied])


def test_every_metric_is_documented_with_its_type_and_labels_and_nothing_else():
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \|([^|]*)\|", table("metric"), re.MULTILINE)
    documented = [(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows]
    assert documented == [(metric.name, metric.kind, metric.labels) for metric in METRICS]


def test_every_label_is_documented_and_nothing_else():
    assert set(first_column(table("label"))) == {label for metric in METRICS for label in metric.labels}


@pytest.mark.parametrize(
    ("heading", "values"),
    [
        pytest.param("how a flow ended", Ending, id="endings"),
        pytest.param("result of a question", DnsResult, id="results"),
        pytest.param("limit", Limit, id="limits"),
        pytest.param("cause of a loss", LossCause, id="losses"),
    ],
)
def test_every_value_is_documented_and_nothing_else(heading, values):
    assert first_column(table(heading)) == list(get_args(values))


def test_the_sizes_are_those_of_the_code():
    assert f"the latest {KEPT_DENIALS} denials" in DOCS[PAGE]
    assert f"wait in memory, {QUEUE_LINES} at most" in DOCS[PAGE]
