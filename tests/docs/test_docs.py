"""Documentation that is checked: what exists is described, and what is described exists."""

import re
from pathlib import Path

import click
import pytest

from belljar.cli.main import cli
from belljar.policy.language.parse import DOCUMENT_KEYS, EGRESS_KEYS, RULE_KEYS
from belljar.policy.presets import PRESETS
from belljar.policy.reasons import SENTENCES, Reason
from belljar.wire.outcome import Fault
from scripts import modules

ROOT = Path(__file__).parents[2]
MOST_MODULES = 16
"""In a folder. About fifteen can be taken in at a glance."""

DOCS = {path.name: path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}


def section(document: str, title: str) -> str:
    """Return the text under a heading, up to the next one of the same depth."""
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", DOCS[document], re.MULTILINE | re.DOTALL)
    assert match, f"{document} has no section {title!r}"
    return match[2]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def commands(group: click.Group, path: tuple[str, ...] = ("belljar",)) -> dict[str, click.Command]:
    context = click.Context(group)
    found = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found[" ".join([*path, name])] = command
        if isinstance(command, click.Group):
            found |= commands(command, (*path, name))
    return found


COMMANDS = commands(cli)


def test_every_policy_key_is_documented_and_nothing_else():
    keys = [*DOCUMENT_KEYS, *(f"egress.{key}" for key in EGRESS_KEYS), *(f"rules[].{key}" for key in RULE_KEYS)]
    assert sorted(first_column(section("policy.md", "Keys"))) == sorted(keys)


def test_every_reason_is_documented_with_its_action_and_nothing_else():
    text = section("policy.md", "Decisions")
    assert first_column(text) == [reason.value for reason in Reason]
    for reason in Reason:
        action = "allow" if reason.startswith("allowed") else "deny"
        assert f"| `{reason}` | {action} |" in text


def test_every_reason_has_a_sentence():
    assert set(SENTENCES) == set(Reason)


def test_every_preset_is_documented_and_nothing_else():
    assert first_column(section("policy.md", "Presets")) == list(PRESETS)


def test_every_fault_is_documented_and_nothing_else():
    assert first_column(section("wire.md", "Faults")) == [fault.value for fault in Fault]


def test_every_module_of_the_wire_is_described():
    modules = {path.stem for path in ROOT.glob("src/belljar/wire/[a-z]*.py")}
    assert modules <= set(re.findall(r"`([a-z0-9]+)[`.]", DOCS["wire.md"]))


def test_every_command_is_documented_and_nothing_else():
    headings = re.findall(r"^## (belljar .+)$", DOCS["cli.md"], re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_is_documented_and_nothing_else(name):
    flags = {
        flag
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option)
        for flag in parameter.opts
        if flag.startswith("--")
    }
    documented = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", section("cli.md", name)))
    assert documented == flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    assert COMMANDS[name].help


@pytest.mark.parametrize("document", DOCS)
def test_links_lead_somewhere(document):
    folder = ROOT if (ROOT / document).exists() else ROOT / "docs"
    for target in re.findall(r"\]\(([^)#:]+)\)", DOCS[document]):
        assert (folder / target).exists(), f"{document} links to {target}"


def test_the_architecture_page_has_every_module():
    assert modules.PAGE.read_text() == modules.page(), "run scripts/modules.py"


def test_a_folder_has_few_modules_and_each_has_an_idea():
    folders = [path.parent for path in modules.SOURCE.rglob("__init__.py")]
    found = {folder: [path for path in folder.glob("*.py") if path.name != "__init__.py"] for folder in folders}
    assert {folder.name: len(those) for folder, those in found.items() if len(those) > MOST_MODULES} == {}
    assert [path for those in found.values() for path in those if not path.read_text().startswith(('"""', "# "))] == []


def test_what_to_touch_is_there():
    paths = re.findall(r"`((?:src|tests|docs|scripts|bench)/[^`]+)`", DOCS["extending.md"])
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_shows_the_two_commands(command):
    assert command in DOCS["README.md"]
