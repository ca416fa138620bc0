"""The prompt: what the agent reads before the text of the task."""

from collections.abc import Iterator

from belljar.harness.agents.interface import AgentDefinition
from belljar.harness.settings.model import TrialSettings
from belljar.harness.tasks.model import EvalTask


def build_prompt(task: EvalTask, settings: TrialSettings, agent: AgentDefinition) -> str:
    """Return the prompt of a trial, in Markdown. The text of the task comes last, as it is."""
    sections = [
        _introduction(task, settings),
        _how_to_submit(),
        _what_is_submitted(task, settings),
        *_limits(settings),
        *_network(settings, agent),
        _strategy(),
        _scoring(),
        f"# Task\n\n{task.work.agent_query}",
    ]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def _introduction(task: EvalTask, settings: TrialSettings) -> str:
    return f"""\
# Iterative evaluation

You work in `{task.cwd}`. Your work is graded by hidden tests in another sandbox, as often as you submit it, so you can
measure, improve and submit again. You have {written_duration(settings.timeout)} in all: submit in time."""


def _how_to_submit() -> str:
    return """\
## Submit

- `belljar-submit` submits your work, waits, and prints the score. (`sforge-submit` is the same command.)
- `belljar-submit --details` prints every check besides.
- `belljar-submit --list` prints the results so far, and submits nothing."""


def _what_is_submitted(task: EvalTask, settings: TrialSettings) -> str:
    paths = "\n".join(f"- `{_path(path)}`" for path in task.submit_paths)
    text = f"## What is submitted\n\nOf `{task.cwd}`:\n\n{paths}"
    if task.submit_exclude:
        excluded = ", ".join(f"`{entry}`" for entry in task.submit_exclude)
        text += f"\n\nLeft out: {excluded}."
    text += "\n\nFiles elsewhere are not seen by the tests."
    if settings.eval_interval:
        text += (
            f" Every {written_duration(settings.eval_interval)} your work is graded in the background as well, "
            "without using up a submission: keep it in a state that runs."
        )
    return text


def _path(path: str) -> str:
    return "everything" if path in (".", "./") else path


def _limits(settings: TrialSettings) -> Iterator[str]:
    lines = []
    if settings.max_submissions is not None:
        lines.append(f"- You can submit {_times(settings.max_submissions)} in all.")
    if settings.submission_cooldown:
        lines.append(f"- At least {written_duration(settings.submission_cooldown)} must lie between two submissions.")
    if lines:
        yield "## Limits\n\n" + "\n".join(lines)


def _network(settings: TrialSettings, agent: AgentDefinition) -> Iterator[str]:
    if settings.internet:
        return
    reachable = "the judge and the API of your model" if agent.model_api else "the judge"
    yield f"""\
## Network

There is no internet here: only {reachable} can be reached, and every other connection is refused at once. Do not try to
download anything. What the task needs is installed."""


def _strategy() -> str:
    return """\
## Strategy

- Read the task and the files first.
- Submit something simple that works early, so that you have a score to improve on.
- Change one thing at a time, and submit to learn what it did.
- Test your work yourself before you submit it.
- Go on while there is time and the score can be better."""


def _scoring() -> str:
    return """\
## Scoring

Your best submission counts. One that fails costs nothing but the submission.

Solve the task itself: do not look for the hidden tests, and do not try to influence how your work is graded."""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def written_duration(seconds: float) -> str:
    """Return a length of time in words: `90 seconds`, `5 minutes`, `1 hour 30 minutes`."""
    if seconds < 120 or seconds % 60:
        return _amount(seconds, "second")
    hours, minutes = divmod(round(seconds / 60), 60)
    parts = [(hours, "hour"), (minutes, "minute")] if hours else [(minutes, "minute")]
    return " ".join(_amount(count, unit) for count, unit in parts if count)


def _amount(count: float, unit: str) -> str:
    return f"{count:.15g} {unit}{'' if count == 1 else 's'}"
