"""docs/eval.md: its commands are run as printed, and its tables have all that exists and nothing else."""

import dataclasses
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belljar.harness.agents.builtin import BUILTIN
from belljar.harness.agents.custom import _KEYS as AGENT_KEYS
from belljar.harness.agents.custom import load_agent
from belljar.harness.agents.interface import MODEL_VARIABLE
from belljar.harness.checkrows import CHECKS
from belljar.harness.judge.parsers import jsonresults
from belljar.harness.judge.report import EvalReport
from belljar.harness.results import layout
from belljar.harness.results.final import TrialResult
from belljar.harness.results.summary import EXIT_CANCELLED, EXIT_ISOLATION, EXIT_SCORED, EXIT_UNSCORED
from belljar.harness.settings import variables
from belljar.harness.settings.model import TrialSettings
from belljar.harness.settings.resolve import _SETTINGS, FLAGS
from belljar.harness.tasks import benchmark, task_file
from belljar.harness.tasks.model import Direction, Parser, Selection
from belljar.harness.tasks.rescale import PARAMETERS
from belljar.harness.trials.outcome import TrialOutcome
from belljar.harness.trials.policy import agent_variables
from tests.docs.test_docs import COMMANDS, DOCS, ROOT, section
from tests.harness.stages import stage, task
from tests.universe import addresses

PAGE = "eval.md"
PATIENCE = 120
NOT_RUN = {
    "pip install": "needs a package index",
    "belljar eval serve": "tests/harness/test_judging.py serves",
    "belljar eval run --task hello --agent oracle --judge-url": "tests/harness/test_runs.py has a judge elsewhere",
    "belljar eval run --backend docker": "needs Docker and the image of the task",
}
"""By how a command begins."""

SFORGE_FLAGS = [
    "--task",
    "--agent",
    "--experiment",
    "--model",
    "--timeout",
    "--eval-interval",
    "--run-id",
    "--judge-url",
    "--backend",
    "--stagger",
    "--max-submissions",
    "--submission-cooldown",
    "--work-cpu-limit",
    "--work-mem-limit",
    "--judge-cpu-limit",
    "--judge-mem-limit",
    "--disable-stop-hook",
    "--disable-auto-eval",
    "--disable-auto-resume",
    "--disable-internet",
    "--enable-internet",
    "--max-workers",
    "--host",
    "--port",
    "--target",
    "--all",
    "--registry",
    "--archive",
    "--json",
    "--log-dir",
    "--tasks-dir",
    "--silent",
]
SFORGE_COMMANDS = ["run", "serve", "proxy", "build", "pull", "push", "eval", "fetch-tasks", "list", "visualizer"]


