"""A sandbox is described once, and whoever asks for one can ask for all of it.

Who adds a field to `SandboxSpec` is told here what else to touch: an option of `belljar run`, a field of the API, an
option of the client. Where somebody cannot ask for it, that is meant, and the reason is in the table.
"""

from dataclasses import fields
from typing import NamedTuple

import pytest

from belljar.cli.run import run
from belljar.client import model
from belljar.client.options import ClaimOptions
from belljar.control.http.schemas import COMPONENTS, CREATE
from belljar.sandbox.spec import SandboxSpec


class Asked(NamedTuple):
    options: set[str]
    """Of `belljar run`."""

    field: str | None
    """Of the API and the client. None if only who sits at the machine can ask for it."""


ASKED = {
    "image": Asked({"image"}, "image"),
    "workdir": Asked({"workdir", "no_workdir"}, "workdir"),
    "scratch": Asked(set(), None),  # of evaluations: a task names the place that it is worked on
    "environment": Asked({"env"}, "env"),
    "binds": Asked({"bind", "ro_bind"}, "mounts"),
    "allow_write": Asked({"allow_write"}, None),
    "keep": Asked({"policy", "audit"}, None),  # the files that these options name
    "files": Asked(set(), None),  # Belljar's own: what an agent is told
    "debugger": Asked({"allow_debugger"}, None),
    "read_only": Asked({"read_only"}, "read_only"),
    "isolation": Asked({"isolation", "no_network_isolation"}, "isolation"),
    "limits": Asked({"cpu_limit", "mem_limit"}, "limits"),
}

SECRET = "env"


def test_every_field_can_be_asked_for():
    assert list(ASKED) == [field.name for field in fields(SandboxSpec)]


def test_by_an_option():
    assert set().union(*(asked.options for asked in ASKED.values())) <= {option.name for option in run.params}


@pytest.mark.parametrize("name", [asked.field for asked in ASKED.values() if asked.field])
def test_by_api_and_client_and_it_is_told_again(name):
    assert name in CREATE["properties"]
    assert name in ClaimOptions.__annotations__
    assert (name in COMPONENTS["Sandbox"]["properties"]) == (name != SECRET)


def test_the_client_asks_for_what_the_api_knows():
    assert set(ClaimOptions.__annotations__) - {"idempotency_key"} == set(CREATE["properties"])


NETWORK = COMPONENTS["Sandbox"]["properties"]["network"]["properties"]
LAYER = COMPONENTS["Layers"]["properties"]["layers"]["items"]["properties"]
FLIP = COMPONENTS["Preview"]["properties"]["changes"]["items"]["properties"]
ANSWERS = {
    model.SandboxState: COMPONENTS["Sandbox"]["properties"] | NETWORK,
    model.ExecResult: COMPONENTS["ExecResult"]["properties"],
    model.Layer: LAYER,
    model.NetworkChange: COMPONENTS["Change"]["properties"],
    model.NetworkPreview: COMPONENTS["Preview"]["properties"],
    model.Flip: FLIP,
    model.Grant: COMPONENTS["Grant"]["properties"],
    model.Explanation: COMPONENTS["Explanation"]["properties"],
    model.Flow: COMPONENTS["Flow"]["properties"],
}
RENAMED = {
    "stdout_bytes": "stdout",
    "stderr_bytes": "stderr",
    "flips": "changes",
    "before": "from",
    "after": "to",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_client_reads_what_the_api_answers(answer):
    names = {RENAMED.get(field.name, field.name) for field in fields(answer)}
    assert names <= set(ANSWERS[answer])
