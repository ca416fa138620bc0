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


def variables_for(services: Iterable[Service]) -> dict[str, str]:
    """Return the variables that lead programs to brokers. What is a provider's own goes before what may be like it."""
    services = tuple(services)
    found: dict[str, str] = {}
    for service in _brokers(services):
        if service.name not in PROVIDERS:
            prefix = service.name.upper().replace("-", "_")
            found |= {f"{prefix}_BASE_URL": _base_url(service), f"{prefix}_API_KEY": PLACEHOLDER}
    for provider, service in by_provider(services).items():
        known, key = PROVIDERS[provider], _PREFIXES.get(provider, "") + PLACEHOLDER
        found |= dict.fromkeys(known.base_variables, base_for(provider, service))
        found |= dict.fromkeys(known.key_variables, key)
    return found


def by_provider(services: Iterable[Service]) -> dict[str, Service]:
    """Return the broker that programs of each provider are led to."""
    brokers = _brokers(services)
    found = {service.name: service for service in brokers if service.name in PROVIDERS}
    if other := next((service for service in brokers if service.name not in PROVIDERS), None):
        for provider in _MOST_COMMON:
            found.setdefault(provider, other)
    return found


def base_for(provider: str, service: Service) -> str:
    """Return where a broker is, as programs of a provider are to be told."""
    base = _base_url(service)
    if provider == "anthropic":
        return base.removesuffix("/v1")  # which its programs add themselves
    if provider == "openai" and not path_of(service.target):
        return f"{base}/v1"  # which its programs do not
    return base


def _base_url(service: Service) -> str:
    port = "" if service.at == 80 else f":{service.at}"
    return f"http://{service.host}{port}{path_of(service.target)}"


def _brokers(services: Iterable[Service]) -> list[Service]:
    return [service for service in services if service.is_broker]
