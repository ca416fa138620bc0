"""Answers: data, problems, and streams of events."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from belljar.control.http.problems import CONTENT_TYPE, status_of, to_data
from belljar.runtime.problems import ProblemError

EVENT_STREAM: Final = "text/event-stream"


def data_answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that is JSON."""
    return Response(json.dumps(data, separators=(",", ":")), status, headers, "application/json")


def empty_answer() -> Response:
    """Return an answer that says that it is done."""
    return Response(status_code=204)


def problem_answer(problem: ProblemError, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer that says what is wrong."""
    extra = {"www-authenticate": "Bearer"} if status_of(problem) == 401 else {}
    return Response(json.dumps(to_data(problem)), status_of(problem), {**extra, **(headers or {})}, CONTENT_TYPE)


def stream_answer(events: AsyncIterator[bytes]) -> Response:
    """Return an answer that goes on for as long as there are events."""
    return StreamingResponse(events, media_type=EVENT_STREAM, headers={"x-accel-buffering": "no"})


def server_sent(data: str, *, event: str | None = None, number: int | None = None) -> bytes:
    """Return an event as EventSource reads it. The data has no line breaks."""
    lines = [f"id: {number}\n"] if number is not None else []
    lines += [f"event: {event}\n"] if event is not None else []
    return f"{''.join(lines)}data: {data}\n\n".encode()


KEEP_ALIVE: Final = b": \n\n"
"""Says nothing, so that nobody takes a quiet stream for a dead one."""
