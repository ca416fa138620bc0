"""`belljar eval run`: agents at work on tasks, and what they score."""

import asyncio
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from belljar.cli.eval.directories import results_directory, tasks_directory, tasks_option
from belljar.cli.eval.progress import LiveProgress, PlainProgress
from belljar.cli.eval.results import show_run
from belljar.cli.tables import print_table
from belljar.errors import BelljarError, extra, printable
from belljar.gateway.settings import read_settings, unused_proxy
from belljar.harness.agents.finding import find_agent
from belljar.harness.agents.interface import AgentDefinition
from belljar.harness.leftovers import default_eval_state
from belljar.harness.results.summary import EXIT_CANCELLED, RunSummary
from belljar.harness.settings.model import ResolvedSettings
from belljar.harness.settings.resolve import FLAGS, resolve
from belljar.harness.tasks.loading import find_task
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.policy import AGENT_KEY, model_service
from belljar.policy.services import service_from_data

_RUN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", re.ASCII)


@click.command("run")
@click.option("--task", "names", multiple=True, required=True, metavar="ID|FILE", help="A task. Repeatable.")
@tasks_option
@click.option("--agent", metavar="NAME|FILE", help="An agent that is built in, or the YAML file of another.")
@click.option("--agent-command", metavar="COMMAND", help="Run this shell command in place of an agent.")
@click.option("--model", metavar="NAME", help="Tell the agent which model to use.")
@click.option("--backend", metavar="[local|docker|podman]", help="What makes the sandboxes. Default: local.")
@click.option("--disable-internet", is_flag=True, help="Let the agent reach the judge and its model's API only.")
@click.option("--enable-internet", is_flag=True, help="Let the agent reach the internet, whatever the task says.")
@click.option("--judge-url", metavar="URL", help="Submit to this judge server, started by eval serve.")
@click.option("--timeout", metavar="TIME", help="How long the agent may work. Default: 1h.")
@click.option("--setup-timeout", metavar="TIME", help="How long a task's setup may take. Default: 10m.")
@click.option("--eval-interval", metavar="TIME", help="Time between automatic evaluations; 0 for none. Default: 5m.")
@click.option("--max-submissions", metavar="N", help="How often the agent may submit. Default: no limit.")
@click.option("--submission-cooldown", metavar="TIME", help="Least time between submissions of the agent. Default: 0.")
@click.option("--work-cpu-limit", metavar="N", help="Processors of the work sandbox.")
@click.option("--work-mem-limit", metavar="SIZE", help="Memory of the work sandbox, such as 8g.")
@click.option("--judge-cpu-limit", metavar="N", help="Processors of a judge sandbox.")
@click.option("--judge-mem-limit", metavar="SIZE", help="Memory of a judge sandbox.")
@click.option("--max-workers", type=click.IntRange(1, 1000), help="Trials at a time. Default: one per processor.")
@click.option("--run-id", metavar="NAME", help="Name of the run. Default: made of the time.")
@click.option("--results", metavar="DIR", type=click.Path(), help="Where results go, as RUN/TASK/. Default: runs.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=default_eval_state,
    help="Directory for what a run needs while it lives. Default: ~/.local/state/belljar-eval.",
)
@click.option("--dry-run", is_flag=True, help="Print the settings and where they come from, and run nothing.")
def run(  # noqa: PLR0913, PLR0917 - click passes one argument for each option
    names: tuple[str, ...],
    tasks: str | None,
    max_workers: int | None,
    run_id: str | None,
    results: str | None,
    state: Path,
    dry_run: bool,
    **flags: Any,
) -> None:
    """Run an agent on tasks, in sealed sandboxes, and grade its work in others.

    \b
    belljar eval run --task examples/benchmark/word-count.json --agent oracle

    Exit code: 0 if every trial has a score, 3 if not, 4 if a sandbox was not sealed, 130 if cancelled, 125 on errors.
    """
    found = _find_tasks(names, tasks)
    given = {name: flags[name] for name in FLAGS if flags.get(name)}
    settings = [resolve(given, os.environ, task) for task in found]
    agents = [find_agent(each.settings, task) for each, task in zip(settings, found, strict=True)]
    settings = [
        each.with_agent_timeout(agent.name, agent.timeout) for each, agent in zip(settings, agents, strict=True)
    ]
    for notice in dict.fromkeys(notice for each in settings for notice in each.notices):
        click.echo(f"note: {notice}", err=True)
    if any(each.settings.internet for each in settings) and (
        unused := unused_proxy(os.environ, read_settings(os.environ))
    ):
        click.echo(f"note: {unused}", err=True)
    _check_keys(agents, settings)
    if dry_run:
        _show_settings(found, settings)
        return
    with extra("eval"):
        from belljar.harness.run import RunPlan, run_trials  # noqa: PLC0415 - `--help` needs none of it
        from belljar.harness.trials.trial import TrialPlan  # noqa: PLC0415

    directory = results_directory(results) / _run_name(run_id)
    progress = LiveProgress(sys.stderr) if sys.stderr.isatty() else PlainProgress(sys.stderr)
    plan = RunPlan(
        directory=directory.absolute(),
        trials=[TrialPlan(*each) for each in zip(found, agents, settings, strict=True)],
        backend=settings[0].settings.backend,
        max_workers=max_workers or os.cpu_count() or 1,
        state=state,
        on_change=progress,
    )
    try:
        summary = asyncio.run(_until_interrupted(plan, run_trials, progress.notify))
    except asyncio.CancelledError:  # before its trials began, or after they ended
        summary = None
    finally:
        progress.close()
    if summary is None:
        click.echo("belljar: the run was cancelled while no trial ran", err=True)
        sys.exit(EXIT_CANCELLED)
    show_run(summary, directory)
    sys.exit(summary.exit_code)


