"""`belljar eval` as a user meets it: the commands that need no sandbox."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from belljar.cli import main as main_module
from belljar.cli.main import cli
from belljar.errors import BelljarError
from belljar.harness.tasks.loading import load_tasks
from tests.harness.benchmarks import task_data, write_benchmark


def belljar(*arguments: str) -> Result:
    """Run a command as main() would: errors of ours become a message and exit code 125."""
    result = CliRunner().invoke(cli, arguments, prog_name="belljar")
    if isinstance(result.exception, BelljarError):
        result.exit_code = main_module.EXIT_FAILED
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


class TestList:
    def test_tasks_are_listed(self, tmp_path):
        write_benchmark(tmp_path, task_data(), task_data(task_id="web", internet=True))
        result = belljar("eval", "list", "--tasks", str(tmp_path))
        assert result.exit_code == 0
        lines = [line.split("  ") for line in result.stdout.splitlines()]
        assert [[cell.strip() for cell in line if cell.strip()] for line in lines] == [
            ["ID", "NAME", "BASE IMAGE", "PARSER", "INTERNET"],
            ["lru", "LRU cache", "python", "pytest_v", "no"],
            ["web", "LRU cache", "python", "pytest_v", "yes"],
        ]

    def test_as_json(self, tmp_path):
        write_benchmark(tmp_path, task_data())
        [task] = json.loads(belljar("eval", "list", "--tasks", str(tmp_path), "--json").stdout)
        assert (task["id"], task["internet"], task["path"]) == ("lru", False, str(tmp_path / "lru.json"))

    def test_a_directory_is_found_by_a_variable_of_sforge_and_a_line_says_so(self, tmp_path, monkeypatch):
        write_benchmark(tmp_path, task_data())
        monkeypatch.setenv("SFORGE_TASKS_DIR", str(tmp_path))
        result = belljar("eval", "list")
        assert "lru" in result.stdout
        assert result.stderr == "note: SFORGE_TASKS_DIR is set, and counts as BELLJAR_TASKS_DIR\n"

    def test_games_are_left_out_and_a_line_says_so(self, tmp_path):
        write_benchmark(tmp_path, task_data(), task_data(task_id="chess", game_mode=True))
        result = belljar("eval", "list", "--tasks", str(tmp_path))
        assert (result.exit_code, "chess" in result.stdout) == (0, False)
        assert "note: left out: " in result.stderr
        assert "games are not supported yet" in result.stderr

    def test_with_a_broken_task_nothing_is_listed(self, tmp_path):
        write_benchmark(tmp_path, task_data(), task_data(task_id="broken", internet="no"))
        result = belljar("eval", "list", "--tasks", str(tmp_path))
        assert (result.exit_code, result.stdout) == (125, "")
        assert "error: internet:" in str(result.exception)

    def test_a_directory_that_is_not_there_is_an_error(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        result = belljar("eval", "list")
        assert result.exit_code == 125
        assert "tasks does not exist; name the directory of tasks with --tasks" in str(result.exception)


class TestInit:
    def test_it_writes_a_benchmark_that_works(self, tmp_path):
        result = belljar("eval", "init", str(tmp_path / "mine"))
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) == 3
        assert "--task hello --agent oracle" in result.stderr
        [task] = load_tasks(tmp_path / "mine")
        assert (task.id, task.benchmark.name, task.internet) == ("hello", "my-benchmark", False)
        assert (task.solution / "solve.sh").is_file()

    @pytest.mark.parametrize("name", ["full", "full/a-file"])
    def test_it_overwrites_nothing(self, tmp_path, name):
        (tmp_path / "full").mkdir()
        (tmp_path / "full/a-file").write_text("mine")
        result = belljar("eval", "init", str(tmp_path / name))
        assert result.exit_code == 125
        assert (tmp_path / "full/a-file").read_text() == "mine"
        assert [path.name for path in (tmp_path / "full").iterdir()] == ["a-file"]


def test_the_agents_are_listed():
    result = belljar("eval", "agents")
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "AGENT",
        "nop",
        "oracle",
        "claude-code",
        "codex",
        "opencode",
    ]
    assert result.stdout.count("not supported yet") == 3


def test_an_unknown_command_is_a_usage_error():
    done = subprocess.run(
        [sys.executable, "-m", "belljar", "eval", "lsit"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 125
    assert "do you mean list?" in done.stderr
