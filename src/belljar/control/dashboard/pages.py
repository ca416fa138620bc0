"""The dashboard's files, served as they are, and what its scripts have to know of the policy and of our own probes.

They tell nothing of any sandbox, so they need no token: the page asks for it, and sends it with every request. What
sandboxes say is shown on the page, so the page may do very little: nothing runs but these files, nothing is fetched or
sent but here, and text cannot become markup (`trusted-types`).
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from belljar.policy.reasons import BEYOND_POLICY, BEYOND_POLICY_WITHOUT_RULE
from belljar.sandbox.looking import NO_NAME, NOWHERE

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES: Final = Path(__file__).with_name("static")
_KNOWLEDGE: Final[dict[str, Iterable[str]]] = {
    "BEYOND_POLICY": BEYOND_POLICY,
    "BEYOND_POLICY_WITHOUT_RULE": BEYOND_POLICY_WITHOUT_RULE,
    "PROBED_BY_US": (NO_NAME, *NOWHERE.values()),
}
"""Sets that scripts import from `knowledge.js`, so that they are written down once."""

_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def page_routes() -> list[Route]:
    """Return a route for each file: the page at `/`, what it consists of under `/assets/`."""
    contents = {file.name: file.read_bytes() for file in sorted(_FILES.iterdir())}
    contents["knowledge.js"] = "".join(
        f"export const {name} = new Set({json.dumps(sorted(values))});\n" for name, values in _KNOWLEDGE.items()
    ).encode()
    return [
        Route("/" if name == "index.html" else f"/assets/{name}", _server_of(name, content), methods=["GET"])
        for name, content in contents.items()
    ]


def _server_of(name: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
    headers = {**_HEADERS, "content-type": _TYPES[Path(name).suffix]}

    async def serve(_: Request) -> Response:
        return Response(content, headers=headers)

    return serve
