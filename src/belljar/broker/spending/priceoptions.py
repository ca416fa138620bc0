"""Options of a request that change what its tokens cost.

They are known by the providers' published prices. A value that costs no more than the usual one is left out; whatever
else a request says under one of these names is an option, also a value that a provider adds later.
"""

import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any, Final

from belljar.broker.dialects import ApiDialect
from belljar.broker.refusals import RefusedRequest
from belljar.broker.tools.judging import judge

_USUAL: Final = MappingProxyType(
    {
        "service_tier": frozenset({"auto", "default", "standard", "standard_only", "flex", "unspecified"}),
        "servicetier": frozenset({"standard", "flex", "unspecified", "service_tier_unspecified"}),
        "speed": frozenset({"standard"}),
        "inference_geo": frozenset({"global", "not_available"}),
    }
)
_ROUTING: Final = ("provider", "route", "fallbacks")
"""Which machine answers, at which price."""

_USUAL_TTL: Final = "5m"
_CLIENTS_OWN: Final = frozenset({"input", "input_schema", "parameters", "arguments", "args"})
"""What is below these in a part of a request was written by the client's tools, and means nothing to the provider."""

_LONG_CONTEXT: Final = re.compile(r"context-\d.*")
_BETA_HEADERS: Final = frozenset({b"anthropic-beta", b"openai-beta"})
_MAX_VALUE: Final = 64


def options_of(dialect: ApiDialect, request: dict[str, Any]) -> tuple[str, ...]:
    """Return the options in a body, each as ``name=value``."""
    is_gemini = dialect is ApiDialect.GEMINI
    found = [
        _option(name, value)
        for name, value in request.items()
        if (usual := _USUAL.get(name.replace("_", "").casefold() if is_gemini else name)) is not None
        and value is not None
        and not (isinstance(value, str) and value.casefold() in usual)
    ]
    found += [_option(name, "set") for name in _ROUTING if request.get(name) is not None]
    found += [_option("modalities", each) for each in _several(request.get("modalities")) if each != "text"]
    found += _options_of_betas("anthropic-beta", _several(request.get("betas")))
    found += [_option("cache_control.ttl", ttl) for ttl in _lifetimes(request) if ttl != _USUAL_TTL]
    try:
        judge(dialect, request)
    except RefusedRequest:  # what the provider does by itself has prices of its own
        found.append("server_tools=set")
    return tuple(dict.fromkeys(found))


def options_of_headers(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    """Return the options in headers: a context beyond the usual length costs more for each token."""
    for name, values in headers:
        if name in _BETA_HEADERS:
            yield from _options_of_betas(name.decode(), values.decode("latin-1").split(","))


def _options_of_betas(name: str, betas: Iterable[Any]) -> Iterator[str]:
    for beta in betas:
        value = str(beta).strip().casefold()
        if _LONG_CONTEXT.fullmatch(value):
            yield _option(name, value)


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _option(name: str, value: object) -> str:
    return f"{name}={str(value)[:_MAX_VALUE]}"


def _lifetimes(request: dict[str, Any]) -> set[str]:
    """Return how long what is written to the cache is to live, wherever a request says so."""
    found = set[str]()
    left: list[Any] = [{"cache_control": request.get("cache_control")}, *request.values()]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            control = each.get("cache_control")
            if isinstance(control, dict) and control.get("ttl") is not None:
                found.add(str(control["ttl"]))
            left += [value for name, value in each.items() if name not in _CLIENTS_OWN]
    return found
