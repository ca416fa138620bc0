"""A request as a handler sees it: read within bounds, and held against what its operation takes."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request

from belljar.control.http.operations import JSON, Operation
from belljar.control.http.validation import check
from belljar.control.services import Services
from belljar.policy.language.reading import Reading, UnreadableError
from belljar.policy.language.syntax import Syntax, read_text
from belljar.runtime.problems import FieldProblem, ProblemError, refusing
from belljar.runtime.sandbox import Sandbox

MOST_JSON: Final = 32 << 20


class Call:
    """One request. Its body is `reading` for JSON, `content` for bytes."""

    def __init__(
        self, services: Services, request: Request, query: Mapping[str, Any], reading: Reading, content: bytes
    ) -> None:
        self.services, self.request, self.query = services, request, query
        self.reading, self.content = reading, content

    @property
    def body(self) -> dict[str, Any]:
        """What the JSON says."""
        data: dict[str, Any] = self.reading.data
        return data

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox that the path names. Raises ProblemError."""
        return self.services.context.find(self.request.path_params["id"])

    @property
    def served_sandbox(self) -> Sandbox:
        """The same, if its doors are served. Raises ProblemError."""
        return self.services.context.find_served(self.request.path_params["id"])

    @property
    def living_sandbox(self) -> Sandbox:
        """The same, if it lives, whether its doors are served or not. Raises ProblemError."""
        return self.services.context.find_alive(self.request.path_params["id"])


async def read_call(operation: Operation, services: Services, request: Request) -> Call:
    """Read a request. Raises ProblemError."""
    query = _query(operation, request)
    reading, content = Reading({}), b""
    if operation.body is not None:
        content = await _read(request, MOST_JSON if operation.body.type == JSON else operation.body.most)
        if operation.body.type == JSON:
            reading = _reading(operation, request, content)
    return Call(services, request, query, reading, content)


def _reading(operation: Operation, request: Request, content: bytes) -> Reading:
    body = operation.body
    if body is None or (not content and not body.required):
        return Reading({})
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ProblemError("unsupported_media_type", f"the body is not said to be JSON; send Content-Type: {JSON}")
    try:
        reading = read_text(content.decode(), Syntax.JSON)
    except UnicodeDecodeError:
        raise ProblemError("invalid_request", "the body is not UTF-8; write it as such") from None
    except UnreadableError as error:
        raise ProblemError("invalid_request", f"the body {error}") from None
    if body.is_policy:
        return reading
    found = [FieldProblem(path, "stands twice; keep one of them") for path, _ in reading.twice]
    found += check(body.schema, reading.data)
    if found:
        raise refusing("invalid_request", found)
    return reading


def _query(operation: Operation, request: Request) -> dict[str, Any]:
    found: list[FieldProblem] = []
    values: dict[str, Any] = {}
    for name in dict.fromkeys(request.query_params):
        if name not in operation.query:
            known = ", ".join(operation.query) or "none"
            found.append(FieldProblem(name, f"is not a parameter of this path; known here: {known}"))
            continue
        schema, texts = operation.query[name], request.query_params.getlist(name)
        if schema["type"] == "array":
            values[name] = texts
        elif len(texts) > 1:
            found.append(FieldProblem(name, "stands twice; keep one of them"))
        else:
            values[name] = _converted(schema["type"], texts[0])
        if name in values:
            found += check(schema, values[name], name)
    found += [
        FieldProblem(name, "is missing from the query; add it")
        for name in operation.required_query
        if name not in request.query_params
    ]
    if found:
        raise refusing("invalid_request", found)
    return values


def _converted(kind: str, text: str) -> Any:
    if kind == "integer" and text.isascii() and text.isdecimal():
        with suppress(ValueError):  # thousands of digits
            return int(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


async def _read(request: Request, most: int) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise ProblemError("too_large", f"the body has more than {most} bytes; send less")
    return bytes(content)
