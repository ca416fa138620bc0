"""Agents: which one settings name, and what is said of one that cannot be run."""

import subprocess
from pathlib import Path

import pytest

from belljar.errors import BelljarError
from belljar.harness.agents.finding import find_agent
from belljar.harness.settings.model import TrialSettings
from belljar.harness.tasks.loading import find_task
from tests.harness.benchmarks import task_data, write_benchmark

AGENT = """\
name: mine
command: python3 "$HOME/agent.py" "$BELLJAR_PROMPT_FILE"
environment: {MODE: fast}
model_api: anthropic
timeout: 90
"""


@pytest.fixture
def task(tmp_path):
    return find_task("lru", write_benchmark(tmp_path / "tasks", task_data()))


def refusal(task, **settings) -> str:
    with pytest.raises(BelljarError) as raised:
        find_agent(TrialSettings(**settings), task)
    return str(raised.value)


class TestBuiltIn:
    def test_nop_does_nothing(self, task):
        agent = find_agent(TrialSettings(agent="nop"), task)
        assert subprocess.run(["/bin/sh", "-c", agent.command], capture_output=True, check=True).stdout == b""
        assert (agent.model_api, agent.shown) == (None, ())

    def test_oracle_sees_the_solution_read_only_and_runs_it(self, task):
        task.solution.mkdir()
        (task.solution / "solve.sh").write_text("echo solved\n")
        agent = find_agent(TrialSettings(agent="oracle"), task)
        [bind] = agent.shown
        assert (bind.source, bind.target, bind.writable) == (task.solution, Path("/belljar/solution"), False)
        command = agent.command.replace("/belljar/solution", str(task.solution)).replace("belljar-submit", "echo sent")
        assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout == b"solved\nsent\n"

    def test_oracle_submits_nothing_if_the_solution_fails(self, task):
        task.solution.mkdir()
        script = task.solution / "solve.sh"
        script.write_text("#!/bin/sh\nexit 3\n")
        script.chmod(0o755)
        agent = find_agent(TrialSettings(agent="oracle"), task)
        command = agent.command.replace("/belljar/solution", str(task.solution)).replace("belljar-submit", "echo sent")
        ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
        assert (ended.returncode, ended.stdout) == (3, b"")

    def test_oracle_without_a_solution_is_refused(self, task):
        assert "lru has no reference solution, since there is no " in refusal(task, agent="oracle")

    @pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
    def test_agents_to_come_are_refused_with_what_can_be_used(self, task, name):
        text = refusal(task, agent=name)
        assert f"the agent {name} is not supported yet" in text
        assert "--agent-command" in text
        assert "YAML file" in text

    def test_an_unknown_name_has_a_hint(self, task):
        assert 'there is no agent "orcale" (did you mean oracle?)' in refusal(task, agent="orcale")

    def test_no_agent_at_all_is_refused(self, task):
        assert "no agent is named; give --agent NAME" in refusal(task)


class TestCommands:
    def test_a_command_is_an_agent(self, task):
        agent = find_agent(TrialSettings(agent_command="make solve"), task)
        assert (agent.name, agent.command, agent.model_api) == ("command", "make solve", None)

    def test_the_model_and_the_variables_of_the_settings_are_in_its_environment(self, task):
        settings = TrialSettings(agent_command="true", model="large", agent_extra_env={"A": "1"})
        assert find_agent(settings, task).environment == {"BELLJAR_MODEL": "large", "A": "1"}


class TestFiles:
    def test_a_yaml_file_describes_an_agent(self, task, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text(AGENT)
        agent = find_agent(TrialSettings(agent=str(path), agent_extra_env={"MODE": "slow"}), task)
        assert (agent.name, agent.model_api, agent.timeout) == ("mine", "anthropic", 90)
        assert agent.command == 'python3 "$HOME/agent.py" "$BELLJAR_PROMPT_FILE"'
        assert agent.environment == {"MODE": "slow"}

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("name: mine\n", 'error: the agent has no "command"; add it'),
            ("name: mine\ncomand: x\n", "mine.yaml:2: error: comand: is not a known key (did you mean command?)"),
            ("name: a/b\ncommand: x\n", "error: name: is"),
            ("name: oracle\ncommand: x\n", "an agent that is built in"),
            ("name: mine\ncommand: ''\n", "error: command: is blank"),
            ("name: mine\ncommand: [x]\n", "error: command: is"),
            ("name: mine\ncommand: x\ncommand: y\n", "mine.yaml:3: error: command: stands twice"),
            ("name: mine\ncommand: x\ntimeout: -1\n", "write a number above 0"),
            ("name: mine\ncommand: x\ntimeout: soon\n", "which is text; write a number"),
            ("name: mine\ncommand: x\nmodel_api: antropic\n", "(did you mean anthropic?)"),
            ("name: mine\ncommand: x\nenvironment: [A]\n", "write a mapping of names to values"),
            ("name: mine\ncommand: x\nenvironment: {A-B: c}\n", "is not the name of a variable"),
            ("name: mine\ncommand: x\nenvironment: {A: 1}\n", "environment.A: is 1, which is a number; write text"),
            ("name: mine\ncommand: x\nenvironment: {SFORGE_TOKEN: x}\n", "the harness sets itself"),
            ("", "is empty"),
        ],
    )
    def test_what_is_wrong_with_it_is_named(self, task, tmp_path, text, problem):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        assert problem in refusal(task, agent=str(path))

    def test_a_file_that_is_not_there_is_refused(self, task):
        assert "missing.yaml does not exist" in refusal(task, agent="missing.yaml")
