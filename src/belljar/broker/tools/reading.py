"""Small steps for walking through a request: what is not as it should be is refused, with its name in the message."""

import re
from collections.abc import Iterator
from typing import Any, Final

from belljar.broker.refusals import RefusedRequest

_MAX_SHOWN: Final = 80
_SEARCHING_MODELS: Final = re.compile(
    r".*(?:-search(?:-|$|:)|deep-research|[:-]online(?:$|:)|@preset/|openrouter/auto(?:$|:)).*"
    r"|(?:.*[/-])?(?:sonar|compound)(?:[-:].*)?",
    re.DOTALL,
)
"""Models that go out by themselves, or may: what a preset is, only the account knows; a router has others choose."""


def refuse(what: str) -> RefusedRequest:
    """Return the answer to a request that asks the provider for more than an answer."""
    return RefusedRequest(
        403,
        "server_tools",
        f"the request has {what}. In this sandbox the provider may not be asked to search, fetch, run code or call "
        "other servers, and what is not known to do none of that is refused. Retrying is no use: leave it out, "
        "and use tools that run in the sandbox. (A user allows it with `server_tools: allow` for this service.)",
    )


def malformed(where: str, wanted: str) -> RefusedRequest:
    """Return the answer to a request that is not in the API's form."""
    return RefusedRequest(400, "form", f"{where} is to be {wanted}")


def shown(value: object) -> str:
    """Return a name of a sandbox's, as a message has it."""
    text = str(value)
    return repr(text[:_MAX_SHOWN] + ("..." if len(text) > _MAX_SHOWN else ""))


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Return what has to be an object."""
    if not isinstance(value, dict):
        raise malformed(where, "an object")
    return value


def items(value: Any, where: str) -> Iterator[dict[str, Any]]:
    """Return the objects of what has to be an array of them; there may be none."""
    if value is None:
        return
    if not isinstance(value, list):
        raise malformed(where, "an array")
    for each in value:
        yield mapping(each, f"what is in {where}")


def kind_of(value: dict[str, Any], usual: str | None = None) -> str | None:
    """Return the type that an object says it has; null is none."""
    kind = value.get("type")
    if kind is not None and not isinstance(kind, str):
        raise malformed("a type", "a string")
    return usual if kind is None else kind


def answers_alone(model: Any) -> None:
    """Refuse a model that is known to go out by itself."""
    if isinstance(model, str) and _SEARCHING_MODELS.fullmatch(model.strip().lower()):
        raise refuse(f"the model {shown(model)}, which searches by itself")


def carried(data: Any, what: str) -> None:
    """Refuse what is neither content in itself nor a URL that has it: where only some look, there is a colon."""
    if data is not None and not (isinstance(data, str) and ":" not in data):
        embedded(data, what)


def embedded(url: Any, what: str) -> None:
    """Refuse a URL that is to be fetched: what is embedded has all of its content in it."""
    if url is not None and not (isinstance(url, str) and url[:5].lower() == "data:"):
        raise refuse(f"{what} with a URL that the provider would fetch; embed the content instead")
