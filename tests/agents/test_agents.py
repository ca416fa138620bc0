"""Real agents follow the recipes of docs/agents.md, and their models tell them to do something that is denied."""

import re
from typing import NamedTuple

import pytest

from belljar.policy.variables import PLACEHOLDER
from tests.agents.conftest import OTHER_SECRET
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
    assert universe.wire.contacts() == {Contact("tcp", addresses.PUBLIC, addresses.PROXY)}  # by the broker
    assert not universe.internet.witness.of_kind("question")
    assert model.keys == {desk.key}
    assert PLACEHOLDER in environment_and_denials
    assert desk.key not in environment_and_denials
    assert OTHER_SECRET not in environment_and_denials


def test_an_agent_does_its_work_in_a_container(agent, model, docker_desk, universe):
    once, _ = recipes(agent.title)
    assert "Done." in docker_desk.follow(once)
    assert docker_desk.notes.read_text() == "hello jar\n"
    assert {"evil.test", addresses.EVIL} <= docker_desk.denied()
    assert universe.wire.contacts() == {Contact("tcp", addresses.PUBLIC, addresses.PROXY)}
    assert model.keys == {docker_desk.key}
    assert PLACEHOLDER in model.results[-1]
    assert docker_desk.key not in model.results[-1]


def test_codex_works_with_the_model_that_it_prefers(model, desk):
    """It offers tools to that one in a way of its own."""
    once, _ = recipes("Codex")
    assert "Nothing." in desk.follow(once.replace(" --model other", ""))
    assert model.keys == {desk.key}


def test_opencode_works_with_another_provider(model, desk):
    model.script = AGENTS["opencode"].script
    once, _ = recipes("opencode")
    desk.follow(
        once.replace("--broker anthropic", "--broker openai").replace("anthropic/claude-sonnet-4-5", "openai/gpt-5")
    )
    assert [event["service"] for event in desk.events("service.used")][-1] == "openai"
    assert model.keys == {desk.key}


def test_a_session_is_continued_in_a_later_sandbox(agent, model, desk):
    _, function = recipes(agent.title)
    desk.follow(f"{function}\n{agent.first}")
    assert len(model.results) == len(agent.script)
    told, model.results = model.results, []
    desk.follow(f"{function}\n{agent.later}")
    assert model.results == told


def test_an_answer_that_takes_its_time_is_waited_for(agent, model, desk):
    model.pause = 0.5
    assert "Done." in desk.follow(recipes(agent.title)[0])
    assert desk.notes.read_text() == "hello jar\n"


def test_an_agent_asks_again_when_its_provider_has_too_much_to_do(agent, model, desk):
    model.refusals = ["529 Overloaded\r\nRetry-After: 1"]
    assert "Done." in desk.follow(recipes(agent.title)[0])
    assert not model.refusals
    assert 529 in [event["status"] for event in desk.events("service.used")]


def test_an_agent_is_told_what_its_provider_refuses(agent, model, desk):
    model.refusals = ["400 Bad Request"] * 1000
    assert "the stand-in says no" in desk.follow(f"{recipes(agent.title)[0].rstrip()} 2>&1 || true")


@pytest.mark.parametrize("title", ["anthropic", "openai"])
def test_an_agent_works_without_a_broker(title, model, desk):
    [recipe] = [recipe for recipe in recipes("Without a broker") if f"--preset {title}" in recipe]
    desk.variables["CODEX_API_KEY"] = desk.key
    shown = recipe.replace("belljar run", 'belljar run --ro-bind "$SSL_CERT_FILE" --env SSL_CERT_FILE')
    assert desk.follow(shown)
    assert model.keys == {desk.key}


def test_a_proxy_of_the_host_can_hold_the_key(model, desk, universe):
    model.script = AGENTS["claude"].script
    desk.variables["MODELS_API_KEY"] = desk.key
    recipe = recipes("Claude Code")[0]
    desk.follow(recipe.replace("anthropic", f"models=http://localhost:{addresses.HTTP}", 1))
    assert desk.notes.read_text() == "hello jar\n"
    assert model.keys == {desk.key}
    assert not universe.wire.contacts()
