"""Submissions graded on the sandboxes of a run, each with what the gateway saw of its judge."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belljar.harness.judge.grading import Grader, ReceivedSubmission
from belljar.harness.judge.report import EvalReport
from belljar.harness.results.layout import AUDIT, NETWORK, write_json
from belljar.harness.sandboxes import NO_SERVICES, NOTHING, HarnessSandbox
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.journal import Journal
from belljar.harness.trials.places import TaskSandboxes
from belljar.harness.trials.verdict import score_of
from belljar.sandbox.spec import ResourceLimits, SandboxSpec


@dataclass(frozen=True, slots=True)
class TrialGrader:
    """Grades submissions, and notes the results in the journals of their tasks."""

    sandboxes: TaskSandboxes
    journals: Mapping[str, Journal]
    sockets: Path
    """A private directory for the sockets of gradings."""

    async def grade(self, task: EvalTask, submission: ReceivedSubmission) -> EvalReport:
        """Grade a submission. Raises ArchiveError and GraderError."""
        journal = self.journals[task.id]

        @asynccontextmanager
        async def opener(
            spec: SandboxSpec, *, purpose: str, services: Mapping[str, Path] = NO_SERVICES
        ) -> AsyncIterator[HarnessSandbox]:
            stage, suffix = (task.judge, "") if purpose == "judge" else (task.work, f"{purpose}-")
            log = submission.directory / f"{suffix}{AUDIT}"
            async with self.sandboxes.open(task, stage, spec, purpose=purpose, log=log) as sandbox:
                if services:
                    entries = {name: {"socket": str(path)} for name, path in services.items()}
                    await sandbox.seal({**NOTHING, "services": entries})
                yield sandbox
            self._note_network(journal, submission.directory / f"{suffix}{NETWORK}", sandbox.evidence.to_data())

        report = await Grader(opener, _spec_of, self.sockets).grade(task, submission)
        score = score_of(report) if report.valid else 0.0
        journal.submissions += 1
        journal.best = max(journal.best or 0.0, score)
        journal.write(f"{submission.id}: score {score:.1f}, {report.passed} of {report.total_tests} tests passed")
        return report

    @staticmethod
    def _note_network(journal: Journal, path: Path, network: Mapping[str, Any]) -> None:
        """Keep what was seen of a judge's sandbox. It has no network, so whatever it tries there is suspicious."""
        write_json(path, network)
        if denials := sum(each["times"] for each in network["denied"]):
            journal.judge_denials += denials
            journal.write(f"{path.parent.name}: while it was graded, {denials} connections were tried and denied")


def _spec_of(task: EvalTask) -> SandboxSpec:
    return SandboxSpec(limits=ResourceLimits(task.judge.cpus, task.judge.memory_bytes))
