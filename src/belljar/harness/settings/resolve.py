"""Settings of a trial from flags, the environment and the task: the first of them that sets a value wins."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from belljar.errors import BelljarError
from belljar.harness.settings import values
from belljar.harness.settings.model import (
    DEFAULT_SOURCE,
    ResolvedSettings,
    SettingSource,
    SourceKind,
    TrialSettings,
)
from belljar.harness.settings.variables import VariableError, check_sforge_variables, find_variable
from belljar.harness.tasks.model import EvalTask


class SettingsError(BelljarError):
    """Settings that cannot be used; the text lists every problem."""


class _Setting(NamedTuple):
    """How a setting is read."""

    read: values.Reader
    suffix: str | None = None
    """The variable that sets it, without a prefix."""

    has_flag: bool = True


_SETTINGS: Final[Mapping[str, _Setting]] = {
    "agent": _Setting(values.read_line),
    "agent_command": _Setting(values.read_command),
    "backend": _Setting(values.read_backend, "BACKEND"),
    "judge_url": _Setting(values.read_url),
    "work_cpu_limit": _Setting(values.read_cpus, "WORK_CPU_LIMIT"),
    "work_mem_limit": _Setting(values.read_memory, "WORK_MEM_LIMIT"),
    "judge_cpu_limit": _Setting(values.read_cpus),
    "judge_mem_limit": _Setting(values.read_memory),
    "timeout": _Setting(values.read_seconds, "AGENT_TIMEOUT"),
    "eval_interval": _Setting(values.read_interval),
    "max_submissions": _Setting(values.read_count),
    "submission_cooldown": _Setting(values.read_interval),
    "model": _Setting(values.read_line, "AGENT_MODEL"),
    "setup_timeout": _Setting(values.read_seconds),
    # Other users of a machine see the flags of its processes.
    "agent_api_key": _Setting(values.read_key, "AGENT_API_KEY", has_flag=False),
    "agent_api_base_url": _Setting(values.read_url, "AGENT_API_BASE_URL", has_flag=False),
    "agent_extra_env": _Setting(values.read_variables, "AGENT_EXTRA_ENV", has_flag=False),
}
_INTERNET_FLAGS: Final = ("disable_internet", "enable_internet")

FLAGS: Final = (*(name for name, setting in _SETTINGS.items() if setting.has_flag), *_INTERNET_FLAGS)
"""The flags there are, as parameters are spelled."""


def resolve(flags: Mapping[str, object], environ: Mapping[str, str], task: EvalTask) -> ResolvedSettings:
    """Return the settings of a trial. `flags` are by the names in FLAGS; None is a flag that is not given.

    Raises SettingsError with every problem.
    """
    if unknown := set(flags) - set(FLAGS):
        raise TypeError(f"no such flags: {', '.join(sorted(unknown))}")
    return _Resolver(flags, environ, task).resolve()


class _Resolver:
    """Collects values, sources, notices and problems."""

    def __init__(self, flags: Mapping[str, object], environ: Mapping[str, str], task: EvalTask) -> None:
        self._flags = flags
        self._environ = environ
        self._task = task
        self._values: dict[str, Any] = {}
        self._sources = dict.fromkeys(TrialSettings.__dataclass_fields__, DEFAULT_SOURCE)
        self._notices: list[str] = []
        self._problems: list[str] = []

    def resolve(self) -> ResolvedSettings:
        try:
            self._notices += check_sforge_variables(self._environ)
        except VariableError as error:
            self._problems.append(str(error))
        for name, setting in _SETTINGS.items():
            self._set(name, setting)
        self._set_internet()
        for name, value in self._of_task().items():
            if value is not None and name not in self._values:
                self._take(name, value, SettingSource(SourceKind.TASK, str(self._task.path)))
        if self._values.get("agent") is not None and self._values.get("agent_command") is not None:
            self._problems.append("--agent and --agent-command exclude each other; give one of them")
        if self._problems:
            raise SettingsError("\n".join(self._problems))
        return ResolvedSettings(
            settings=TrialSettings(**self._values), sources=self._sources, notices=tuple(self._notices)
        )

    def _set(self, name: str, setting: _Setting) -> None:
        flag = self._flags.get(name)
        if flag is not None:
            self._read(name, setting, flag, SettingSource(SourceKind.FLAG, _flag(name)))
        elif setting.suffix and (found := find_variable(setting.suffix, self._environ)):
            self._read(name, setting, found.value, SettingSource(SourceKind.VARIABLE, found.name))
            if found.notice:
                self._notices.append(found.notice)

    def _read(self, name: str, setting: _Setting, value: object, source: SettingSource) -> None:
        try:
            self._take(name, setting.read(value), source)
        except values.SettingValueError as error:
            self._problems.append(f"{source}: {error}")

    def _set_internet(self) -> None:
        given = [name for name in _INTERNET_FLAGS if self._flags.get(name)]
        if len(given) > 1:
            self._problems.append("--disable-internet and --enable-internet exclude each other; give one of them")
        elif given:
            source = SettingSource(SourceKind.FLAG, _flag(given[0]))
            self._take("internet", given[0] == "enable_internet", source)

    def _of_task(self) -> dict[str, Any]:
        task = self._task
        return {
            "internet": task.internet,
            "work_cpu_limit": task.work.cpus,
            "work_mem_limit": task.work.memory_bytes,
            "judge_cpu_limit": task.judge.cpus,
            "judge_mem_limit": task.judge.memory_bytes,
        }

    def _take(self, name: str, value: object, source: SettingSource) -> None:
        self._values[name] = value
        self._sources[name] = source


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
