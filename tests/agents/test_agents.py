"""Real agents follow the recipes of docs/agents.md, and their models tell them to do something that is denied."""

import re
from typing import NamedTuple

import pytest

from tests.agents.conftest import OTHER_SECRET, PLACEHOLDER
from tests.agents.model import ToolCall
from tests.backends.local.conftest import ROOT
from tests.universe import Contact, addresses

ESCAPE = f"env; curl -sS --max-time 10 https://evil.test/; curl -sS --max-time 10 http://{addresses.EVIL}/"
PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-hello world\n+hello jar\n*** End Patch\n"


class Agent(NamedTuple):
    title: str
    """Of its section in the documentation."""

    first: str
    later: str
    """How it is asked for something, and in a later sandbox to go on."""

    script: list[ToolCall]
    """How it edits `notes.txt`, and then runs `ESCAPE`."""


AGENTS = {
    "claude": Agent(
        "Claude Code",
        "claude -p x",
        "claude -p x --continue",
        [
            ToolCall("Read", {"file_path": "notes.txt"}),
            ToolCall("Edit", {"file_path": "notes.txt", "old_string": "world", "new_string": "jar"}),
            ToolCall("Bash", {"command": ESCAPE, "description": "Escape"}),
        ],
    ),
    "codex": Agent(
        "Codex",
        "codex exec --skip-git-repo-check x",
        "codex exec resume --last --skip-git-repo-check x",
        [
            ToolCall("exec_command", {"cmd": f"apply_patch <<'END'\n{PATCH}END"}),
            ToolCall("exec_command", {"cmd": ESCAPE}),
        ],
    ),
    "opencode": Agent(
        "opencode",
        "opencode run --model anthropic/claude-sonnet-4-5 x",
        "opencode run --model anthropic/claude-sonnet-4-5 --continue x",
        [
            ToolCall("read", {"filePath": "notes.txt"}),
            ToolCall("edit", {"filePath": "notes.txt", "oldString": "world", "newString": "jar"}),
            ToolCall("bash", {"command": ESCAPE, "description": "Escape"}),
        ],
    ),
}


@pytest.fixture(params=AGENTS)
def agent(request, model):
    chosen = AGENTS[request.param]
    model.script = chosen.script
    return chosen


def recipes(title: str) -> list[str]:
    """Return what a section of the documentation has to be typed."""
    _, _, rest = (ROOT / "docs" / "agents.md").read_text().partition(f"\n## {title}\n")
    found = re.findall(r"^```sh\n(.*?)^```", rest.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    # Which tools codex offers depends on the model; to one that it does not know, it offers plain ones.
    return [re.sub(r"codex( exec)? --dangerously", r"codex\1 --model other --dangerously", recipe) for recipe in found]


def test_an_agent_does_its_work_and_reaches_nothing_else(agent, model, desk, universe):
    once, _ = recipes(agent.title)
    assert "Done." in desk.follow(once)
    assert desk.notes.read_text() == "hello jar\n"
    environment_and_denials = model.results[-1]
    assert "Could not resolve host: evil.test" in environment_and_denials
    assert "do not retry" in environment_and_denials
    assert {"evil.test", addresses.EVIL} <= desk.denied()
    assert universe.wire.contacts() == {
        Contact("tcp", addresses.PUBLIC, addresses.HTTPS),
        Contact("udp", addresses.RESOLVER, addresses.DNS),
    }
    questions = universe.internet.witness.of_kind("question")
    assert {seen.what.split()[0] for seen in questions} <= {"api.anthropic.com", "api.openai.com"}
    assert model.keys == {PLACEHOLDER}
    assert PLACEHOLDER in environment_and_denials
    assert OTHER_SECRET not in environment_and_denials


def test_a_session_is_continued_in_a_later_sandbox(agent, model, desk):
    _, function = recipes(agent.title)
    desk.follow(f"{function}\n{agent.first}")
    assert len(model.results) == len(agent.script)
    told, model.results = model.results, []
    desk.follow(f"{function}\n{agent.later}")
    assert model.results == told


def test_a_proxy_of_the_host_can_hold_the_key(model, desk, universe):
    [through_proxy] = recipes("Keys")
    model.script = AGENTS["claude"].script
    desk.follow(through_proxy.replace("4000", str(addresses.HTTP)))  # where the universe's host has something to say
    assert desk.notes.read_text() == "hello jar\n"
    assert model.keys == {"placeholder"}
    assert not universe.wire.contacts()
