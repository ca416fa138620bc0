"""What agents are told of a sandbox's brokers that go by settings of their own, and not by the usual variables.

Both of these go below a user's own settings: codex reads the machine's file first, and who names opencode's variable
has it as named.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from belljar.policy.services import Service
from belljar.policy.variables import base_for, by_provider, variables_for

CODEX_FILE: Final = Path("/etc/codex/config.toml")
_OPENCODE_VARIABLE: Final = "OPENCODE_CONFIG_CONTENT"
_OPENCODE: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"anthropic": ("anthropic", "/v1"), "openai": ("openai", ""), "openrouter": ("openrouter", ""),
     "gemini": ("google", "/v1beta")}
)  # fmt: skip
"""What opencode calls a provider, and what it has to be told behind the provider's base."""

_CODEX: Final = """\
# By Belljar: this leads to the broker named {name}, which adds the key outside of the sandbox.
model_provider = "belljar"
{tools}
[model_providers.belljar]
name = "OpenAI, by Belljar's broker"
base_url = {base}
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
_NO_SERVER_TOOLS: Final = 'web_search = "disabled"  # the provider would search, and may not be asked to\n'


def agent_variables(services: Iterable[Service]) -> dict[str, str]:
    """Return all variables that lead programs to brokers."""
    services = tuple(services)
    providers = {
        name: {"options": {"baseURL": base_for(provider, service) + more}}
        for provider, service in by_provider(services).items()
        for name, more in (_OPENCODE[provider],)
    }
    told = {_OPENCODE_VARIABLE: json.dumps({"provider": providers})} if providers else {}
    return variables_for(services) | told


def agent_files(services: Iterable[Service]) -> dict[Path, bytes]:
    """Return the files that lead programs to brokers which no variable does."""
    service = by_provider(services).get("openai")
    if service is None:
        return {}
    base, tools = json.dumps(base_for("openai", service)), "" if service.server_tools else _NO_SERVER_TOOLS
    return {CODEX_FILE: _CODEX.format(name=service.name, tools=tools, base=base).encode()}
