"""The door to the broker: it is started when it is needed, and one that cannot be started keeps nobody waiting."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.serving import Serving
from tests.universe import Sandbox, Universe, addresses

POLICY = f"""
mode: block-all
egress: {{allowed_domains: [plain.test]}}
services:
  models: {{url: "http://127.0.0.1:{addresses.HTTP}"}}
"""
ASKED = 3
_POPEN = subprocess.Popen

Start = Callable[..., Any]


@pytest.fixture
def started(monkeypatch):
    """The brokers that were started; what is done instead is the first entry's, if a test puts one there."""
    instead: list[Start] = []
    starts: list[list[str]] = []

    def start(words: list[str], **options: Any) -> Any:
        if "--events" not in words:
            return _POPEN(words, **options)
        starts.append(words)
        return instead[0](words, **options) if instead else _POPEN(words, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    return starts, instead


@contextmanager
def serving(universe: Universe, state: Path) -> Iterator[Serving]:
    running = Serving(universe, broker_state=state)
    try:
        yield running
    finally:
        running.close()


def fails(_: list[str], **options: Any) -> Any:
    return _POPEN([sys.executable, "-c", "raise SystemExit(1)"], **options)


def is_missing(_: list[str], **options: Any) -> Any:
    return _POPEN(["/nonexistent"], **options)


def ask(sandbox: Sandbox, url: str = "http://models.belljar.internal/v1/models") -> tuple[str, int]:
    said = sandbox.run(["curl", "-s", "-m", "10", "-w", "\n%{http_code}", url]).stdout
    body, _, status = said.rpartition("\n")
    return body, int(status)


def test_a_broker_is_started_for_whoever_comes_first_and_its_socket_has_no_name(universe, started, tmp_path):
    starts, _ = started
    with serving(universe, tmp_path) as running, running.sandbox(POLICY) as (sandbox, _):
        assert ask(sandbox, "http://plain.test/")[1] == 200
        assert starts == []
        assert [ask(sandbox)[1] for _ in range(ASKED)] == [200] * ASKED
        assert len(starts) == 1
        assert "broker.sock" not in [path.name for path in tmp_path.iterdir()]
    requests = universe.gateway.witness.of_kind("request")
    assert [request.what.split()[2] for request in requests] == ["/v1/models"] * ASKED


@pytest.mark.parametrize("how", [fails, is_missing])
def test_one_that_cannot_be_started_is_said_to_be_unreachable(universe, started, tmp_path, how):
    starts, instead = started
    instead.append(how)
    with serving(universe, tmp_path) as running, running.sandbox(POLICY) as (sandbox, jar):
        answers = [ask(sandbox) for _ in range(ASKED)]
        assert [status for _, status in answers] == [502] * ASKED
        problems = [json.loads(body) for body, _ in answers]
        assert {problem["title"] for problem in problems} == {"The destination could not be reached"}
        assert all("models.belljar.internal" in problem["detail"] for problem in problems)
        assert ask(sandbox, "http://plain.test/")[1] == 200
        running.wait_until_idle(jar)
    assert 0 < len(starts) <= 2 * ASKED  # and not for as long as somebody waits
    assert not universe.gateway.witness.of_kind("request")


def test_one_that_could_not_be_started_is_when_it_can_be(universe, started, tmp_path):
    starts, instead = started
    instead.append(fails)
    with serving(universe, tmp_path) as running, running.sandbox(POLICY) as (sandbox, _):
        assert ask(sandbox)[1] == 502
        instead.clear()
        before = len(starts)
        while (status := ask(sandbox)[1]) == 502:
            assert len(starts) == before
        assert status == 200
