"""The key is nowhere in a sandbox: not in what agents can read while they work, nor afterwards, nor on the wire."""

import json
import os
import shlex
import shutil
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.agents.conftest import Desk
from tests.agents.model import Model, ToolCall
from tests.agents.onlooking import Onlooker
from tests.agents.test_agents import AGENTS, recipes
from tests.backends.local.conftest import PATIENCE

SEARCHING = Path(__file__).with_name("searching.py")
TOOLS = {
    "claude": lambda command: ToolCall("Bash", {"command": command, "description": "Search", "timeout": 100_000}),
    "codex": lambda command: ToolCall("exec_command", {"cmd": command, "yield_time_ms": 30_000}),
    "opencode": lambda command: ToolCall("bash", {"command": command, "description": "Search", "timeout": 100_000}),
}


class Search:
    """A search of a sandbox by an agent in it, and by another command when the agent has ended."""

    def __init__(self, desk: Desk, model: Model, agent: str) -> None:
        self._desk, self.control = desk, uuid4().hex
        self._since = time.time() - 1
        shutil.copy(SEARCHING, desk.workdir)
        (desk.workdir / "control").write_text(self.control)
        model.script = [TOOLS[agent](self._command("during"))]
        self._recipe = recipes(AGENTS[agent].title)[0]
        self.seen = b""

    def run(self) -> None:
        """Run the agent; somebody watches what passes between the sandbox and its gateway."""
        inside = f'until test -e go; do sleep 0.05; done; "$@" && {self._command("after")}'
        words = f" --env CONTROL={self.control} -- sh -c {shlex.quote(inside)} sh "
        with self._desk.start(self._recipe.replace(" -- ", words, 1)) as process:
            with Onlooker(f"CONTROL={self.control}") as onlooker:
                (self._desk.workdir / "go").touch()
                said = process.communicate(timeout=2 * PATIENCE)
            self.seen = bytes(onlooker.seen)
        assert process.returncode == 0, said

    def report(self, when: str) -> dict[str, list[str]]:
        """Return where things were found."""
        found: dict[str, list[str]] = json.loads((self._desk.workdir / when).read_text())
        return found

    def _command(self, when: str) -> str:
        return shlex.join(["python3", SEARCHING.name, when, str(self._since), self._desk.key[::-1], self.control[::-1]])


def check(search: Search, desk: Desk, model: Model) -> None:
    assert model.keys == {desk.key}  # the provider was shown it
    for when in ("during", "after"):
        found = search.report(when)
        assert found["text"] == []
        assert f"{desk.workdir}/control" in found["control"]
        for kind in ("environ", "mem"):
            assert [place for place in found["control"] if place.startswith("/proc/") and place.endswith(kind)]
    assert b"POST /v1/" in search.seen
    assert search.control.encode() not in search.seen
    half = len(desk.key) // 2  # which may have been split between two packets
    assert desk.key[:half].encode() not in search.seen
    assert desk.key[half:].encode() not in search.seen


@pytest.mark.parametrize("agent", AGENTS)
def test_the_key_is_not_to_be_found(agent, desk, model):
    search = Search(desk, model, agent)
    search.run()
    check(search, desk, model)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_key_is_not_to_be_found_in_a_container(agent, docker_desk, model):
    search = Search(docker_desk, model, agent)
    search.run()
    check(search, docker_desk, model)


def test_a_key_that_a_command_tells_is_not_to_be_found(desk, model, home):
    kept = home / "kept"
    kept.mkdir(mode=0o700)
    (kept / "key").write_text(desk.key)
    (kept / "secrets.yaml").write_text(f"ANTHROPIC_API_KEY: {{command: [cat, {kept}/key]}}\n")
    owner = desk.workdir.stat()
    for path in (kept, *kept.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)
        path.chmod(0o700 if path.is_dir() else 0o600)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        del desk.variables[name]
    desk.variables["BELLJAR_SECRETS"] = str(kept / "secrets.yaml")
    search = Search(desk, model, "claude")
    search.run()
    check(search, desk, model)
