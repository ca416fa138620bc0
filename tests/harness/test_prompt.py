"""The prompt: what an agent learns about how it is graded."""

import pytest

from belljar.harness.agents.interface import AgentDefinition
from belljar.harness.settings.model import TrialSettings
from belljar.harness.tasks.loading import find_task
from belljar.harness.trials.prompt import build_prompt, written_duration
from tests.harness.benchmarks import task_data, write_benchmark

QUERY = "Implement lru.LRU.\n\n```\nas it is  \n```"


@pytest.fixture
def prompt(tmp_path):
    task = find_task("lru", write_benchmark(tmp_path, task_data(work__agent_query=QUERY)))

    def build(model_api=None, **settings):
        return build_prompt(
            task, TrialSettings(**settings), AgentDefinition(name="a", command="a", model_api=model_api)
        )

    return build


def test_the_text_of_the_task_comes_last_and_as_it_is(prompt):
    assert prompt().endswith(f"# Task\n\n{QUERY}\n")


def test_it_says_where_to_work_how_to_submit_what_and_for_how_long(prompt):
    text = prompt(timeout=5400)
    assert "You work in `/home/workspace/lru`" in text
    assert "- `belljar-submit` submits" in text
    assert "`belljar-submit --details`" in text
    assert "`belljar-submit --list`" in text
    assert "- `lru/`" in text
    assert "Left out: `tests`." in text
    assert "1 hour 30 minutes" in text


def test_without_internet_it_says_what_can_be_reached(prompt):
    assert "only the judge can be reached" in prompt(internet=False)
    assert "only the judge and the API of your model can be reached" in prompt("anthropic", internet=False)
    assert "There is no internet" not in prompt(internet=True)


def test_limits_are_told_if_there_are_any(prompt):
    assert "## Limits" not in prompt()
    text = prompt(max_submissions=3, submission_cooldown=120)
    assert "You can submit 3 times in all." in text
    assert "At least 2 minutes must lie between two submissions." in text


def test_automatic_evaluation_is_told_if_there_is_any(prompt):
    assert "Every 5 minutes your work is graded" in prompt(eval_interval=300)
    assert "in the background" not in prompt(eval_interval=0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (90, "90 seconds"),
        (90.5, "90.5 seconds"),
        (120, "2 minutes"),
        (3600, "1 hour"),
        (3660, "1 hour 1 minute"),
        (43200, "12 hours"),
    ],
)
def test_times_are_written_in_words(seconds, words):
    assert written_duration(seconds) == words
