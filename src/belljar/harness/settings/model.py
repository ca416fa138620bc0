"""The settings of a trial, and the source of each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from belljar.amounts import written_memory

MASKED: Final = "********"
"""What is shown of a secret: nothing, its length included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """How one agent works on one task."""

    agent: str | None = None
    """The name of an agent that is built in, or the path of its YAML file."""

    agent_command: str | None = None
    """A shell command in place of an agent."""

    backend: str = "local"
    internet: bool = False
    judge_url: str | None = None
    """The server that grades; None for a judge of the trial's own."""

    work_cpu_limit: float | None = None
    work_mem_limit: int | None = None
    judge_cpu_limit: float | None = None
    judge_mem_limit: int | None = None
    timeout: float = 3600
    """Seconds that the agent has."""

    eval_interval: float = 300
    """Seconds between automatic evaluations; 0 for none."""

    max_submissions: int | None = None
    submission_cooldown: float = 0
    """Seconds from one submission of the agent to the next."""

    model: str | None = None
    setup_timeout: float = 600
    """Seconds that the commands that prepare a sandbox have."""

    agent_api_key: str | None = field(default=None, repr=False)
    agent_api_base_url: str | None = None
    agent_extra_env: Mapping[str, str] = field(default_factory=dict, repr=False)


class SourceKind(StrEnum):
    """What has set a value, the strongest first."""

    FLAG = "flag"
    VARIABLE = "variable"
    AGENT = "agent"
    TASK = "task"
    DEFAULT = "default"


class SettingSource(NamedTuple):
    """Where a value comes from."""

    kind: SourceKind
    name: str
    """The flag, the variable, the file of the task or the agent; "default"."""

    def __str__(self) -> str:
        return self.name


DEFAULT_SOURCE: Final = SettingSource(SourceKind.DEFAULT, "default")


class ShownSetting(NamedTuple):
    """A setting for people to read, without secrets."""

    name: str
    value: str
    source: SettingSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """Settings, their sources, and what a user should know about how they came about."""

    settings: TrialSettings
    sources: Mapping[str, SettingSource]
    notices: tuple[str, ...] = ()

    def shown(self) -> Iterator[ShownSetting]:
        """Yield every setting, secrets masked."""
        for each in fields(TrialSettings):
            value = getattr(self.settings, each.name)
            yield ShownSetting(each.name, _shown(each.name, value), self.sources[each.name])

    def to_data(self) -> dict[str, dict[str, Any]]:
        """Return what is kept with results: value and source by name, secrets masked."""
        data = {}
        for each in fields(TrialSettings):
            value = getattr(self.settings, each.name)
            data[each.name] = {"value": _masked(each.name, value), "source": str(self.sources[each.name])}
        return data

    def with_agent_timeout(self, agent: str, seconds: float | None) -> "ResolvedSettings":
        """Return these settings with the time that an agent asks for, unless a flag or a variable sets it."""
        if seconds is None or self.sources["timeout"].kind is not SourceKind.DEFAULT:
            return self
        source = SettingSource(SourceKind.AGENT, f"agent {agent}")
        return replace(
            self, settings=replace(self.settings, timeout=seconds), sources={**self.sources, "timeout": source}
        )


def _masked(name: str, value: Any) -> Any:
    if name == "agent_api_key":
        return None if value is None else MASKED
    if name == "agent_extra_env":
        return dict.fromkeys(value, MASKED)
    return value


def _shown(name: str, value: Any) -> str:
    value = _masked(name, value)
    if value is None or value == {}:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items())
    if name.endswith("_mem_limit"):
        return written_memory(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)
