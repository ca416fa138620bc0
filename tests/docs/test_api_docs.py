"""docs/api.md describes every operation, field, status, event and problem that exists, and nothing else."""

import re

import pytest

from belljar.control.http.api import OPERATIONS
from belljar.control.http.problems import KINDS
from belljar.control.http.schemas import CREATE, DEFAULT_OUTPUT, EXEC
from belljar.control.store import KEPT_EVENTS
from belljar.runtime.events import EVENT_NAMES
from belljar.runtime.sandbox import Status
from belljar.sandbox.layers import LayerName
from tests.docs.test_docs import DOCS, first_column, section

PAGE = "api.md"


def test_every_operation_is_documented_and_nothing_else():
    documented = first_column(section(PAGE, "Operations"))
    assert documented == [f"{operation.method} {operation.path}" for operation in OPERATIONS]


def test_every_field_of_a_sandbox_and_every_status_is_documented_and_nothing_else():
    assert first_column(section(PAGE, "Sandboxes")) == [*CREATE["properties"], *(status.value for status in Status)]


def test_every_field_of_a_command_is_documented_and_nothing_else():
    assert first_column(section(PAGE, "Commands")) == list(EXEC["properties"])
    assert f"({DEFAULT_OUTPUT} by default)" in section(PAGE, "Commands")


def test_every_layer_is_documented_and_nothing_else():
    assert first_column(section(PAGE, "Layers")) == list(map(str, LayerName))


def test_every_event_is_documented_and_nothing_else():
    text = section(PAGE, "Events")
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == list(EVENT_NAMES.values())
    assert f"The latest {KEPT_EVENTS} events" in text


@pytest.mark.parametrize("happening", EVENT_NAMES, ids=EVENT_NAMES.values())
def test_every_field_of_an_event_is_documented_and_nothing_else(happening):
    assert first_column(section(PAGE, EVENT_NAMES[happening])) == list(happening._fields)


def test_every_problem_is_documented_with_its_status_and_nothing_else():
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", section(PAGE, "Problems"), re.MULTILINE)
    assert rows == [(code, str(kind.status), kind.title) for code, kind in KINDS.items()]


def test_the_page_is_linked():
    assert "(api.md)" in DOCS["cli.md"]
