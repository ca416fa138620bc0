"""What an agent is: a command for the work sandbox, and what the harness has to know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from belljar.errors import BelljarError
from belljar.sandbox.spec import Bind

PROMPT_FILE: Final = PurePosixPath("/belljar/prompt.md")
"""Where the prompt is inside, read-only. `$BELLJAR_PROMPT_FILE` names it."""

PROMPT_VARIABLE: Final = "BELLJAR_PROMPT_FILE"
MODEL_VARIABLE: Final = "BELLJAR_MODEL"
"""The variable that has the model of the settings, if they name one."""


class AgentError(BelljarError):
    """An agent that is unknown, not supported yet, or of no use for the task. Name another."""


class AgentCapability(StrEnum):
    """What the harness can ask of an agent beyond running its command."""

    STOP_HOOK = "stop_hook"
    """It asks a hook before it ends, which can keep it at work."""

    NO_WEB_TOOLS = "no_web_tools"
    """It can switch off the tools by which its provider reads the web."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent."""

    name: str
    command: str
    """Shell text that runs in the working directory of the task. It reads the prompt from `$BELLJAR_PROMPT_FILE`."""

    environment: Mapping[str, str] = field(default_factory=dict)
    model_api: str | None = None
    """The name of the broker service by which it reaches its model, such as `anthropic`; None if it needs no model."""

    timeout: float | None = None
    """Seconds that it asks for, where nothing else sets a time."""

    shown: tuple[Bind, ...] = ()
    """Files of the host that it sees, read-only."""

    resume_command: str | None = None
    """Shell text that continues its session; None if it cannot."""

    capabilities: frozenset[AgentCapability] = frozenset()
