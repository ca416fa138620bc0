"""One trial, from its first file to its result: the work, the grading, and what both come to."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError, reason
from belljar.harness.agents.interface import AgentDefinition
from belljar.harness.judge.history import HistoryEntry
from belljar.harness.judge.report import SubmissionKind
from belljar.harness.kit import Kit
from belljar.harness.results.final import TrialResult, archive_size, count_kind, write_result
from belljar.harness.results.layout import PROMPT, SUBMISSIONS
from belljar.harness.settings.model import ResolvedSettings
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.journal import Journal, TrialState
from belljar.harness.trials.judging import TrialJudge
from belljar.harness.trials.outcome import TrialOutcome
from belljar.harness.trials.places import TaskSandboxes
from belljar.harness.trials.prompt import build_prompt
from belljar.harness.trials.verdict import judge_trial
from belljar.harness.trials.work import WorkParts, WorkRecord, work

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """One agent on one task."""

    task: EvalTask
    agent: AgentDefinition
    settings: ResolvedSettings


@dataclass(frozen=True, slots=True)
class TrialTools:
    """What all trials of a run share."""

    sandboxes: TaskSandboxes
    kit: Kit
    register: Callable[[TrialPlan, Path], Awaitable[TrialJudge]]
    """Opens a session of the judge for a trial, whose submissions are kept in a directory."""


async def run_trial(plan: TrialPlan, tools: TrialTools, directory: Path, journal: Journal) -> TrialResult:
    """Run a trial, and write its result, which says what went wrong if anything did.

    A trial that is cancelled ends as cancelled, with all that it held destroyed.
    """
    started, record, entries = time.monotonic(), WorkRecord(), list[HistoryEntry]()
    try:
        await _run(plan, tools, directory, journal, record, entries)
    except asyncio.CancelledError:
        record.outcome, record.detail = TrialOutcome.CANCELLED, "the run was cancelled"
    except BelljarError as error:
        record.outcome, record.detail = TrialOutcome.ENVIRONMENT_ERROR, str(error)
    except OSError as error:
        record.outcome = TrialOutcome.ENVIRONMENT_ERROR
        record.detail = f"a file of the trial cannot be read or written: {reason(error)}"
    except Exception as error:  # noqa: BLE001 - a bug in one trial must not end the others
        _LOG.exception("%s has failed", plan.task.id)
        record.outcome, record.detail = (
            TrialOutcome.ENVIRONMENT_ERROR,
            f"internal error: {type(error).__name__}: {error}",
        )
    result = _result(plan, tools, journal, record, entries, time.monotonic() - started)
    return _finish(result, directory, entries, journal)


def cancel_trial(plan: TrialPlan, tools: TrialTools, directory: Path, journal: Journal) -> TrialResult:
    """Write the result of a trial that was cancelled before it began."""
    record = WorkRecord(outcome=TrialOutcome.CANCELLED, detail="the run was cancelled before it began")
    return _finish(_result(plan, tools, journal, record, (), 0.0), directory, (), journal)


async def _run(  # noqa: PLR0913, PLR0917 - the steps of a trial share what they write down
    plan: TrialPlan,
    tools: TrialTools,
    directory: Path,
    journal: Journal,
    record: WorkRecord,
    entries: list[HistoryEntry],
) -> None:
    settings = plan.settings.settings
    prompt = build_prompt(plan.task, settings, plan.agent)
    (directory / PROMPT).write_text(prompt)
    judge = await tools.register(plan, directory / SUBMISSIONS)
    parts = WorkParts(
        sandboxes=tools.sandboxes,
        judge=judge,
        kit=tools.kit,
        task=plan.task,
        agent=plan.agent,
        settings=settings,
        prompt=prompt,
        directory=directory,
        journal=journal,
    )
    await work(parts, record)
    journal.enter(TrialState.GRADING)
    entries += await judge.finish()


def _finish(result: TrialResult, directory: Path, entries: Sequence[HistoryEntry], journal: Journal) -> TrialResult:
    write_result(directory, result, entries)
    journal.outcome = result.outcome
    journal.enter(TrialState.DONE)
    return result


def _result(  # noqa: PLR0913, PLR0917 - what a result is made of
    plan: TrialPlan,
    tools: TrialTools,
    journal: Journal,
    record: WorkRecord,
    entries: Sequence[HistoryEntry],
    seconds: float,
) -> TrialResult:
    directory, settings = journal.log.parent, plan.settings.settings
    verdict = judge_trial(plan.task, record, entries)
    denied = record.network.get("denied", ())
    return TrialResult(
        task=plan.task.id,
        agent=plan.agent.name,
        run_id=directory.parent.name,
        model=settings.model,
        outcome=verdict.outcome,
        detail=verdict.detail,
        score=verdict.score,
        best_pass_rate=verdict.best.pass_rate if verdict.best else None,
        best_round=verdict.best.submission_id if verdict.best else None,
        best_score=verdict.best.score if verdict.best else None,
        total_rounds=len(entries),
        agent_submissions=count_kind(entries, SubmissionKind.AGENT),
        auto_submissions=count_kind(entries, SubmissionKind.AUTO),
        timed_out=record.timed_out,
        agent_exit_code=record.exit_code,
        runtime_seconds=round(seconds, 3),
        archive_size_bytes=archive_size(directory),
        resume_count=0,
        attempts=tuple(record.attempts),
        internet=settings.internet,
        backend=tools.sandboxes.host.backend,
        task_digest=plan.task.digest,
        policy_digest=record.seal.get("policy_digest"),
        destinations_reached=len(record.network.get("reached", ())),
        destinations_denied=len(denied),
        denials=sum(each["times"] for each in denied),
        judge_denials=journal.judge_denials,
    )
