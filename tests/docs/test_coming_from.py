"""docs/coming-from.md names commands, options, keys of policies, variables and operations of the API that exist."""

import re
import shlex

import click
import pytest

from belljar.gateway.settings import VARIABLES
from belljar.harness.kit import PROGRAMS
from belljar.policy.language.parse import DOCUMENT_KEYS, EGRESS_KEYS
from belljar.policy.language.services import SERVICE_KEYS
from tests.docs.test_docs import COMMANDS, DOCS, first_column, section

PAGE = "coming-from.md"
ROWS = re.findall(r"^\| (.+) \| (.+) \|$", DOCS[PAGE], re.MULTILINE)
INTRODUCTIONS = re.sub(r"^\|.*$", "", DOCS[PAGE], flags=re.MULTILINE)
OURS = [span for _, here in ROWS for span in re.findall(r"`([^`]+)`", here)]
OURS += [span for span in re.findall(r"`([^`]+)`", INTRODUCTIONS) if span.startswith("belljar")]
KEYS = {
    *DOCUMENT_KEYS,
    *(f"egress.{key}" for key in EGRESS_KEYS),
    *(f"services.NAME.{key}" for key in SERVICE_KEYS),
}
FIELDS = {"network", "ttl", "hard_ttl", "labels", "mounts", "limits"}
THEIRS = {"appProtocols", "TSK_PROXY_HOST"}
"""Words of theirs in our column, for what is not there."""

NAMES = {"host.docker.internal", "host.belljar.internal", *PROGRAMS}


def flags(command: click.Command) -> set[str]:
    return {flag for parameter in command.params if isinstance(parameter, click.Option) for flag in parameter.opts}


def exists(span: str) -> bool:
    words = shlex.split(span)
    if words[0] == "belljar":
        name = max((name for name in COMMANDS if f"{span} ".startswith(f"{name} ")), key=len, default="")
        given = words[: words.index("--")] if "--" in words else words
        return bool(name) and {word for word in given if word.startswith("-")} <= flags(COMMANDS[name])
    if words[0].startswith("--"):
        return words[0] in flags(COMMANDS["belljar run"])
    if words[0] in ("GET", "PUT", "POST", "PATCH", "DELETE"):
        return span in first_column(section("api.md", "Operations"))
    if words[0].startswith("BELLJAR_"):
        return words[0] in VARIABLES
    return words[0].rstrip(":") in KEYS or span in FIELDS & set(first_column(section("api.md", "Sandboxes")))


@pytest.mark.parametrize("span", sorted({*OURS} - THEIRS - NAMES))
def test_what_is_called_ours_exists(span):
    assert exists(span)


@pytest.mark.parametrize(
    "span", ["belljar rnu", "belljar run --no-such -- CMD", "--no-such", "GET /no", "egress.no", "BELLJAR_NO", "no"]
)
def test_what_does_not_exist_is_found_out(span):
    assert not exists(span)


@pytest.mark.parametrize("tool", ["Docker", "srt", "tsk", "SForge", "Forge", "sandbox0"])
def test_every_tool_has_its_table(tool):
    assert "| there | here |" in section(PAGE, tool)
