"""A run: the trials of one or several tasks, side by side, with a judge of their own or one elsewhere."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError, reason
from belljar.harness.host import open_host
from belljar.harness.judge.adminsecret import load_admin_secret
from belljar.harness.judge.api import agent_app
from belljar.harness.judge.remote import connect_judge
from belljar.harness.judge.server import serve_on_socket
from belljar.harness.judge.sessions import Judge
from belljar.harness.kit import default_cache, open_kit
from belljar.harness.leftovers import open_state, run_directory, sweep
from belljar.harness.results.final import TrialResult
from belljar.harness.results.layout import LOG, SETTINGS, write_json
from belljar.harness.results.summary import RunSummary, write_summary
from belljar.harness.sandboxes import SandboxHost
from belljar.harness.trials.elsewhere import ElsewhereJudge, judge_base, judge_service, register
from belljar.harness.trials.grading import TrialGrader
from belljar.harness.trials.journal import Journal
from belljar.harness.trials.judging import OwnJudge, TrialJudge, session_limits
from belljar.harness.trials.places import TaskSandboxes
from belljar.harness.trials.policy import AGENT_KEY
from belljar.harness.trials.trial import TrialPlan, TrialTools, cancel_trial, run_trial

_THREADS: Final = 64


class RunError(BelljarError):
    """A run that cannot begin. Nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """A run."""

    directory: Path
    """Where its results go; its name is that of the run."""

    trials: Sequence[TrialPlan]
    backend: str
    max_workers: int
    """How many trials run at the same time."""

    state: Path
    on_change: Callable[[Journal], None] = field(default=lambda _: None)


async def run_trials(plan: RunPlan, stopping: asyncio.Event) -> RunSummary:
    """Run all trials, and return what they have come to. Raises BelljarError if none could begin.

    Once `stopping` is set, no trial begins any more, and those that run go on to their end. If the task is cancelled,
    they end as cancelled.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    if (url := plan.trials[0].settings.settings.judge_url) is not None:
        judge_service(url)  # which refuses what agents could not use
    state = open_state(plan.state)
    await asyncio.to_thread(sweep, state)
    at_once = min(plan.max_workers, len(plan.trials))
    async with AsyncExitStack() as stack:
        if (key := plan.trials[0].settings.settings.agent_api_key) is not None:
            os.environ[AGENT_KEY] = key  # for the broker, which is started with the gateway
        private = stack.enter_context(run_directory(state, plan.backend))
        host = await stack.enter_async_context(open_host(private, plan.backend, 2 * at_once))
        await host.check()
        _make_directory(plan.directory)
        directories = {trial.task.id: _begin(plan.directory, trial) for trial in plan.trials}
        journals = {name: Journal(name, path / LOG, plan.on_change) for name, path in directories.items()}
        tools = await stack.enter_async_context(_tools(plan, host, private, journals))
        turns = asyncio.Semaphore(at_once)

        async def in_turn(trial: TrialPlan) -> TrialResult:
            directory, journal = directories[trial.task.id], journals[trial.task.id]
            try:
                async with turns:
                    if not stopping.is_set():
                        return await run_trial(trial, tools, directory, journal)
            except asyncio.CancelledError:
                pass  # while it waited for its turn
            return cancel_trial(trial, tools, directory, journal)

        tasks = [asyncio.create_task(in_turn(trial)) for trial in plan.trials]
        try:
            results = await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            stopping.set()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks)
        except Exception:  # files that cannot be written, for example: the trials must not outlive what they use
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return write_summary(plan.directory, results)


def _make_directory(directory: Path) -> None:
    """Make the directory of a run. Raises RunError."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)  # the agent's output may have its token, and the graders' the tests
    except FileExistsError:
        raise RunError(f"{directory} is there already; choose another --run-id") from None
    except OSError as error:
        raise RunError(f"{directory} cannot be made ({reason(error)}); name another directory with --results") from None


def _begin(run: Path, trial: TrialPlan) -> Path:
    """Make the directory of a trial, with its settings."""
    directory = run / trial.task.id
    directory.mkdir()
    task = {"id": trial.task.id, "path": str(trial.task.path), "digest": trial.task.digest}
    write_json(directory / SETTINGS, {"task": task, "agent": trial.agent.name, "settings": trial.settings.to_data()})
    return directory


@asynccontextmanager
async def _tools(
    plan: RunPlan, host: SandboxHost, private: Path, journals: Mapping[str, Journal]
) -> AsyncIterator[TrialTools]:
    """Open what the trials share: the kit, and the judge with a socket for each of them."""
    settings = plan.trials[0].settings.settings
    sandboxes = TaskSandboxes(host, settings.setup_timeout)
    kit = await asyncio.to_thread(open_kit, default_cache(os.environ))
    if settings.judge_url is not None:
        async with AsyncExitStack() as stack:
            yield TrialTools(sandboxes, kit, partial(_register_elsewhere, plan, stack, settings.judge_url))
        return
    tasks = {trial.task.id: trial.task for trial in plan.trials}
    concurrency = min(plan.max_workers, len(plan.trials))
    judge = Judge(TrialGrader(sandboxes, journals, private).grade, tasks, private / "judge", concurrency=concurrency)
    async with judge, AsyncExitStack() as stack:
        app, sockets = agent_app(judge, private / "incoming"), dict[str, Path]()
        for number, task in enumerate(tasks):  # an agent that uses up all connections uses up its own
            sockets[task] = private / f"judge-{number}"
            await stack.enter_async_context(serve_on_socket(app, sockets[task]))

        async def register(trial: TrialPlan, directory: Path) -> TrialJudge:
            limits, task = session_limits(trial.settings.settings), trial.task.id
            return OwnJudge(judge, judge.register(task, plan.directory.name, limits, directory), sockets[task])

        yield TrialTools(sandboxes, kit, register)


async def _register_elsewhere(
    plan: RunPlan, stack: AsyncExitStack, url: str, trial: TrialPlan, directory: Path
) -> TrialJudge:
    """Open a session of a judge elsewhere, whose connections end with the run. Raises BelljarError."""
    service, secret = judge_service(url), load_admin_secret(plan.state)
    remote = await stack.enter_async_context(connect_judge(judge_base(url), secret))
    await register(remote, trial.task.id, plan.directory.name, session_limits(trial.settings.settings))
    return ElsewhereJudge(remote, service, directory)
