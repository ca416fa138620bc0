"""Brokers of a real server: what is used is counted and told, budgets hold, and a broker's death is nobody else's."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from belljar.policy.variables import PLACEHOLDER
from tests.control.machines import Machine
from tests.control.servers import parse_events, until
from tests.universe import addresses, web
from tests.universe.services import Call
from tests.universe.web import Request

pytestmark = pytest.mark.long

KEY, OTHER_KEY = "sk-real-key-of-the-host", "sk-other-key-of-the-host"
ANSWER = json.dumps({"type": "message", "usage": {"input_tokens": 10, "output_tokens": 5}}).encode()
ASK = ("-X", "POST", "-d", '{"model": "any", "messages": []}', "-w", "\n%{http_code}")
TALK = """
import pathlib, socket, time
with socket.create_connection(("plain.test", 7)) as line:
    for word in (b"before", b"after"):
        line.sendall(word)
        print(line.recv(100), flush=True)
        pathlib.Path(word.decode()).touch()
        while word == b"before" and not pathlib.Path("go").exists():
            time.sleep(0.01)
"""


class Provider:
    """A stand-in on the host's loopback, and what it has seen."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def answer(self, call: Call, request: Request) -> None:
        self.requests.append(request)
        if "stream" in request.body.decode():
            await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            await call.send(b"a\r\ndata: {}\n\n\r\n")
            await web.hang(call, request)
            return
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
        await call.send(head.encode() + ANSWER)

    def keys(self) -> list[str]:
        return [request.headers["authorization"] for request in self.requests]


@pytest.fixture
def provider(universe, monkeypatch):
    provider = Provider()
    monkeypatch.setitem(web.PAGES, "/v1", provider.answer)
    return provider


@pytest.fixture
def machine(universe):
    directory = Path(tempfile.mkdtemp(prefix="belljar-serve-", dir="/var/tmp"))
    machine = Machine(universe, directory / "state")
    machine.environment = {"MODELS_API_KEY": KEY, "OTHERS_API_KEY": OTHER_KEY, "TMPDIR": str(directory)}
    try:
        machine.start()
        yield machine
        machine.clean_up()
    finally:
        machine.kill()
    assert machine.leftovers() == []
    assert not brokers(machine)
    shutil.rmtree(directory)


def policy(name: str = "models", **more: Any) -> dict[str, Any]:
    header = {"authorization": f"Bearer ${{{name.upper()}_API_KEY}}"}
    service = {"url": f"http://127.0.0.1:{addresses.HTTP}", "header": header, **more}
    allowed = {"allowed_domains": [f"plain.test:{addresses.ECHO}"]}
    return {"mode": "block-all", "egress": allowed, "services": {name: service}}


def ask(machine: Machine, jar: str, name: str = "models", *options: str) -> int:
    """Ask a broker for an answer; return the status."""
    said = machine.fetch(jar, f"http://{name}.belljar.internal/v1/messages", *ASK, *options)
    return int(said.rpartition("\n")[2])


def brokers(machine: Machine) -> list[int]:
    """Return the brokers of a server."""
    state = os.fsencode(machine.state)
    return [pid for pid, words in _commands() if b"--events" in words and state in words]


