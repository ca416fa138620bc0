"""Variables of the environment: `BELLJAR_X`, or else SForge's `SFORGE_X`, which counts and is reported.

A variable of SForge's that Belljar does not read is reported with what to use instead. It is an error where a result
would be different without it, and a notice where it has no effect on one.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from belljar.errors import BelljarError, printable

PREFIX: Final = "BELLJAR_"
SFORGE_PREFIX: Final = "SFORGE_"

SUPPORTED: Final = (
    "AGENT_API_KEY",
    "AGENT_API_BASE_URL",
    "AGENT_MODEL",
    "AGENT_TIMEOUT",
    "AGENT_EXTRA_ENV",
    "BACKEND",
    "WORK_CPU_LIMIT",
    "WORK_MEM_LIMIT",
    "TASKS_DIR",
    "LOG_DIR",
    "ADMIN_SECRET",
)
"""What is read, by its name without a prefix."""

_PROXY: Final = (
    "a sandbox needs no proxy, since the gateway outside of it connects; "
    "set HTTPS_PROXY for belljar itself where this machine needs one"
)
_IMAGES: Final = "images are not built yet; give it to the tool that builds them"
_KITS: Final = "agents are not installed while a trial runs"
_K8S: Final = "Kubernetes is not supported yet; use --backend local, docker or podman"
_E2B: Final = "E2B is not supported; use --backend local, docker or podman"
_REGISTRY: Final = "images are not pulled or pushed yet; use the commands of the container engine"
_INSIDE: Final = "it is meant for the inside of a sandbox, where the harness sets it"

_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"), _PROXY),
    **dict.fromkeys(("PYPI_INDEX_URL", "MAVEN_MIRROR_URL", "GO_PROXY", "APT_MIRROR_URL", "EXTRA_HOSTS"), _IMAGES),
    **dict.fromkeys(("GIT_USER", "GIT_TOKEN"), _IMAGES),
    **dict.fromkeys(("NODEJS_MIRROR_URL", "NPM_REGISTRY_URL"), _KITS),
    **dict.fromkeys(("K8S_NAMESPACE", "K8S_IMAGE_REGISTRY", "K8S_KUBECONFIG", "K8S_NODE_SELECTOR"), _K8S),
    **dict.fromkeys(("E2B_TEMPLATE_MAP", "E2B_TEMPLATE_NAMESPACE", "E2B_SANDBOX_TTL", "JUDGE_ACCESS_TOKEN"), _E2B),
    **dict.fromkeys(("PORTABLE_REGISTRY_USERNAME", "PORTABLE_REGISTRY_PASSWORD"), _E2B),
    **dict.fromkeys(("REGISTRY", "REGISTRY_USERNAME", "REGISTRY_PASSWORD"), _REGISTRY),
    **dict.fromkeys(("TOKEN", "PATCH_DIR", "SUBMIT_PATHS", "SUBMIT_EXCLUDE_FLAGS"), _INSIDE),
    "JUDGE_URL": "use --judge-url",
    "CLAUDE_CACHE_OPT": "claude-code is not supported yet",
    "JUDGE_MAX_CONCURRENT": "the judge bounds what it grades at the same time by itself",
    "JUDGE_MAX_PENDING": "the judge bounds what waits by itself",
}
_REFUSED: Final[Mapping[str, str]] = {
    "JUDGE_EXTRA_ENV": (
        "submitted code could read such variables; write what the grader needs into judge.setup_cmds of the task"
    ),
    "AGENT_EFFORT": "no agent has an effort to set here; give it to the agent in its command",
}


class VariableError(BelljarError):
    """A variable of the environment that cannot be used. Unset or change it."""


class FoundVariable(NamedTuple):
    """A variable that is set."""

    name: str
    value: str

    @property
    def notice(self) -> str | None:
        """What a user should know if it is used."""
        if not self.name.startswith(SFORGE_PREFIX):
            return None
        return f"{self.name} is set, and counts as {PREFIX}{self.name.removeprefix(SFORGE_PREFIX)}"


class DirectorySetting(NamedTuple):
    """A directory, and what a user should know about where it comes from."""

    path: Path
    notice: str | None = None


def find_variable(suffix: str, environ: Mapping[str, str]) -> FoundVariable | None:
    """Return ours, or else SForge's; None if neither is set, or both are empty."""
    for name in (PREFIX + suffix, SFORGE_PREFIX + suffix):
        if value := environ.get(name):
            return FoundVariable(name, value)
    return None


def find_directory(flag: str | None, suffix: str, default: Path, environ: Mapping[str, str]) -> DirectorySetting:
    """Return the directory of a flag, or else that of a variable (`TASKS_DIR`, `LOG_DIR`), or else the default."""
    if flag is not None:
        return DirectorySetting(Path(flag))
    if found := find_variable(suffix, environ):
        return DirectorySetting(Path(found.value), found.notice)
    return DirectorySetting(default)


def check_sforge_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a notice of each of SForge's variables that has no effect.

    Raises VariableError with all that cannot be used.
    """
    notices, refused = [], []
    for name in sorted(name for name, value in environ.items() if name.startswith(SFORGE_PREFIX) and value):
        suffix = name.removeprefix(SFORGE_PREFIX)
        if suffix in _WITHOUT_EFFECT:
            notices.append(f"{name} has no effect: {_WITHOUT_EFFECT[suffix]}")
        elif suffix in _REFUSED:
            refused.append(f"{name} is not supported: {_REFUSED[suffix]}, and unset it")
        elif suffix not in SUPPORTED:
            close = get_close_matches(suffix, (*SUPPORTED, *_WITHOUT_EFFECT, *_REFUSED), n=1)
            hint = f" (did you mean {SFORGE_PREFIX}{close[0]}?)" if close else ""
            refused.append(f"{printable(name)} is not a variable of SForge's{hint}; correct its name or unset it")
    if refused:
        raise VariableError("\n".join(refused))
    return notices
