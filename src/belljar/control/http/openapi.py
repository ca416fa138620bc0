"""The description of the API (OpenAPI 3.1), made of the operations themselves."""

import re
from collections import defaultdict
from typing import Any, Final

from belljar import __version__
from belljar.control.http.api import OPERATIONS
from belljar.control.http.auth import needs_token
from belljar.control.http.operations import DescribedAnswer, Operation
from belljar.control.http.problems import CONTENT_TYPE, KINDS
from belljar.control.http.responses import EVENT_STREAM
from belljar.control.http.schemas import COMPONENTS, named

_OF_ALL: Final = ("invalid_request", "host_not_allowed", "foreign_origin", "internal_error")
_WITH_BODY: Final = ("too_large", "unsupported_media_type")
_PATH_PARAMETERS: Final = {"id": "The name of a sandbox.", "grant": "The name of a grant."}


def describe() -> dict[str, Any]:
    """Return the description."""
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for operation in OPERATIONS:
        paths[operation.path][operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Belljar",
            "version": __version__,
            "description": "Sandboxes for AI agents that have no network, only the doors you open.",
        },
        "security": [{"token": []}],
        "paths": dict(paths),
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        content = {operation.body.type: {"schema": operation.body.schema}}
        described["requestBody"] = {"required": operation.body.required, "content": content}
    if not needs_token(operation.path):
        described["security"] = []
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_PARAMETERS[name],
            "schema": {"type": "string"},
        }
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    found += [
        {"name": name, "in": "query", "required": name in operation.required_query, "schema": schema}
        for name, schema in operation.query.items()
    ]
    found += [
        {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in operation.headers.items()
    ]
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    described = {str(status): _answer(answer) for status, answer in operation.answers.items()}
    codes: defaultdict[int, list[str]] = defaultdict(list)
    for code in (*_OF_ALL, *operation.problems):
        codes[KINDS[code].status].append(code)
    if needs_token(operation.path):
        codes[401].append("unauthorized")
    if operation.body is not None:
        for code in _WITH_BODY:
            codes[KINDS[code].status].append(code)
    for status, names in sorted(codes.items()):
        described.setdefault(
            str(status),
            {
                "description": f"Codes: {', '.join(dict.fromkeys(names))}.",
                "content": {CONTENT_TYPE: {"schema": named("Problem")}},
            },
        )
    return described


def _answer(answer: DescribedAnswer) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.schema is not None:
        described["content"] = {answer.type: {"schema": answer.schema}}
    if answer.stream is not None:
        described["content"][EVENT_STREAM] = {"schema": {"type": "string", "description": answer.stream}}
    if answer.headers:
        described["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in answer.headers.items()
        }
    return described
