"""Agents in YAML files: a name, a command, and what it needs."""

from pathlib import Path
from typing import Final

from belljar.harness.agents.builtin import BUILTIN
from belljar.harness.agents.interface import AgentDefinition
from belljar.harness.documents import StrictDocument
from belljar.harness.mappings import (
    MAX_SECONDS,
    MappingKeys,
    StrictMapping,
    kind_of,
    listed,
    quote,
    quote_key,
    text_problem,
    variable_problem,
)
from belljar.policy.language.entries import did_you_mean
from belljar.policy.language.syntax import Syntax
from belljar.policy.services import PROVIDERS

_KEYS: Final = MappingKeys(
    ("name", "command", "environment", "model_api", "timeout"), required=("name", "command"), nullable=("model_api",)
)
_APIS: Final = listed(PROVIDERS)


def load_agent(path: Path) -> AgentDefinition:
    """Read the YAML file of an agent. Raises UnreadableDocumentError and InvalidDocumentError."""
    document = StrictDocument(path, "agent", Syntax.YAML)
    keys = StrictMapping(document, "", document.data, _KEYS)
    command = keys.text("command")
    if isinstance(keys.value("command"), str) and not command.strip():
        keys.fail("command", "is blank; write what the shell runs in the task's directory")
    name = keys.name("name")
    if name in BUILTIN:
        keys.fail(
            "name", f"is {quote(name)}, an agent that is built in, and results would not tell them apart; rename it"
        )
    agent = AgentDefinition(
        name=name,
        command=command,
        environment=_environment(keys),
        model_api=_model_api(keys),
        timeout=keys.number("timeout", most=MAX_SECONDS),
    )
    document.check()
    return agent


def _environment(keys: StrictMapping) -> dict[str, str]:
    variables = keys.value("environment")
    if variables is None:
        return {}
    if not isinstance(variables, dict):
        keys.fail("environment", f"is {kind_of(variables)}; write a mapping of names to values")
        return {}
    for name, value in variables.items():
        place = f"environment.{quote_key(name)}"
        if problem := variable_problem(name) or text_problem(value):
            keys.fail(place, problem)
    return variables


def _model_api(keys: StrictMapping) -> str | None:
    value = keys.value("model_api")
    if value is None or (isinstance(value, str) and value in PROVIDERS):
        return value
    keys.fail("model_api", f"is {quote(value)}, which is not known{did_you_mean(value, PROVIDERS)}; write {_APIS}")
    return None
