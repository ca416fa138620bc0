"""Everything that can be asked of a server, but for networks."""

import base64
import json
from collections.abc import Mapping, Sequence
from os import fspath
from typing import Any, Final

from belljar.client import reading
from belljar.client.asking import API, EVENT_STREAM, SANDBOXES, Answer, Call, Request, nothing, path_of
from belljar.client.errors import understanding
from belljar.client.model import Denial, Event, ExecResult, Flow, Layer, SandboxState, ServiceUsage
from belljar.client.options import ClaimOptions, ExecOptions, claim_to_data

_SHELL: Final = "/bin/sh"


def claim(options: ClaimOptions) -> Call[SandboxState]:
    """Make a sandbox."""
    key = options.get("idempotency_key")
    headers = {"idempotency-key": key} if key is not None else {}
    return Call(Request(method="POST", path=SANDBOXES, data=claim_to_data(options), headers=headers), _state)


def page(status: str | None, labels: Mapping[str, str], cursor: str | None) -> Call[tuple[list[SandboxState], Any]]:
    """List sandboxes, and tell where the next page begins."""
    query: dict[str, str | Sequence[str]] = {"label": [f"{name}={value}" for name, value in labels.items()]}
    query |= {"status": status} if status is not None else {}
    query |= {"cursor": cursor} if cursor is not None else {}

    def read(answer: Answer) -> tuple[list[SandboxState], Any]:
        data = answer.data()
        return [reading.sandbox_state(each) for each in data["sandboxes"]], data["next"]

    return Call(Request(method="GET", path=SANDBOXES, query=query), read)


def get(sandbox: str) -> Call[SandboxState]:
    """Tell of a sandbox."""
    return Call(Request(method="GET", path=path_of(sandbox)), _state)


def delete(sandbox: str) -> Call[None]:
    """End a sandbox."""
    return Call(Request(method="DELETE", path=path_of(sandbox)), nothing)


def pause(sandbox: str) -> Call[SandboxState]:
    """Stop a sandbox."""
    return Call(Request(method="POST", path=path_of(sandbox, "/pause")), _state)


def resume(sandbox: str) -> Call[SandboxState]:
    """Let a sandbox go on."""
    return Call(Request(method="POST", path=path_of(sandbox, "/resume")), _state)


def refresh(sandbox: str, ttl: float | None, hard_ttl: float | None) -> Call[SandboxState]:
    """Count its times to live from now on."""
    given = {name: value for name, value in (("ttl", ttl), ("hard_ttl", hard_ttl)) if value is not None}
    return Call(Request(method="POST", path=path_of(sandbox, "/refresh"), data=given), _state)


def execute(sandbox: str, command: str | Sequence[str], options: ExecOptions) -> Call[ExecResult]:
    """Run a command to its end. A text is for the shell."""
    body = _command(command, options)
    request = Request(method="POST", path=path_of(sandbox, "/exec"), data=body, is_long=True)
    return Call(request, lambda answer: reading.exec_result(answer.data()))


def stream(sandbox: str, command: str | Sequence[str], options: ExecOptions) -> Request:
    """Run a command, and follow its output."""
    return Request(
        method="POST",
        path=path_of(sandbox, "/exec"),
        data=_command(command, options),
        headers={"accept": EVENT_STREAM},
        is_long=True,
    )


def put_file(sandbox: str, path: str, content: bytes, mode: int) -> Call[None]:
    """Write a file inside."""
    query = {"path": path, "mode": f"{mode:03o}"}
    return Call(Request(method="PUT", path=path_of(sandbox, "/files"), query=query, content=content), nothing)


def get_file(sandbox: str, path: str) -> Call[bytes]:
    """Read a file inside."""
    request = Request(method="GET", path=path_of(sandbox, "/files"), query={"path": path})
    return Call(request, lambda answer: answer.content)


def layers(sandbox: str) -> Call[list[Layer]]:
    """Tell which layers hold a sandbox."""
    request = Request(method="GET", path=path_of(sandbox, "/layers"))
    return Call(request, lambda answer: [reading.layer(each) for each in answer.data()["layers"]])


def denials(sandbox: str, limit: int) -> Call[list[Denial]]:
    """List what was denied lately."""

    def read(answer: Answer) -> list[Denial]:
        return [Denial.of(reading.event(each, each["id"])) for each in answer.data()["denials"]]

    return Call(Request(method="GET", path=path_of(sandbox, "/denials"), query={"limit": str(limit)}), read)


def usage(sandbox: str) -> Call[list[ServiceUsage]]:
    """Ask what was made of services that are brokers."""
    request = Request(method="GET", path=path_of(sandbox, "/usage"))
    return Call(request, lambda answer: [reading.usage(each) for each in answer.data()["services"]])


def flows(sandbox: str) -> Call[list[Flow]]:
    """List what is open now."""
    request = Request(method="GET", path=path_of(sandbox, "/flows"))
    return Call(request, lambda answer: [reading.flow(each) for each in answer.data()["flows"]])


def events(sandbox: str | None, after: int | None, *, follow: bool) -> Request:
    """Tell what happens, in one sandbox or in all, after an event or from now on."""
    query = {"follow": "false"} if not follow else {}
    query |= {"after": str(after)} if after is not None else {}
    path = f"{API}/events" if sandbox is None else path_of(sandbox, "/events")
    return Request(method="GET", path=path, query=query, headers={"accept": EVENT_STREAM})


def read_event(data: str, number: str) -> Event:
    """Read an event of the stream. Raises BugError."""
    with understanding("an event of the server's"):
        return reading.event(json.loads(data), int(number))


def _command(command: str | Sequence[str], options: ExecOptions) -> dict[str, Any]:
    """Bytes travel as base64, so that they arrive as they are."""
    stdin = options.get("stdin", b"")
    body: dict[str, Any] = {**options, "encoding": "base64"}
    body["command"] = [_SHELL, "-c", command] if isinstance(command, str) else list(command)
    body["stdin"] = base64.b64encode(stdin.encode() if isinstance(stdin, str) else stdin).decode()
    if "workdir" in options:
        body["workdir"] = fspath(options["workdir"])
    return body


def _state(answer: Answer) -> SandboxState:
    return reading.sandbox_state(answer.data())
