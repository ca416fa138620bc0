"""What the agent may reach, and the variables that tell it so.

Without the internet that is the judge, and the model's API through the broker, which adds the key outside. Both are
named services: no name is resolved outside for them, and no other destination exists.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from belljar.harness.agents.interface import PROMPT_FILE, PROMPT_VARIABLE
from belljar.harness.kit import KIT_PLACE, PROGRAMS, Kit
from belljar.harness.settings.model import TrialSettings
from belljar.harness.tasks.model import EvalTask
from belljar.policy.services import PROVIDERS
from belljar.sandbox.spec import Bind

JUDGE: Final = "judge"
JUDGE_URL: Final = "http://judge.belljar.internal"
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AGENT_KEY: Final = "EVAL_AGENT_API_KEY"
"""The variable of this process from which the broker reads a key that was given for the evaluation."""


def agent_policy(judge: Mapping[str, Any], model_api: str | None, settings: TrialSettings) -> dict[str, Any]:
    """Return the policy of an agent that is at work. `judge` is the entry of the judge's service."""
    services = {JUDGE: dict(judge)}
    if model_api is not None:
        services[model_api] = model_service(model_api, settings)
    return {"mode": "allow-all" if settings.internet else "block-all", "services": services}


def agent_variables(task: EvalTask, token: str, *, runs_images: bool) -> dict[str, str]:
    """Return the variables of the agent's command, with SForge's names and ours."""
    common = {
        "JUDGE_URL": JUDGE_URL,
        "TOKEN": token,
        "PATCH_DIR": str(task.cwd),
        "SUBMIT_PATHS": " ".join(task.submit_paths),
        "SUBMIT_EXCLUDE_FLAGS": " ".join(f"--exclude={pattern}" for pattern in task.submit_exclude),
    }
    variables = {f"{prefix}_{name}": value for prefix in ("BELLJAR", "SFORGE") for name, value in common.items()}
    if not runs_images:  # in an image, PATH is the image's, and the programs are where it leads
        variables["PATH"] = f"{KIT_PLACE}/bin:{_SYSTEM_PATH}"
    return {**variables, PROMPT_VARIABLE: str(PROMPT_FILE)}


def kit_binds(kit: Kit, *, runs_images: bool) -> tuple[Bind, ...]:
    """Return what the agent sees of the kit: its directory, and in an image its programs where PATH leads."""
    programs = (
        Bind(kit.directory / "bin" / name, Path("/usr/local/bin") / name, writable=False)
        for name in (PROGRAMS if runs_images else ())
    )
    return (Bind(kit.directory, Path(KIT_PLACE), writable=False), *programs)


def model_service(name: str, settings: TrialSettings) -> dict[str, Any]:
    """Return the entry of a policy by which an agent reaches its model's API."""
    entry: dict[str, Any] = {}
    if settings.agent_api_base_url is not None:
        entry["url"] = settings.agent_api_base_url
    if settings.agent_api_key is not None:
        provider = PROVIDERS.get(name)
        header = dict(provider.header) if provider is not None else {"authorization": "Bearer ${KEY}"}
        key = f"${{{provider.key if provider is not None else 'KEY'}}}"
        entry["header"] = {field: value.replace(key, f"${{{AGENT_KEY}}}") for field, value in header.items()}
    return entry
