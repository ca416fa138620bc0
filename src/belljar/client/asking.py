"""A request, and how its answer is read; how it gets there is the connections' business."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from belljar.client.errors import NotFoundError, understanding

T = TypeVar("T")

API: Final = "/api/v1"
SANDBOXES: Final = f"{API}/sandboxes"
EVENT_STREAM: Final = "text/event-stream"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    headers: Mapping[str, str]
    content: bytes

    def data(self) -> Any:
        """What the JSON says."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent."""

    method: str
    path: str
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    data: Any = None
    """JSON."""

    content: bytes | None = None
    is_long: bool = False
    """Whether the answer takes as long as somebody's command."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    request: Request
    reads: Callable[[Answer], T]

    def read(self, answer: Answer) -> T:
        """Read the answer. Raises BugError."""
        with understanding(f"the server's answer to {self.request.method} {self.request.path}"):
            return self.reads(answer)


def path_of(sandbox: str, rest: str = "") -> str:
    """Return the path of a sandbox, and of something of it. Raises NotFoundError."""
    return f"{SANDBOXES}/{segment(sandbox)}{rest}"


def segment(name: str) -> str:
    """Return a name as part of a path, out of which it must not lead. Raises NotFoundError."""
    if not _NAME.fullmatch(name):
        raise NotFoundError(f"nothing is called {name!a}; look at what there is")
    return name


def nothing(_: Answer) -> None:
    """Read an answer that says no more than that it is done."""
