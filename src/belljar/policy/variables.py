"""What programs in a sandbox are told of its brokers, in the variables that they read: where one is, and no key.

Programs want a key before they begin, and some look at how it is spelled. The placeholder is none, and is dropped on
the way.
"""

from collections.abc import Iterable
from typing import Final

from belljar.policy.services import PROVIDERS, Service, path_of

PLACEHOLDER: Final = "belljar-keeps-the-key-outside"
_PREFIXES: Final = {"anthropic": "sk-ant-", "openai": "sk-", "openrouter": "sk-or-"}
_MOST_COMMON: Final = ("anthropic", "openai")
"""Whose variables are set for a service at another place, which may speak either's language."""


def base_url(service: Service) -> str:
    """Return where a broker is, as a program inside is to be told."""
    port = "" if service.at == 80 else f":{service.at}"
    return f"http://{service.host}{port}{path_of(service.target)}"


def variables_for(services: Iterable[Service]) -> dict[str, str]:
    """Return the variables that lead programs to brokers. What is a provider's own goes before what may be like it."""
    brokers = [service for service in services if service.is_broker]
    found: dict[str, str] = {}
    for service in brokers:
        if service.name in PROVIDERS:
            found |= _of_provider(service.name, service)
        else:
            prefix = service.name.upper().replace("-", "_")
            found |= {f"{prefix}_BASE_URL": base_url(service), f"{prefix}_API_KEY": PLACEHOLDER}
    for service in brokers:
        if service.name not in PROVIDERS:
            for provider in _MOST_COMMON:
                found = _of_provider(provider, service) | found
    return found


def _of_provider(provider: str, service: Service) -> dict[str, str]:
    known, base = PROVIDERS[provider], base_url(service)
    if provider == "anthropic":
        base = base.removesuffix("/v1")  # which its programs add themselves
    elif provider == "openai" and not path_of(service.target):
        base += "/v1"  # which its programs do not
    key = _PREFIXES.get(provider, "") + PLACEHOLDER
    return dict.fromkeys(known.base_variables, base) | dict.fromkeys(known.key_variables, key)
