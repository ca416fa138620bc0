"""The dashboard's files, served as they are.

They tell nothing of any sandbox, so they need no token: the page asks for it, and sends it with every request. What
sandboxes say is shown on the page, so the page may do very little: nothing runs but these files, nothing is fetched or
sent but here, and text cannot become markup (`trusted-types`).
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES: Final = Path(__file__).with_name("static")
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
    return [
        Route("/" if file.name == "index.html" else f"/assets/{file.name}", _server_of(file), methods=["GET"])
        for file in sorted(_FILES.iterdir())
    ]


def _server_of(file: Path) -> Callable[[Request], Awaitable[Response]]:
    content, headers = file.read_bytes(), {**_HEADERS, "content-type": _TYPES[file.suffix]}

    async def serve(_: Request) -> Response:
        return Response(content, headers=headers)

    return serve
