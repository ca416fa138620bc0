"""The judge as a trial uses it: one of this process, or a server elsewhere."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from belljar.harness.judge.history import HistoryEntry
from belljar.harness.judge.report import SubmissionKind
from belljar.harness.judge.session import SessionLimits
from belljar.harness.judge.sessions import Judge
from belljar.harness.settings.model import TrialSettings


class TrialJudge(Protocol):
    """The judge's side of one trial."""

    @property
    def token(self) -> str:
        """What the agent submits with."""

    @property
    def service(self) -> Mapping[str, Any]:
        """The entry of a policy that leads to the judge."""

    async def submit(self, archive: Path) -> str:
        """Submit the state of the work, and return the submission's name. Raises BelljarError."""

    async def finish(self) -> Sequence[HistoryEntry]:
        """Accept nothing more, wait until everything is graded, and return all submissions in their order."""


def session_limits(settings: TrialSettings) -> SessionLimits:
    """Return what a trial may ask of its judge."""
    return SessionLimits(
        max_submissions=settings.max_submissions,
        cooldown=settings.submission_cooldown or None,
        cpus=settings.judge_cpu_limit,
        memory_bytes=settings.judge_mem_limit,
    )


class OwnJudge:
    """A `TrialJudge` of this process; agents reach it at a unix socket."""

    def __init__(self, judge: Judge, token: str, socket: Path) -> None:
        self._judge, self.token = judge, token
        self.service: Mapping[str, Any] = {"socket": str(socket)}

    async def submit(self, archive: Path) -> str:
        """See `TrialJudge`."""
        handed_over = archive.with_name(f".{archive.name}.submitted")  # the judge takes the file it is given
        handed_over.unlink(missing_ok=True)
        os.link(archive, handed_over)
        try:
            return (await self._judge.submit(self.token, SubmissionKind.AUTO, handed_over)).id
        finally:
            handed_over.unlink(missing_ok=True)

    async def finish(self) -> Sequence[HistoryEntry]:
        """See `TrialJudge`."""
        self._judge.close_session(self.token)
        await self._judge.drain(self.token)
        return self._judge.entries(self.token)
