"""Check a task before it costs anything: what an evaluation of it would rely on, tried on a real backend.

The sandboxes are set up without a network and their files are compared; then two trials run: one whose agent submits
the work as it finds it, and one of the reference solution. Each submits by `belljar-submit`, and the harness submits
the final state as always, so each work is graded twice, in two sandboxes.
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from belljar.errors import BelljarError
from belljar.harness.agents.builtin import BUILTIN
from belljar.harness.agents.interface import AgentDefinition
from belljar.harness.checkrows import (
    CheckRow,
    CheckState,
    check_hidden,
    check_repeatable,
    check_setup,
    check_solution,
    check_untouched,
    no_solution,
    unchecked_after,
)
from belljar.harness.exposure import FileListing, ListingError, find_exposed, list_files
from belljar.harness.gradings import TrialGradings, read_gradings
from belljar.harness.host import open_host
from belljar.harness.leftovers import open_state, run_directory, sweep
from belljar.harness.run import RunPlan, run_trials
from belljar.harness.settings.model import ResolvedSettings
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.journal import Journal
from belljar.harness.trials.outcome import TrialOutcome
from belljar.harness.trials.places import SetupError, TaskSandboxes
from belljar.harness.trials.trial import TrialPlan
from belljar.sandbox.spec import ResourceLimits, SandboxSpec

_MACHINE: Final = (
    TrialOutcome.ENVIRONMENT_ERROR,
    TrialOutcome.ISOLATION_ERROR,
    TrialOutcome.CANCELLED,
    TrialOutcome.LOST,
)
"""Outcomes that say nothing about a task."""

_TMP: Final = PurePosixPath("/tmp")  # noqa: S108 - inside the sandbox
_CORRECT_SETUP: Final = "correct setup_cmds; what they need has to be in the base image"


class CheckError(BelljarError):
    """A task could not be checked, for reasons that are not its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """What to check, and with what."""

    task: EvalTask
    settings: ResolvedSettings
    state: Path
    on_change: Callable[[Journal], None]


async def check_task(plan: CheckPlan) -> list[CheckRow]:
    """Check a task whose file is valid, from its setup on. Raises BelljarError."""
    with tempfile.TemporaryDirectory(prefix="belljar-check-") as place:
        rows = await _check_sandboxes(plan, Path(place))
        if rows[0].state is CheckState.BROKEN:
            return [*rows, *unchecked_after("setup")]
        untouched = await _run(plan, Path(place) / "untouched", _untouched())
        rows.append(check_untouched(plan.task, untouched))
        if not (plan.task.solution / "solve.sh").is_file():
            return [*rows, no_solution(plan.task), check_repeatable([untouched])]
        solved = await _run(plan, Path(place) / "solution", BUILTIN["oracle"].make(plan.task))
        return [*rows, check_solution(plan.task, solved), check_repeatable([untouched, solved])]


def _untouched() -> AgentDefinition:
    """Return an agent that submits what it finds. Where there is nothing to submit, the final state is graded alone."""
    return AgentDefinition(name="nop", command="belljar-submit || true")


async def _check_sandboxes(plan: CheckPlan, place: Path) -> list[CheckRow]:
    """Set both sandboxes up without a network, and compare their files."""
    task, settings, state = plan.task, plan.settings.settings, open_state(plan.state)
    listings, problem, denied = list[FileListing](), "", set[str]()
    await asyncio.to_thread(sweep, state)
    async with AsyncExitStack() as stack:
        private = stack.enter_context(run_directory(state, settings.backend))
        host = await stack.enter_async_context(open_host(private, settings.backend, 2))
        sandboxes = TaskSandboxes(host, settings.setup_timeout)
        for purpose, stage, directories in (("work", task.work, (task.cwd, _TMP)), ("judge", task.judge, (task.cwd,))):
            spec = SandboxSpec(limits=ResourceLimits(stage.cpus, stage.memory_bytes))
            opening = sandboxes.open(task, stage, spec, purpose=purpose, log=place / f"{purpose}.ndjson")
            try:
                async with opening as sandbox:
                    denied |= {f"{each['destination']} ({purpose})" for each in sandbox.evidence.to_data()["denied"]}
                    listings.append(await list_files(sandbox, directories, settings.setup_timeout))
            except SetupError as error:
                return [CheckRow("setup", CheckState.BROKEN, str(error), _CORRECT_SETUP)]
            except ListingError as error:
                problem = f"{purpose}: {error}"
    rows = [check_setup(sorted(denied))]
    if problem:
        return [*rows, CheckRow("hidden", CheckState.UNCHECKED, problem, "look at both sandboxes by hand")]
    return [*rows, check_hidden(await asyncio.to_thread(find_exposed, task, *listings))]


async def _run(plan: CheckPlan, directory: Path, agent: AgentDefinition) -> TrialGradings:
    """Run a trial. Raises CheckError if what has come of it says nothing about the task."""
    trial = TrialPlan(plan.task, agent, plan.settings)
    run = RunPlan(
        directory=directory,
        trials=[trial],
        backend=plan.settings.settings.backend,
        max_workers=1,
        state=plan.state,
        on_change=plan.on_change,
    )
    [result] = (await run_trials(run, asyncio.Event())).results
    if result.outcome in _MACHINE:
        raise CheckError(f"{plan.task.id} could not be checked ({result.outcome}): {result.detail}")
    return await asyncio.to_thread(read_gradings, plan.task, result, directory / plan.task.id)
