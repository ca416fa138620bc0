"""The judge's HTTP API, with SForge's paths and fields.

There are two applications. `agent_app` is what a work sandbox reaches: submit, read one's own results, and nothing
else, whatever secret a request brings along. `host_app` is for the harness; what concerns more than one session needs
the admin secret. Errors are `{"detail": …}`.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from belljar.amounts import AmountError, parse_memory
from belljar.errors import message
from belljar.harness.judge.adminsecret import AdminSecret
from belljar.harness.judge.report import SubmissionKind
from belljar.harness.judge.session import SessionLimits, SubmissionRefusedError
from belljar.harness.judge.sessions import Judge
from belljar.harness.judge.tarreader import ArchiveError
from belljar.harness.judge.uploads import UploadForm, Uploads

PREFIX: Final = "/api/v1"
_MAX_JSON: Final = 1 << 16
_JSON_TIMEOUT: Final = 30.0
_ADMIN_HEADERS: Final = ("x-belljar-admin-secret", "x-sforge-admin-secret")
_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_REGISTERED: Final = ("task_id", "run_id", "admin_secret")
_LIMITS: Final = ("judge_cpu_limit", "judge_mem_limit", "max_agent_submissions", "submission_cooldown")
_ELSEWHERE: Final = re.compile(r"backend|(k8s|e2b)_\w{1,50}", re.ASCII)
"""Fields of SForge's that choose where its judge grades; ours grades where it was told to at its start."""


def agent_app(judge: Judge, incoming: Path | None = None) -> Starlette:
    """Return what a work sandbox may reach. It is safe to serve it to any number of them."""
    api = _Api(judge, None, incoming)
    return _app([_route("POST", "/submit", api.submit), *_session_routes(api)])


def host_app(judge: Judge, secret: AdminSecret, incoming: Path | None = None) -> Starlette:
    """Return everything."""
    api = _Api(judge, secret, incoming)
    return _app(
        [
            _route("POST", "/submit", api.submit),
            *_session_routes(api),
            _route("GET", "/tasks", api.tasks),
            _route("POST", "/register", api.register),
            _route("POST", "/close", api.close),
            _route("GET", "/runs/{run_id}/history", api.run_history),
            Route(f"{PREFIX}/game/{{rest:path}}", _no_games, methods=["GET", "POST", "DELETE"]),
        ]
    )


class _Api:
    """The operations. Without a secret, every request is an agent's."""

    def __init__(self, judge: Judge, secret: AdminSecret | None, incoming: Path | None) -> None:
        self._judge, self._secret = judge, secret
        self._uploads = Uploads(incoming or judge.results / ".incoming")

    async def submit(self, request: Request) -> Response:
        """Accept a submission: `archive`, with `kind` and `token` as fields before it."""
        with ExitStack() as stack:
            reserved: list[tuple[str, SubmissionKind, Path]] = []

            def open_archive(form: UploadForm) -> BinaryIO:
                token, kind = _token(request, form.fields), self._kind(request, form.fields)
                self._judge.check(token, kind)
                path = stack.enter_context(self._uploads.slot(token))
                reserved.append((token, kind, path))
                return stack.enter_context(path.open("xb", buffering=0))

            await self._uploads.receive(request, UploadForm(open_archive))
            token, kind, path = reserved[0]
            submission = await self._judge.submit(token, kind, path)
        remaining = self._judge.remaining(token) if kind is SubmissionKind.AGENT else None
        answer = {"submission_id": submission.id, "round_id": submission.id, "status": submission.status.value}
        return _answer({**answer, "remaining_submissions": remaining})

    async def result(self, request: Request) -> Response:
        """Return a submission, with its report once there is one."""
        is_admin = self._is_admin(request, request.query_params)
        name = request.path_params["id"]
        query = request.query_params
        if is_admin and "run_id" in query:
            found = self._judge.result_of_run(query["run_id"], query.get("task_id"), name)
        else:
            found = self._judge.result(_token(request, query), name, for_agent=not is_admin)
        return _answer(found.to_data(for_agent=not is_admin))

    async def history(self, request: Request) -> Response:
        """Return all submissions of the session: for an agent, its own ones."""
        is_admin = self._is_admin(request, request.query_params)
        return _answer(self._judge.history(_token(request, request.query_params), for_agent=not is_admin))

    async def tasks(self, request: Request) -> Response:
        """List the tasks."""
        self._require_admin(request, request.query_params)
        return _answer({"tasks": [{"task_id": task.id, "name": task.name} for task in self._judge.tasks.values()]})

    async def register(self, request: Request) -> Response:
        """Begin a session."""
        body = await _json(request)
        self._require_admin(request, body)
        for name, value in body.items():
            if _ELSEWHERE.fullmatch(name) and value is None:
                continue
            if name not in (*_REGISTERED, *_LIMITS):
                raise SubmissionRefusedError(400, f"this judge does not support the field {name!a}; leave it out")
        task_id, run_id = (_text(body, name) for name in ("task_id", "run_id"))
        limits = SessionLimits(
            max_submissions=_number(body, "max_agent_submissions", whole=True),
            cooldown=_number(body, "submission_cooldown"),
            cpus=_number(body, "judge_cpu_limit"),
            memory_bytes=_memory(body.get("judge_mem_limit")),
        )
        return _answer({"token": self._judge.register(task_id, run_id, limits)})

    async def close(self, request: Request) -> Response:
        """End a session: nothing more is accepted, and what was accepted is graded."""
        body = await _json(request)
        self._require_admin(request, body)
        self._judge.close_session(_token(request, body))
        return _answer({"status": "closed"})

    async def run_history(self, request: Request) -> Response:
        """Return all submissions of a run."""
        query = request.query_params
        self._require_admin(request, query)
        return _answer(self._judge.run_history(request.path_params["run_id"], query.get("task_id")))

    def _kind(self, request: Request, fields: Mapping[str, Any]) -> SubmissionKind:
        kind = fields.get("kind", SubmissionKind.AGENT.value)
        if kind == SubmissionKind.AGENT.value:
            return SubmissionKind.AGENT
        if kind != SubmissionKind.AUTO.value:
            raise SubmissionRefusedError(400, 'kind is neither "agent" nor "auto"')
        self._require_admin(request, fields)
        return SubmissionKind.AUTO

    def _is_admin(self, request: Request, fields: Mapping[str, Any]) -> bool:
        given = next((request.headers[name] for name in _ADMIN_HEADERS if name in request.headers), None)
        given = given or fields.get("admin_secret")
        return self._secret is not None and isinstance(given, str) and self._secret.matches(given)

    def _require_admin(self, request: Request, fields: Mapping[str, Any]) -> None:
        if not self._is_admin(request, fields):
            raise SubmissionRefusedError(
                403,
                "this is for the harness, and needs the judge's admin secret; set BELLJAR_ADMIN_SECRET to what is in "
                "judge-admin-secret of the server's state directory",
            )