async def _until_interrupted(plan: Any, run_trials: Any, notify: Callable[[str], None]) -> RunSummary:
    """Run; the first Ctrl-C lets what runs go on to its end, the second ends it."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    running = asyncio.create_task(run_trials(plan, stopping))

    def interrupt() -> None:
        if stopping.is_set():
            end()
        else:
            stopping.set()
            notify("belljar: no further trial begins; press Ctrl-C again to end those that run")

    def end() -> None:
        if not running.cancelling():  # a second one would keep the trials from removing their sandboxes
            notify("belljar: ending the trials that run, and removing their sandboxes")
            running.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, end)
    summary: RunSummary = await running
    return summary


def _find_tasks(names: Sequence[str], directory: str | None) -> list[EvalTask]:
    """Return the tasks that were named. Raises BelljarError."""
    place = tasks_directory(directory)
    found = [find_task(name, place) for name in names]
    seen = set[str]()
    for task in found:
        if task.id in seen:
            raise BelljarError(f"the task {task.id} is named twice; name it once")
        seen.add(task.id)
    return found


def _check_keys(agents: Sequence[AgentDefinition], settings: Sequence[ResolvedSettings]) -> None:
    """Make sure that the broker has a key for each API: no run whose first request fails. Raises BelljarError."""
    services = [
        service_from_data(agent.model_api, model_service(agent.model_api, each.settings))
        for agent, each in zip(agents, settings, strict=True)
        if agent.model_api is not None
    ]
    if services:
        from belljar.broker.requirements import check_brokers  # noqa: PLC0415 - most runs have none

        check_brokers(services, {**os.environ, AGENT_KEY: "given"})


def _run_name(given: str | None) -> str:
    if given is None:
        return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    if not _RUN_NAME.fullmatch(given):
        raise BelljarError(f"{given!a} cannot be a run's name; use letters, digits, dots, hyphens and underscores")
    return given


def _show_settings(tasks: Sequence[EvalTask], settings: Sequence[ResolvedSettings]) -> None:
    for number, (task, resolved) in enumerate(zip(tasks, settings, strict=True)):
        click.echo(("\n" if number else "") + click.style(f"{task.id} ({task.path})", bold=True))
        rows = [(each.name, printable(each.value), printable(str(each.source))) for each in resolved.shown()]
        print_table(("SETTING", "VALUE", "FROM"), rows)
