"""A model API behind a broker: its key is outside, and it is asked for answers and for nothing else."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, control, inside, network
from belljar.verify.probes.network.clients import ask, ask_proxy, loopback, reached, refused

_MESSAGES: Final = "/v1/messages"
_SYSTEMS: Final = {"/proc", "/sys", "/dev", "/usr", "/nix", "/gnu", "/opt"}
"""Directories that are searched in another way, or that hold the machine's programs alone."""

_TRIES: Final = 3
_MOST_FILES: Final = 20000
_MOST_BYTES: Final = 1 << 20

_OTHER_PATHS: Final = (
    "/{token}", "/v1/files/{token}", "/v1/organizations/{token}", "/v1/messages/batches?{token}",
    "/v1/messages/../files/{token}", "/v1/messages/%2e%2e/files/{token}", "/v1/messages%2f..%2ffiles?{token}",
    "//v1/files/{token}", "/v1/files/{token}#/v1/messages", "/v1/files/{token}?/v1/messages",
    f"http://{places.BROKER_NAME}/v1/files/{{token}}", "/v1/messages/batches/{token}", "/v1/messages%C2%A0?{token}",
)  # fmt: skip
_ELSEWHERE: Final = f"https://{places.MARKER}.test/"
_SERVER_TOOLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (_MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    (_MESSAGES, {"tools": [{"type": "code_execution_20250522", "name": "code_execution"}]}),
    (_MESSAGES, {"mcp_servers": [{"type": "url", "url": _ELSEWHERE, "name": "other"}]}),
    ("/v1/responses", {"tools": [{"type": "web_search"}]}),
    ("/v1/responses", {"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "mcp"}]}]}),
    ("/v1/chat/completions", {"web_search_options": {}}),
    ("/v1/chat/completions", {"tools": [{"type": "openrouter:web_search"}]}),
    ("/v1/chat/completions", {"provider": {"plugins": [{"id": "web"}]}}),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "images": [{"image_url": {"url": _ELSEWHERE}}]}]}),
    ("/v1/responses", {"tools": [{"type": "function", "name": "a", "server_url": _ELSEWHERE}]}),
    ("/v1/responses", {"previous_response_id": "resp_of_another_sandbox"}),
)
_HEADERS: Final = (
    "X-Portkey-Custom-Host", "Helicone-Target-Url", "X-Forwarded-Host", "X-LiteLLM-Api-Base", "X-Original-Url",
    "OpenAI-Organization", "X-Header-Of-Tomorrow",
)  # fmt: skip
"""By which gateways for models are told where to send a request, or in whose name."""


def _request(mark: Mark, target: str, more: dict[str, Any] | None = None, method: str = "POST") -> bytes:
    said = [{"role": "user", "content": mark.token}]
    asked = {"model": "any", "max_tokens": 1, "input" if target.endswith("responses") else "messages": said}
    body = json.dumps(asked | (more or {})).encode()
    head = f"{method} {target} HTTP/1.1\r\nHost: {places.BROKER_NAME}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n".encode() + body


@control("broker", "a model API behind a broker, which adds the key")
def broker(mark: Mark) -> Finding:
    asking = partial(ask, places.BROKER_NAME, places.HTTP, _request(mark, _MESSAGES), family=mark.family)
    return reached(lambda: _patiently(asking))


def _patiently(asking: Callable[[], bytes]) -> bytes:
    """Ask again while a broker, which is a process of its own, may still be busy with beginning."""
    for _ in range(_TRIES):
        with suppress(OSError):
            if not (answer := asking()).startswith(b"HTTP/1.1 502"):
                return answer
    return asking()


@network(72, "other-paths", "what a provider has beside models, asked for with the broker's key", beside="broker")
def other_paths(mark: Mark) -> Finding:
    paths = [path.format(token=mark.token) for path in _OTHER_PATHS]
    requests = [_request(mark, path, method=method) for path in paths for method in ("POST", "DELETE")]
    return refused(
        *(partial(ask, places.BROKER_NAME, places.HTTP, asked, family=mark.family) for asked in requests),
        lambda: ask(loopback(mark.family), places.HTTP_PROXY, requests[-2]),
        lambda: ask_proxy(mark, f"{places.BROKER_NAME}:{places.HTTP}", requests[0]),
    )


@network(72, "server-tools", "tools by which a provider would reach the network for its client", beside="broker")
def server_tools(mark: Mark) -> Finding:
    requests = [_request(mark, path, more) for path, more in _SERVER_TOOLS]
    return refused(*(partial(ask, places.BROKER_NAME, places.HTTP, asked, family=mark.family) for asked in requests))


@network(72, "headers", "headers that lead a provider's gateway elsewhere, or name another account", beside="broker")
def headers(mark: Mark) -> Finding:
    asked = b'{"model": "any", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}'
    lines = "".join(f"{name}: {mark.token}.test\r\n" for name in _HEADERS)
    head = f"POST {_MESSAGES} HTTP/1.1\r\nHost: {places.BROKER_NAME}\r\n{lines}Content-Length: {len(asked)}\r\n"
    request = f"{head}Connection: close\r\n\r\n".encode() + asked
    return reached(lambda: ask(places.BROKER_NAME, places.HTTP, request, family=mark.family))


@inside(72, "key", "the broker's key, in the environment, in what is told of processes, and in files",
        beside="control-broker-v4")  # fmt: skip
def key(mark: Mark) -> Finding:
    wanted = places.broker_key(mark.scene.run).encode()
    searched = [*_of_processes(), *_files()]
    found = [str(path) for path in searched if wanted in _content(path)]
    evidence = f"found in {', '.join(found[:8])}" if found else f"in none of {len(searched)} files"
    return Finding(not found, evidence)


def _of_processes() -> Iterator[Path]:
    for process in (path for path in Path("/proc").iterdir() if path.name.isdecimal()):
        yield from (process / "environ", process / "cmdline")


def _files() -> Iterator[Path]:
    """Yield files that somebody may have put there for this sandbox, and not for the whole machine."""
    left = _MOST_FILES
    for directory, names, files in os.walk("/"):
        names[:] = [name for name in names if f"{directory.rstrip('/')}/{name}" not in _SYSTEMS]
        yield from (Path(directory, name) for name in files[:left])
        left -= len(files)
        if left <= 0:
            return


def _content(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