def _app(routes: list[BaseRoute]) -> Starlette:
    app = Starlette(
        routes=routes,
        exception_handlers={
            SubmissionRefusedError: _refused,
            ArchiveError: _refused,
            ClientDisconnect: _refused,
            HTTPException: _no_route,
            Exception: _bug,
        },
    )
    app.router.redirect_slashes = False
    return app


def _route(method: str, path: str, handler: Any) -> Route:
    return Route(f"{PREFIX}{path}", handler, methods=[method])


def _session_routes(api: _Api) -> list[BaseRoute]:
    return [_route("GET", "/result/{id}", api.result), _route("GET", "/history", api.history)]


def _token(request: Request, fields: Mapping[str, Any]) -> str:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    token = given.strip() if scheme.lower() == "bearer" else fields.get("token")
    if not isinstance(token, str) or not token:
        raise SubmissionRefusedError(401, "there is no token; send it as Authorization: Bearer, or before the archive")
    return token


async def _json(request: Request) -> dict[str, Any]:
    content = bytearray()
    try:
        async with asyncio.timeout(_JSON_TIMEOUT):
            async for chunk in request.stream():
                content += chunk
                if len(content) > _MAX_JSON:
                    raise SubmissionRefusedError(413, "the body is too large")
        data = json.loads(content)
    except TimeoutError:
        raise SubmissionRefusedError(408, "the body came too slowly") from None
    except (ValueError, RecursionError):
        raise SubmissionRefusedError(400, "the body is no JSON") from None
    if not isinstance(data, dict):
        raise SubmissionRefusedError(400, "the body is no JSON object")
    return data


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise SubmissionRefusedError(400, f"{name} is missing, or no text")
    return value


def _number(body: Mapping[str, Any], name: str, *, whole: bool = False) -> Any:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not 0 <= value < 1e9:
        raise SubmissionRefusedError(400, f"{name} is no number from 0 to 1000000000")
    return value


def _memory(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return parse_memory(str(value))
    except AmountError as error:
        raise SubmissionRefusedError(400, f"judge_mem_limit: {error}") from None


def _answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(data, status, {**_HEADERS, **(headers or {})})


async def _no_games(_: Request) -> Response:
    return _answer({"detail": "this judge does not support games yet"}, 501)


async def _refused(_: Request, error: Exception) -> Response:
    headers = {}
    status = error.status if isinstance(error, SubmissionRefusedError) else 400
    if isinstance(error, SubmissionRefusedError) and error.retry_after is not None:
        headers["retry-after"] = str(int(error.retry_after) + 1)
    return _answer({"detail": message(error)}, status, headers)


async def _no_route(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = "this path has another method" if status == 405 else "there is nothing at this path"
    return _answer({"detail": detail}, status)


async def _bug(_: Request, error: Exception) -> Response:
    return _answer({"detail": f"internal error: {type(error).__name__}; see the judge's log"}, 500)