def _commands() -> list[tuple[int, bytes]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append((int(path.parent.name), path.read_bytes()))
        except OSError:
            continue
    return found


def usage(machine: Machine, jar: str) -> dict[str, Any]:
    services = machine.call("GET", f"/sandboxes/{jar}/usage")["services"]
    return {service["service"]: service for service in services}


def test_what_is_used_is_counted_told_and_bounded_and_a_new_server_knows_it(machine, provider):
    jar = machine.sandbox({"mode": "block-all"})
    assert ask(machine, jar) in (0, 403)
    assert brokers(machine) == []
    machine.call("PUT", f"/sandboxes/{jar}/network", policy(budget={"requests": 2}))
    assert [ask(machine, jar) for _ in range(3)] == [200, 200, 429]
    assert provider.keys() == [f"Bearer {KEY}"] * 2
    until(lambda: usage(machine, jar)["models"]["used"]["requests"] == 2)
    told = usage(machine, jar)["models"]
    assert (told["used"]["input_tokens"], told["used"]["output_tokens"]) == (20, 10)
    assert told["budget"] == {"requests": 2}
    with machine.client() as client:
        with client.stream("GET", f"/sandboxes/{jar}/events?after=0") as answer:
            events = (event for event in parse_events(answer.iter_lines()) if event.event == "service.used")
            seen = [next(events).data for _ in range(3)]
        metrics = client.get("http://localhost/metrics").text
    assert [(event["service"], event["status"]) for event in seen] == [("models", status) for status in (200, 200, 429)]
    assert KEY not in str(seen) + metrics
    assert f'belljar_service_requests_total{{sandbox="{jar}",service="models",result="answered"}} 2' in metrics
    assert f'belljar_service_requests_total{{sandbox="{jar}",service="models",result="refused"}} 1' in metrics
    assert [jar, "models", "2/2", "20", "10"] in [line.split()[:5] for line in top(machine).splitlines()]
    machine.call("PUT", f"/sandboxes/{jar}/network", policy(budget={"requests": 9}))
    assert usage(machine, jar)["models"]["budget"] == {"requests": 9}
    machine.call("PUT", f"/sandboxes/{jar}/network", policy(budget={"requests": 2}))
    machine.kill()
    machine.start()
    assert ask(machine, jar) == 429
    assert len(provider.requests) == 2
    assert until(lambda: usage(machine, jar).get("models"))["used"]["requests"] == 2


def top(machine: Machine) -> str:
    command = [sys.executable, "-m", "belljar", "top", "--server", str(machine.state)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_sandboxes_of_a_group_share_what_they_may_use(machine, provider):
    shared = policy(shared_budget={"group": "team", "requests": 3})
    first, second, other = machine.sandbox(shared), machine.sandbox(shared), machine.sandbox(policy())
    assert [ask(machine, jar) for jar in (first, second, first)] == [200] * 3
    assert [ask(machine, jar) for jar in (first, second, other)] == [429, 429, 200]
    assert len(provider.requests) == 4


def test_a_service_is_its_sandboxs_own_and_a_placeholder_opens_nothing(machine, provider):
    jar, neighbour = machine.sandbox(policy()), machine.sandbox(policy("others"))
    assert ask(machine, neighbour, "models") in (0, 403)
    assert ask(machine, neighbour, "models", "--connect-to", "::others.belljar.internal:80") in (0, 403)
    assert provider.requests == []
    assert ask(machine, jar) == 200
    shown = machine.run(neighbour, "printenv", "OTHERS_API_KEY")["stdout"].strip()
    assert shown == PLACEHOLDER
    replayed = ("-H", f"Authorization: Bearer {shown}", "-H", f"X-Api-Key: {shown}")
    assert ask(machine, neighbour, "others", *replayed) == 200
    assert provider.keys() == [f"Bearer {KEY}", f"Bearer {OTHER_KEY}"]
    assert all(PLACEHOLDER.encode() not in request.head for request in provider.requests)


def test_a_broker_that_is_killed_takes_its_own_streams_along_and_nothing_else(machine, provider):
    jar = machine.sandbox(policy(budget={"requests": 2}))
    with talking(machine, jar) as talk, streaming(machine, jar) as stream:
        [broker] = brokers(machine)
        os.kill(broker, signal.SIGKILL)
        assert stream()["exit_code"] != 0  # it was cut, and its client knows
        assert ask(machine, jar) == 200
        assert brokers(machine) not in ([], [broker])
        machine.run(jar, "touch", "go")
        assert talk()["stdout"] == "b'before'\nb'after'\n"
    assert ask(machine, jar) == 429
    assert provider.keys() == [f"Bearer {KEY}"] * 2


@contextmanager
def talking(machine: Machine, jar: str):
    """Have a plain connection to an allowed host open, which goes on when it is told to."""
    with _running(machine, jar, "python3", "-c", TALK) as result:
        until(lambda: machine.run(jar, "test", "-e", "before")["exit_code"] == 0)
        yield result


@contextmanager
def streaming(machine: Machine, jar: str):
    """Have an answer on its way, of which a part is there."""
    url = "http://models.belljar.internal/v1/messages"
    with _running(machine, jar, "curl", "-sSN", "-m", "60", "-o", "part", "-d", '{"stream": true}', url) as result:
        until(lambda: machine.run(jar, "test", "-s", "part")["exit_code"] == 0)
        yield result


@contextmanager
def _running(machine: Machine, jar: str, *command: str):
    results: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: results.append(machine.run(jar, *command)))
    thread.start()

    def result() -> dict[str, Any]:
        thread.join(60)
        return results[0]

    yield result
    thread.join(60)
