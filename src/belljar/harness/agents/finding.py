"""The agent of a trial: one that is built in, one in a YAML file, or a command."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from belljar.harness.agents.builtin import BUILTIN
from belljar.harness.agents.custom import load_agent
from belljar.harness.agents.interface import MODEL_VARIABLE, AgentDefinition, AgentError
from belljar.harness.mappings import quote
from belljar.harness.settings.model import TrialSettings
from belljar.harness.tasks.model import EvalTask
from belljar.policy.language.entries import did_you_mean

COMMAND_AGENT: Final = "command"
"""The name of an agent that `--agent-command` gives."""

_ENDINGS: Final = (".yaml", ".yml")


def find_agent(settings: TrialSettings, task: EvalTask) -> AgentDefinition:
    """Return the agent that settings name, with their variables. Raises BelljarError."""
    agent = _named(settings, task)
    model: Mapping[str, str] = {MODEL_VARIABLE: settings.model} if settings.model else {}
    return replace(agent, environment={**agent.environment, **model, **settings.agent_extra_env})


def _named(settings: TrialSettings, task: EvalTask) -> AgentDefinition:
    if settings.agent_command is not None:
        return AgentDefinition(name=COMMAND_AGENT, command=settings.agent_command)
    name = settings.agent
    if name is None:
        raise AgentError(
            "no agent is named; give --agent NAME, --agent FILE.yaml or --agent-command COMMAND "
            "(`belljar eval agents` lists names)"
        )
    if "/" in name or name.endswith(_ENDINGS):
        return load_agent(Path(name))
    if name not in BUILTIN:
        hint = did_you_mean(name, BUILTIN)
        raise AgentError(
            f"there is no agent {quote(name)}{hint}; `belljar eval agents` lists them, and --agent FILE.yaml or "
            "--agent-command runs any program"
        )
    return BUILTIN[name].make(task)
