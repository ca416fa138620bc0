"""The application: operations as routes, and every error as a problem."""

from collections.abc import Collection
from functools import partial
from itertools import groupby

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from belljar.control.dashboard.pages import page_routes
from belljar.control.http.api import OPERATIONS
from belljar.control.http.auth import DESCRIPTION, Guard
from belljar.control.http.openapi import describe
from belljar.control.http.operations import Operation
from belljar.control.http.problems import as_problem
from belljar.control.http.requests import read_call
from belljar.control.http.responses import data_answer, problem_answer
from belljar.control.services import Services
from belljar.control.tokens import TokenFile
from belljar.errors import BelljarError
from belljar.runtime.problems import ProblemError


def make_app(services: Services, token: TokenFile, names: Collection[str] = ()) -> ASGIApp:
    """Return the application. `names` are those that it is known by, beside localhost and its addresses."""
    routes = [*page_routes(), Route(DESCRIPTION, _description, methods=["GET"])]
    for path, operations in groupby(OPERATIONS, key=lambda operation: operation.path):
        by_method = {operation.method: operation for operation in operations}
        routes.append(Route(path, partial(_serve, services, by_method), methods=list(by_method)))
    app = Starlette(
        routes=routes, exception_handlers={BelljarError: _refused, HTTPException: _no_route, Exception: _bug}
    )
    app.router.redirect_slashes = False
    return Guard(app, token=token, names=names)


async def _serve(services: Services, operations: dict[str, Operation], request: Request) -> Response:
    operation = operations["GET" if request.method == "HEAD" else request.method]
    return await operation.handle(await read_call(operation, services, request))


async def _description(_: Request) -> Response:
    return data_answer(describe())


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, BelljarError):
        raise error
    return problem_answer(as_problem(error))


async def _no_route(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:
        problem = ProblemError("method_not_allowed", f"{request.method!a} is not a method of this path; see Allow")
    else:
        problem = ProblemError("path_not_found", f"there is nothing at {request.url.path!a}; see {DESCRIPTION}")
    return problem_answer(problem, error.headers)


async def _bug(_: Request, error: Exception) -> Response:
    return problem_answer(
        ProblemError("internal_error", f"{type(error).__name__}; see the server's log, and please report it")
    )
