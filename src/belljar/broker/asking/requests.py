"""What a request asks for, held against what its service lets through. Nothing has left the broker by then."""

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from belljar.broker.asking import strictjson
from belljar.broker.asking.bodies import BodyFacts, BodyQuestion, read_facts
from belljar.broker.asking.judgeprocess import JudgeProcesses
from belljar.broker.asking.paths import AmbiguousPathError, allowed, decoded, is_exact, is_of_model_api, matching_rule
from belljar.broker.asking.streamoptions import ASK_FOR_USAGE
from belljar.broker.dialects import ApiDialect, dialect_of, generates, is_harmless, lists_models, model_in
from belljar.broker.http import websocket
from belljar.broker.http.exchange import Exchange
from belljar.broker.http.headers import without_secrets
from belljar.broker.http.room import Kept
from belljar.broker.preamble import Preamble
from belljar.broker.refusals import RefusedRequest
from belljar.broker.spending.priceoptions import options_of_headers
from belljar.broker.spending.spending import Demand
from belljar.broker.tools.reading import answers_alone
from belljar.policy.services import PROVIDERS, Service, default_paths

_LARGE: Final = 64 << 10
_MANY: Final = 1024
"""Bytes, or values, of a body that takes so long to be read that others would notice."""


class Asked(NamedTuple):
    """A request that may be sent."""

    target: str
    """The path, and the query without secrets."""

    dialect: ApiDialect
    is_judged: bool = False
    """Whether its body was read, and is kept."""

    demand: Demand = Demand()
    references: tuple[str, ...] = ()
    """Identifiers of earlier answers that it goes on from."""

    is_websocket: bool = False
    hides_usage: bool = False
    """Whether the answer tells of tokens because the broker has asked for it."""

    @property
    def model(self) -> str | None:
        """The model that it names."""
        return self.demand.models[0] if self.demand.models else None


def path_of(exchange: Exchange) -> str:
    """Return the path of a request as it was written."""
    return exchange.target.partition("?")[0]


async def read(exchange: Exchange, preamble: Preamble, kept: Kept, judging: JudgeProcesses) -> Asked:
    """Return what a request asks for; if its body has to be read for that, it is kept. Raises RefusedRequest."""
    service = preamble.service
    path, rule = _check_path(exchange, service)
    if exchange.method in {"GET", "HEAD"} and exchange.has_body:
        raise RefusedRequest(400, "http", f"a {exchange.method} has no body")
    refuses = preamble.refuse_tools and not service.server_tools
    if refuses:
        answers_alone(model_in(path))
    query = without_secrets(exchange.target.partition("?")[2])
    asked = Asked(path_of(exchange) + (f"?{query}" if query else ""), dialect_of(path))
    is_websocket = exchange.method == "GET" and websocket.wanted(exchange.headers)
    if is_websocket:
        if counts_tokens(service):
            raise RefusedRequest(
                403, "websocket", "there is a budget, and what goes through a WebSocket cannot be counted"
            )
        asked = asked._replace(is_websocket=True)
    has_bounds = refuses or counts_tokens(service)
    if has_bounds and (is_websocket or not _is_known(exchange, asked.dialect, path)):
        _check_named(service, rule, path)
    if counts_tokens(service) and exchange.has_body and asked.dialect is ApiDialect.OTHER and exchange.length is None:
        raise RefusedRequest(
            411,
            "http",
            "the size of the body has to be reserved in the budget; send it with Content-Length",
        )
    if has_bounds and exchange.has_body and asked.dialect is not ApiDialect.OTHER:
        question = BodyQuestion(asked.dialect, refuses, counts_tokens(service))
        facts = await _judged(exchange, question, kept, preamble, judging)
        asked = asked._replace(is_judged=True, hides_usage=facts.hides_usage, references=facts.references)
    else:
        facts = BodyFacts()
    return asked._replace(demand=_demand(exchange, path, facts, kept))


def _demand(exchange: Exchange, path: str, facts: BodyFacts, kept: Kept) -> Demand:
    return Demand(
        models=tuple(model for model in (model_in(path), facts.model) if model is not None),
        options=(*facts.price_options, *options_of_headers(exchange.headers)),
        body=len(kept) or exchange.length or 0,
        max_output=facts.max_output,
        choices=facts.choices,
        generates=exchange.has_body and generates(path),
    )


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


def _is_known(exchange: Exchange, dialect: ApiDialect, path: str) -> bool:
    """Return whether a request is read, or asks for nothing but a list of models."""
    if dialect is not ApiDialect.OTHER:
        return exchange.has_body or exchange.method == "POST"  # providers refuse the latter
    return exchange.method in {"GET", "HEAD"} and lists_models(path)


def _check_named(service: Service, rule: str, path: str) -> None:
    """Refuse what cannot be judged or counted, unless a rule of the user's own names it.

    A rule with a star names it where neither the provider nor the path is known to be that of a model's API.
    """
    hosts = {urlsplit(provider.url).hostname for provider in PROVIDERS.values()}
    is_known = service.name in PROVIDERS or urlsplit(service.target).hostname in hosts
    is_own_rule = rule not in default_paths(service.name)
    if is_harmless(path) or (is_own_rule and (is_exact(rule) or not (is_known or is_of_model_api(path)))):
        return
    raise RefusedRequest(
        403,
        "server_tools",
        f"what {path} may ask of the provider is not known here, so it can be neither judged nor counted; retrying is "
        "no use (a user lets it through by a rule that names it without a star, or with `server_tools: allow` and no "
        "budget of tokens or dollars)",
    )


async def _judged(
    exchange: Exchange, question: BodyQuestion, kept: Kept, preamble: Preamble, judging: JudgeProcesses
) -> BodyFacts:
    codings = {value for name, value in exchange.headers if name == b"content-encoding"} - {b"identity"}
    if codings:
        shown = b", ".join(codings).decode("latin-1")[:40]
        raise RefusedRequest(
            415, "encoding", f"the body is encoded ({shown!r}), and has to be read here; send it as it is"
        )
    await exchange.whole_body(kept)
    if len(kept) < _LARGE and strictjson.most_values(kept.whole()) < _MANY:
        facts = read_facts(kept.whole(), question)
    else:
        facts = await judging.read_facts(preamble.sandbox, question, kept)
    if facts.has_other_models and counts_dollars(preamble.service):
        raise RefusedRequest(403, "price", "there is a budget in dollars, and models may have other prices; name one")
    if facts.hides_usage:
        await kept.end_with(ASK_FOR_USAGE)
    return facts


def counts_tokens(service: Service) -> bool:
    """Tell whether a service has a bound that takes reading what passes."""
    return _counts(service, "input_tokens", "output_tokens", "dollars")


def counts_dollars(service: Service) -> bool:
    """Return whether a service has a bound that takes prices."""
    return _counts(service, "dollars")


def _counts(service: Service, *names: str) -> bool:
    budgets = [service.budget, *([service.shared.budget] if service.shared else ())]
    return any(getattr(budget, name) is not None for budget in budgets for name in names)
