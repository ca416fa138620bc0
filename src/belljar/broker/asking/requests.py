"""What a request asks for, held against what its service lets through. Nothing has left the broker by then."""

import asyncio
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from belljar.broker.asking import strictjson
from belljar.broker.asking.paths import AmbiguousPathError, allowed, decoded, matching_rule
from belljar.broker.asking.streamoptions import ask_for_usage
from belljar.broker.asking.turns import Turns
from belljar.broker.dialects import ApiDialect, dialect_of, is_harmless, model_in
from belljar.broker.http import websocket
from belljar.broker.http.exchange import Exchange
from belljar.broker.http.headers import without_secrets
from belljar.broker.http.room import Kept
from belljar.broker.preamble import Preamble
from belljar.broker.refusals import RefusedRequest
from belljar.broker.tools.judging import judge
from belljar.broker.tools.reading import answers_alone
from belljar.policy.services import PROVIDERS, Service, default_paths

_LARGE: Final = 128 << 10
_MANY: Final = 4096
"""Bytes, or values, of a body that takes long enough to be read that others would notice."""

_MOST_NAME: Final = 256
_turns: Final = Turns()
"""One at a time, since the data takes several times the room."""


class Asked(NamedTuple):
    """A request that may be sent."""

    target: str
    """The path, and the query without secrets."""

    dialect: ApiDialect
    is_judged: bool = False
    """Whether its body was read, and is kept."""

    model: str | None = None
    is_websocket: bool = False
    hides_usage: bool = False
    """Whether the answer tells of tokens because the broker has asked for it."""


def path_of(exchange: Exchange) -> str:
    """Return the path of a request as it was written."""
    return exchange.target.partition("?")[0]


async def read(exchange: Exchange, preamble: Preamble, kept: Kept) -> Asked:
    """Return what a request asks for; if its body has to be read for that, it is kept. Raises RefusedRequest."""
    service = preamble.service
    path, rule = _check_path(exchange, service)
    if exchange.method in {"GET", "HEAD"} and exchange.has_body:
        raise RefusedRequest(400, "http", f"a {exchange.method} has no body")
    query = without_secrets(exchange.target.partition("?")[2])
    asked = Asked(path_of(exchange) + (f"?{query}" if query else ""), dialect_of(path), model=model_in(path))
    refuses = preamble.refuse_tools and not service.server_tools
    is_websocket = exchange.method == "GET" and websocket.wanted(exchange.headers)
    if is_websocket:
        if counts_tokens(service):
            raise RefusedRequest(
                403, "websocket", "there is a budget, and what goes through a WebSocket cannot be counted"
            )
        asked = asked._replace(is_websocket=True)
    if refuses and (is_websocket or (exchange.has_body and asked.dialect is ApiDialect.OTHER)):
        _check_named(service, rule, path)
    if exchange.has_body and asked.dialect is not ApiDialect.OTHER and (refuses or counts_tokens(service)):
        return await _judged(exchange, asked, kept, preamble, refuses=refuses)
    return asked


def _check_path(exchange: Exchange, service: Service) -> tuple[str, str]:
    try:
        path = decoded(path_of(exchange))
    except AmbiguousPathError as error:
        raise RefusedRequest(403, "path", f"the path is refused, since {error}; retrying is no use") from None
    if "#" in exchange.target:
        raise RefusedRequest(403, "path", "the query is refused, since it has a fragment; retrying is no use")
    rule = matching_rule(service, exchange.method, path)
    if rule is None:
        raise RefusedRequest(
            403,
            "path",
            f"{service.name} lets through {allowed(service.paths)}, and nothing else; retrying is no use",
        )
    return path, rule


def _check_named(service: Service, rule: str, path: str) -> None:
    """Refuse what cannot be judged, unless the user's own rules name it; for a known provider, without a star."""
    hosts = {urlsplit(provider.url).hostname for provider in PROVIDERS.values()}
    is_known = service.name in PROVIDERS or urlsplit(service.target).hostname in hosts
    is_own_rule = rule not in default_paths(service.name)
    if is_harmless(path) or (is_own_rule and not (is_known and "*" in rule)):
        return
    raise RefusedRequest(
        403,
        "server_tools",
        f"what {path} may ask of the provider is not known here, and in this sandbox it may not be asked to reach "
        "for the network; retrying is no use (a user lets it through by a rule that names it, or with "
        "`server_tools: allow`)",
    )


async def _judged(exchange: Exchange, asked: Asked, kept: Kept, preamble: Preamble, *, refuses: bool) -> Asked:
    codings = {value for name, value in exchange.headers if name == b"content-encoding"} - {b"identity"}
    if codings:
        shown = b", ".join(codings).decode("latin-1")[:40]
        raise RefusedRequest(
            415, "encoding", f"the body is encoded ({shown!r}), and has to be read here; send it as it is"
        )
    await exchange.whole_body(kept)
    body = kept.whole()
    if len(body) < _LARGE and strictjson.most_values(body) < _MANY:
        request = _read_body(body, asked.dialect, refuses=refuses)
    else:
        async with _turns.take(preamble.sandbox):
            request = await asyncio.to_thread(_read_body, body, asked.dialect, refuses=refuses)
    asked = asked._replace(is_judged=True, model=asked.model or request.get("model"))
    if refuses:
        answers_alone(asked.model)
    service = preamble.service
    if request.get("models") is not None and _counts(service, "dollars"):
        raise RefusedRequest(403, "price", "there is a budget in dollars, and models may have other prices; name one")
    if counts_tokens(service) and asked.dialect is ApiDialect.CHAT:
        changed = ask_for_usage(body, request)
        if changed is not None:
            kept.replace(changed)
            return asked._replace(hides_usage=True)
    return asked


def _read_body(body: bytes, dialect: ApiDialect, *, refuses: bool) -> dict[str, Any]:
    """Return what a body says, if it may. Raises RefusedRequest."""
    try:
        data = strictjson.read(body)
    except strictjson.NotJsonError as error:
        raise RefusedRequest(400, "json", f"the body cannot be judged: {error}") from None
    if not isinstance(data, dict):
        raise RefusedRequest(400, "json", "the body is to be a JSON object")
    for model in (data.get("model"), *_listed(data.get("models"))):
        if model is not None and not (isinstance(model, str) and len(model) <= _MOST_NAME):
            raise RefusedRequest(400, "form", f"model is to be a name of at most {_MOST_NAME} characters")
    if refuses:
        judge(dialect, data)
    return data


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def counts_tokens(service: Service) -> bool:
    """Tell whether a service has a bound that takes reading what passes."""
    return _counts(service, "input_tokens", "output_tokens", "dollars")


def _counts(service: Service, *names: str) -> bool:
    budgets = [service.budget, *([service.shared.budget] if service.shared else ())]
    return any(getattr(budget, name) is not None for budget in budgets for name in names)
