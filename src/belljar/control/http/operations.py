"""What can be asked of the server, as data: routes and the published description are both made of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from belljar.control.http.requests import Call

JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"
PREFIX: Final = "/api/v1"

Handler = Callable[["Call"], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class DescribedBody:
    """What a request carries."""

    schema: Mapping[str, Any]
    type: str = JSON
    required: bool = True
    most: int = 0
    """Bytes of one that is not JSON."""

    is_policy: bool = False
    """A policy is read by the policy language, which has more to say about it."""


@dataclass(frozen=True, slots=True)
class DescribedAnswer:
    """What comes back if all is well; `schema` is None where nothing does."""

    description: str
    schema: Mapping[str, Any] | None = None
    type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: str | None = None
    """What a client that accepts a stream of events gets instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handle: Handler
    name: str
    summary: str
    answers: Mapping[int, DescribedAnswer]
    problems: tuple[str, ...] = ()
    """Codes, beside those that every operation has."""

    body: DescribedBody | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required_query: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers that mean something, and what."""