def names(text: str) -> list[str]:
    """Return every name in the first column of tables, several of which may share a row."""
    cells = re.findall(r"^\| (`.+?`(?:, `.+?`)*) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def blocks(*languages: str) -> list[str]:
    """Return the code blocks of some languages."""
    return [
        code for language, code in re.findall(r"```(\w+)\n(.*?)```", DOCS[PAGE], re.DOTALL) if language in languages
    ]


def shown() -> Iterator[tuple[str, list[str]]]:
    """Yield every command of the page in its order, with the output that is printed below it."""
    for language, block in re.findall(r"```(\w+)\n(.*?)```", DOCS[PAGE], re.DOTALL):
        if language == "console":
            for part in filter(None, re.split(r"^\$ ", block, flags=re.MULTILINE)):
                command, *output = part.splitlines()
                yield command, output
        elif language == "sh":
            yield from ((line, []) for line in block.splitlines())


@pytest.fixture
def terminal(universe):
    """Runs commands as a shell does, in a directory beside a clone, on a machine whose internet is a stand-in."""
    place = Path(tempfile.mkdtemp(prefix="belljar-eval-", dir="/var/tmp"))
    (place / "examples").symlink_to(ROOT / "examples")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(place),
        "PYTHONPATH": str(ROOT / "src"),
        "BELLJAR_RESOLVER": addresses.RESOLVER,
    }

    def run(command: str) -> Any:
        return universe.gateway.call(
            subprocess.run,
            ["bash", "-c", command],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    yield run
    shutil.rmtree(place)


def _without_times(line: str) -> str:
    return re.sub(r" +", " ", re.sub(r"\b\d+s\b", "1s", line)).strip()


def test_every_command_does_what_the_page_says(terminal, universe):
    universe.wire.contacts()
    commands = [each for each in shown() if not each[0].startswith(tuple(NOT_RUN))]
    assert len(commands) >= 7
    for command, output in commands:
        done = terminal(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if output:
            assert list(map(_without_times, done.stdout.splitlines())) == list(map(_without_times, output)), command
    assert universe.wire.contacts() == set()


def test_what_is_not_run_is_still_on_the_page():
    assert [start for start in NOT_RUN if not any(command.startswith(start) for command, _ in shown())] == []


@pytest.mark.parametrize(
    "command",
    [
        *(command for command, _ in shown() if command.startswith("belljar eval")),
        *re.findall(r"^(?:\w+=\S+ )?(belljar eval .+)$", DOCS["network-isolation.md"], re.MULTILINE),
    ],
)
def test_each_command_is_one_of_belljars(command):
    words = shlex.split(command, comments=True)
    COMMANDS[" ".join(words[:3])].make_context("belljar", words[3:]).close()


def test_the_agent_of_the_page_is_one(tmp_path):
    [text] = blocks("yaml")
    (tmp_path / "claude.yaml").write_text(text)
    assert load_agent(tmp_path / "claude.yaml").model_api == "anthropic"


def test_every_key_of_a_benchmark_is_documented_and_nothing_else():
    images = [f"base_images.NAME.{key}" for key in benchmark._IMAGE_KEYS.known]
    assert names(section(PAGE, "BENCHMARK.yaml")) == [*benchmark._KEYS.known, *images]


def test_every_key_of_a_task_is_documented_and_nothing_else():
    assert sorted(names(section(PAGE, "Task"))) == sorted(task_file._TASK_KEYS.known)
    assert sorted(names(section(PAGE, "Work"))) == sorted(f"work.{key}" for key in task_file._WORK_KEYS.known)
    documented = [name for name in names(section(PAGE, "Judge")) if name.startswith("judge.")]
    assert sorted(documented) == sorted(f"judge.{key}" for key in task_file._JUDGE_KEYS.known)


@pytest.mark.parametrize("values", [Parser, Direction, Selection])
def test_every_value_of_a_task_is_documented(values):
    assert [value for value in values if f"`{value}`" not in section(PAGE, "Judge")] == []


def test_every_formula_is_documented_with_its_parameters_and_nothing_else():
    text = section(PAGE, "Judge")
    assert sorted(name for name in names(text) if not name.startswith("judge.")) == sorted(PARAMETERS)
    assert [name for needed in PARAMETERS.values() for name in needed if f"`{name}`" not in text] == []


def test_every_parser_is_documented_and_nothing_else():
    assert names(section(PAGE, "The judge").partition("### ")[0]) == list(Parser)
    assert f"`{jsonresults._START}`" in section(PAGE, "The judge")


def test_every_outcome_is_documented_and_nothing_else():
    text = section(PAGE, "Outcomes")
    assert sorted(names(text)) == sorted(TrialOutcome)
    assert [outcome for outcome in TrialOutcome if outcome.is_scored] == names(text)[:3]


def test_every_exit_code_is_documented_in_the_order_in_which_they_apply():
    codes = re.findall(r"^\| (\d+) \|", section(PAGE, "Outcomes"), re.MULTILINE)
    assert list(map(int, codes)) == [125, EXIT_CANCELLED, EXIT_ISOLATION, EXIT_UNSCORED, EXIT_SCORED]


def test_every_setting_is_documented_with_its_flag_and_its_variable_and_nothing_else():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*\|.*) \| .* \|$", section(PAGE, "Settings"), re.MULTILINE))
    assert list(rows) == [field.name for field in dataclasses.fields(TrialSettings)]
    for name, cells in rows.items():
        flags, variable = cells.split("|")
        setting = _SETTINGS.get(name)
        suffix = setting.suffix if setting else None
        assert variable.strip() == (f"`BELLJAR_{suffix}`" if suffix else ""), name
        expected = [flag for flag in FLAGS if flag == name or (name == "internet" and flag.endswith("_internet"))]
        assert re.findall(r"--[a-z-]+", flags) == [f"--{flag.replace('_', '-')}" for flag in expected], name


def test_every_variable_of_sforge_is_documented_with_what_is_done_with_it_and_nothing_else():
    rows = re.findall(r"^\| (`SFORGE_.+`) \| (.+) \|$", section(PAGE, "Coming from SForge"), re.MULTILINE)
    found = {name: answer for cell, answer in rows for name in re.findall(r"`SFORGE_([A-Z0-9_]+)`", cell)}
    done = {
        **dict.fromkeys(variables.SUPPORTED, "Counts"),
        **dict.fromkeys(variables._WITHOUT_EFFECT, "No effect"),
        **dict.fromkeys(variables._REFUSED, "An error"),
    }
    assert {name: answer.partition(":")[0].partition(",")[0].rstrip(".") for name, answer in found.items()} == done


def test_every_flag_and_command_of_sforge_is_documented():
    text = section(PAGE, "Coming from SForge")
    assert [flag for flag in SFORGE_FLAGS if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text)] == []
    assert [name for name in SFORGE_COMMANDS if f"`sforge {name}" not in text] == []


def test_every_agent_that_is_built_in_is_documented_with_whether_it_is_supported():
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section(PAGE, "Agents"), re.MULTILINE)
    found = {name: answer for cell, answer in rows for name in re.findall(r"`([^`]+)`", cell) if name in BUILTIN}
    assert {name: answer.startswith("Not supported") for name, answer in found.items()} == {
        name: not agent.supported for name, agent in BUILTIN.items()
    }


def test_every_key_and_variable_of_an_agent_is_documented():
    found = names(section(PAGE, "Agents"))
    variables_inside = [name for name in agent_variables(task(stage()), "", runs_images=True) if name != "PATH"]
    assert sorted({*found} - {*BUILTIN}) == sorted([*AGENT_KEYS.known, *variables_inside, MODEL_VARIABLE])


def test_every_file_of_a_trial_is_documented_and_nothing_else():
    constants = [value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)]
    assert sorted(names(section(PAGE, "Files").partition("### ")[0])) == sorted(constants)


def test_every_field_of_results_and_reports_is_documented_and_nothing_else():
    for title, kind in (("final_result.json", TrialResult), ("report.json", EvalReport)):
        fields = [field.name for field in dataclasses.fields(kind)]
        assert sorted({*names(section(PAGE, title).partition("\n## ")[0])} - {"test_details"}) == sorted(fields)


def test_every_check_is_documented_and_nothing_else():
    found = [name for name in names(section("cli.md", "belljar eval check")) if not name.startswith("--")]
    assert found == list(CHECKS)


def test_the_page_of_a_machine_without_a_clone_needs_none():
    """What comes before the clone is mentioned works with what `pip install` brings."""
    before = DOCS[PAGE].partition("In a clone of the repository")[0]
    assert "belljar eval run" in before
    assert "examples/" not in before
