"""What both kinds of connection have in common: how requests become HTTP, and HTTP's errors become ours."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from belljar.client.asking import EVENT_STREAM, Answer, Request
from belljar.client.errors import BugError, ClientError, LostError, NoServerError, error_of
from belljar.client.places import Place
from belljar.errors import reason
from belljar.statedir import SERVER

if TYPE_CHECKING:
    import httpx2

_PROBLEM: Final = "application/problem+json"
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 300.0
"""Streams are never quiet for so long, and sandboxes are made in less."""


def client_options(place: Place) -> dict[str, Any]:
    """Return how an HTTP client is made. Proxies and credentials of the environment are not meant for this server."""
    headers = {"authorization": f"Bearer {place.token}"} if place.token else {}
    return {"base_url": place.url, "headers": headers, "trust_env": False}


def transport_options(place: Place) -> dict[str, Any]:
    """Return how its connections are made. Where there is no TLS, authorities need not be read, which takes 50 ms."""
    uds = str(place.socket) if place.socket is not None else None
    return {"uds": uds, "verify": not place.url.startswith("http://")}


def request_options(request: Request) -> dict[str, Any]:
    """Return a request as the HTTP library takes it."""
    import httpx2  # noqa: PLC0415 - it takes 0.1 s, and most of Belljar never needs it

    patience = None if request.is_long else _ANSWER_SECONDS
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.query),
        "headers": dict(request.headers),
        "json": request.data,
        "content": request.content,
        "timeout": httpx2.Timeout(_CONNECT_SECONDS, read=patience, write=_ANSWER_SECONDS),
    }


def to_answer(response: "httpx2.Response") -> Answer:
    """Return the answer. Raises ClientError if it is a problem."""
    if response.is_success:
        return Answer(response.headers, response.content)
    raise problem_of(response)


def is_stream(response: "httpx2.Response") -> bool:
    """Tell whether a response is a stream of events."""
    return response.is_success and response.headers.get("content-type", "").startswith(EVENT_STREAM)


def problem_of(response: "httpx2.Response") -> ClientError:
    """Return what is wrong, according to a response that was read whole."""
    if response.headers.get("content-type") == _PROBLEM:
        try:
            return error_of(json.loads(response.content))
        except ValueError:
            pass
    return BugError(
        f"{response.url} answers {response.status_code}, and not as Belljar does; is this the server you mean?"
    )


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Turn what the HTTP library raises into errors of ours."""
    import httpx2  # noqa: PLC0415

    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise NoServerError(
            f"no server answers at {place} ({reason(error)}); start a server with `belljar serve`, or name another one "
            f"with --server or {SERVER}"
        ) from None
    except httpx2.RequestError as error:
        what = str(error) or type(error).__name__
        raise LostError(f"the connection to {place} broke ({what}); look at what is there, and try again") from None
