"""Requests that run a command: the answer is its output, at the end or as it comes."""

import asyncio
import base64
import binascii
import codecs
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

from starlette.responses import Response

from belljar.control.http.problems import as_problem, to_data
from belljar.control.http.requests import Call
from belljar.control.http.responses import EVENT_STREAM, data_answer, server_sent, stream_answer
from belljar.control.http.schemas import DEFAULT_OUTPUT
from belljar.errors import BelljarError
from belljar.runtime.commands import Ended, Output, Running
from belljar.runtime.problems import FieldProblem, refusing
from belljar.sandbox.spec import Command


async def execute(call: Call) -> Response:
    """Run a command in a sandbox."""
    body, sandbox = call.body, call.served_sandbox
    command = Command(tuple(body["command"]), body.get("env", {}), Path(body["workdir"]) if "workdir" in body else None)
    as_base64 = body.get("encoding") == "base64"
    stdin = _from_base64(body.get("stdin", "")) if as_base64 else body.get("stdin", "").encode()
    running = await call.services.commands.start(sandbox, command, stdin, body.get("timeout"))
    if EVENT_STREAM in call.request.headers.get("accept", ""):
        return stream_answer(_events(running, as_base64=as_base64))
    most = body.get("max_output_bytes", DEFAULT_OUTPUT)
    return await _unless_left(call, _collect(running, most, as_base64=as_base64))


async def _unless_left(call: Call, result: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """Answer with a result, which nobody needs any more if the client has left."""
    collecting, leaving = asyncio.create_task(result), asyncio.create_task(_left(call))
    try:
        await asyncio.wait((collecting, leaving), return_when=asyncio.FIRST_COMPLETED)
        return data_answer(await collecting if collecting.done() else None)
    finally:
        for task in (collecting, leaving):
            task.cancel()
        await asyncio.wait((collecting, leaving))


async def _left(call: Call) -> None:
    await call.request.receive()


async def _collect(running: Running, most: int, *, as_base64: bool) -> dict[str, Any]:
    kept = {"stdout": bytearray(), "stderr": bytearray()}
    truncated, ended = False, Ended(0, timed_out=False, seconds=0.0)
    async for item in running.follow():
        if isinstance(item, Ended):
            ended = item
            continue
        stream = kept[item.stream]
        truncated |= len(stream) + len(item.data) > most
        stream += item.data[: most - len(stream)]
    written = {name: _written(bytes(data), as_base64=as_base64) for name, data in kept.items()}
    return {"exit_code": ended.exit_code, **written, "truncated": truncated, **_told(ended)}


async def _events(running: Running, *, as_base64: bool) -> AsyncIterator[bytes]:
    writers: dict[str, Callable[[bytes], str]] = {}
    for name in ("stdout", "stderr"):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        writers[name] = (lambda data: base64.b64encode(data).decode()) if as_base64 else decoder.decode
    async with aclosing(running.follow()) as items:
        try:
            async for item in items:
                if isinstance(item, Output):
                    yield server_sent(json.dumps({"data": writers[item.stream](item.data)}), event=item.stream)
                else:
                    yield server_sent(json.dumps({"exit_code": item.exit_code, **_told(item)}), event="exit")
        except BelljarError as error:
            yield server_sent(json.dumps(to_data(as_problem(error))), event="problem")


def _told(ended: Ended) -> dict[str, Any]:
    return {
        "timed_out": ended.timed_out,
        "out_of_memory": ended.out_of_memory,
        "seconds": round(ended.seconds, 6),
    }


def _written(data: bytes, *, as_base64: bool) -> str:
    return base64.b64encode(data).decode() if as_base64 else data.decode(errors="replace")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise refusing(
            "invalid_request", [FieldProblem("stdin", "is not base64; write it so, or leave encoding out")]
        ) from None
