"""Sessions: one run of one task, its submissions, and the queue in which they wait to be graded.

A session is known by a token, which is given out once and kept as a digest. A submission is accepted when its archive
was checked and is on the disk in its own directory; from then on it ends as completed or as an error, even if the
client disconnects. Accepting is one step of the event loop: no cancelled request leaves half a submission behind.
"""

import asyncio
import logging
import re
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from belljar.errors import BelljarError, message, reason
from belljar.harness.judge.archive import SubmissionFilter, clean_archive
from belljar.harness.judge.grading import ARCHIVE, ReceivedSubmission
from belljar.harness.judge.history import HistoryEntry, history_data
from belljar.harness.judge.report import EvalReport, SubmissionKind, SubmissionStatus
from belljar.harness.judge.session import (
    UNGRADED,
    JudgeSession,
    QueuedSubmission,
    SessionLimits,
    SubmissionRefusedError,
)
from belljar.harness.tasks.model import EvalTask

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", re.ASCII)
_NUMBERED: Final = re.compile(r"([a-z]+)-(\d{1,9})", re.ASCII)
_MAX_QUEUED: Final = 200
_LOG: Final = logging.getLogger(__name__)
Grade = Callable[[EvalTask, ReceivedSubmission], Awaitable[EvalReport]]


class Judge:
    """Accepts submissions and has them graded. Enter it as a context manager, which ends what is not graded yet."""

    def __init__(
        self,
        grade: Grade,
        tasks: Mapping[str, EvalTask],
        results: Path,
        *,
        concurrency: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tasks, self.results = tasks, results
        self._grade, self._concurrency, self._clock = grade, concurrency, clock
        self._sessions: dict[bytes, JudgeSession] = {}
        self._queue: asyncio.Queue[tuple[JudgeSession, QueuedSubmission]] = asyncio.Queue(_MAX_QUEUED)
        self._workers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to grade."""
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._concurrency)]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Accept nothing more, and stop grading. What was not graded ends as an error."""
        for session in self._sessions.values():
            session.closed = True
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        while not self._queue.empty():
            await _finish(*self._queue.get_nowait(), error="the judge was stopped before it was graded")

    def register(
        self, task_id: str, run_id: str, limits: SessionLimits | None = None, directory: Path | None = None
    ) -> str:
        """Begin a session and return its token, of which only a digest is kept. Raises SubmissionRefusedError.

        Submissions are kept below `directory`, which a session of an earlier life may have used.
        """
        if not _NAME.fullmatch(run_id):
            raise SubmissionRefusedError(400, "run_id may have letters, digits, dots, hyphens and underscores only")
        if task_id not in self.tasks:
            raise SubmissionRefusedError(404, f"there is no task {task_id!a}; GET /api/v1/tasks lists those there are")
        if any(s.run_id == run_id and s.task.id == task_id and not s.closed for s in self._sessions.values()):
            raise SubmissionRefusedError(409, f"run {run_id} has a session for {task_id}; choose another run id")
        limits, task = limits or SessionLimits(), self.tasks[task_id]
        stage = replace(
            task.judge,
            cpus=limits.cpus if limits.cpus is not None else task.judge.cpus,
            memory_bytes=limits.memory_bytes if limits.memory_bytes is not None else task.judge.memory_bytes,
        )
        session = JudgeSession(
            run_id, replace(task, judge=stage), limits, directory or self.results / run_id / task_id / "submissions"
        )
        session.numbers = _used_numbers(session.directory)
        session.used_before = session.numbers.get(SubmissionKind.AGENT.value, 0)
        token = secrets.token_hex(32)
        self._sessions[_digest(token)] = session
        return token

    async def submit(self, token: str, kind: SubmissionKind, archive: Path) -> QueuedSubmission:
        """Accept an archive, which is moved into the directory of the submission.

        Raises SubmissionRefusedError and ArchiveError; then the archive is where it was.
        """
        session = self._session(token)
        session.check(kind, self._clock())
        wanted = SubmissionFilter(session.task.submit_paths, session.task.submit_exclude)
        async with session.checking:  # one at a time: reading an archive takes a processor for seconds
            await asyncio.to_thread(clean_archive, archive, None, wanted)
            staged = await asyncio.to_thread(_stage, archive, session.directory)
        try:
            return self._accept(session, kind, staged)
        finally:
            if staged != archive:
                staged.unlink(missing_ok=True)

    def check(self, token: str, kind: SubmissionKind) -> None:
        """Raise SubmissionRefusedError if a submission would be refused, whatever is in it."""
        self._session(token).check(kind, self._clock())

    def remaining(self, token: str) -> int | None:
        """Return how often the agent may still submit; None for no limit. Raises SubmissionRefusedError."""
        return self._session(token).remaining

    def result(self, token: str, submission: str, *, for_agent: bool) -> QueuedSubmission:
        """Return a submission of the session. An agent finds its own only. Raises SubmissionRefusedError."""
        found = self._session(token).submissions.get(submission)
        if found is None or (for_agent and found.kind is not SubmissionKind.AGENT):
            raise SubmissionRefusedError(404, f"this run has no submission {submission!a}")
        return found

    def result_of_run(self, run_id: str, task_id: str | None, submission: str) -> QueuedSubmission:
        """Return a submission of a run. Raises SubmissionRefusedError."""
        for session in self._of_run(run_id, task_id):
            if submission in session.submissions:
                return session.submissions[submission]
        raise SubmissionRefusedError(404, f"run {run_id!a} has no submission {submission!a}")

    def history(self, token: str, *, for_agent: bool) -> dict[str, Any]:
        """Return what was submitted. An agent sees its own submissions only. Raises SubmissionRefusedError."""
        return _history([self._session(token)], for_agent=for_agent)

    def entries(self, token: str) -> list[HistoryEntry]:
        """Return what was submitted, for the harness. Raises SubmissionRefusedError."""
        return _entries([self._session(token)], for_agent=False)

    def run_history(self, run_id: str, task_id: str | None = None) -> dict[str, Any]:
        """Return what was submitted in a run. Raises SubmissionRefusedError."""
        return _history(self._of_run(run_id, task_id), for_agent=False)

    def close_session(self, token: str) -> None:
        """Accept nothing more in a session. What was accepted is graded all the same."""
        self._session(token).closed = True

    async def drain(self, token: str) -> None:
        """Wait until everything that was accepted in a session is graded."""
        session = self._session(token)
        async with session.changed:
            await session.changed.wait_for(lambda: all(each.is_done for each in session.submissions.values()))

    def _session(self, token: str) -> JudgeSession:
        session = self._sessions.get(_digest(token))  # how long it takes tells of digests, and not of tokens
        if session is None:
            raise SubmissionRefusedError(401, "the token is not known; use the one that this run was given")
        return session

    def _of_run(self, run_id: str, task_id: str | None) -> list[JudgeSession]:
        found = [s for s in self._sessions.values() if s.run_id == run_id and task_id in (None, s.task.id)]
        if not found:
            raise SubmissionRefusedError(404, f"there is no run {run_id!a}")
        return found

    def _accept(self, session: JudgeSession, kind: SubmissionKind, archive: Path) -> QueuedSubmission:
        now = self._clock()
        session.check(kind, now)
        if self._queue.full():
            raise SubmissionRefusedError(503, "the judge has too much to do; submit again later", 30)
        number = session.numbers.get(kind.value, 0) + 1
        directory = session.directory / f"{kind.value}-{number}"
        try:
            directory.mkdir(parents=True)
            archive.replace(directory / ARCHIVE)
            session.stored += (directory / ARCHIVE).stat().st_size
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", directory, error)
            with suppress(OSError):  # the next submission has the same name
                directory.rmdir()
            raise SubmissionRefusedError(503, f"the submission cannot be stored ({reason(error)})", 30) from None
        session.numbers[kind.value] = number
        submitted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        received = ReceivedSubmission(id=directory.name, directory=directory, submitted_at=submitted_at)
        submission = session.submissions[directory.name] = QueuedSubmission(received, kind)
        if kind is SubmissionKind.AGENT:
            session.last_agent = now
        self._queue.put_nowait((session, submission))
        return submission

    async def _work(self) -> None:
        while True:
            session, submission = await self._queue.get()
            submission.status = SubmissionStatus.RUNNING
            try:
                report = await self._grade(session.task, submission.received)
            except BelljarError as error:
                await _finish(session, submission, error=message(error))
            except asyncio.CancelledError:
                await _finish(session, submission, error="the judge was stopped while it was graded")
                raise
            except Exception as error:  # noqa: BLE001 - a bug must not end the worker, on which other submissions wait
                _LOG.exception("%s of run %s could not be graded", submission.id, session.run_id)
                await _finish(session, submission, error=f"internal error: {type(error).__name__}")
            else:
                await _finish(session, submission, report=report)


async def _finish(
    session: JudgeSession, submission: QueuedSubmission, *, report: EvalReport | None = None, error: str | None = None
) -> None:
    submission.report, submission.error = report, error
    submission.status = SubmissionStatus.COMPLETED if report else SubmissionStatus.ERROR
    async with session.changed:
        session.changed.notify_all()


def _stage(archive: Path, directory: Path) -> Path:
    """Return an archive on the file system of a directory, where it can be moved into its place in one step.

    Raises SubmissionRefusedError.
    """
    staged = directory / f".{secrets.token_hex(8)}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if archive.stat().st_dev == directory.stat().st_dev:
            return archive
        shutil.copyfile(archive, staged)
    except OSError as error:
        staged.unlink(missing_ok=True)
        _LOG.warning("%s cannot be written: %s", directory, error)
        raise SubmissionRefusedError(503, f"the submission cannot be stored ({reason(error)})", 30) from None
    return staged


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _used_numbers(directory: Path) -> dict[str, int]:
    """Return the last number of each kind of submission in a directory."""
    numbers: dict[str, int] = {}
    for path in directory.iterdir() if directory.is_dir() else ():
        if match := _NUMBERED.fullmatch(path.name):
            numbers[match[1]] = max(numbers.get(match[1], 0), int(match[2]))
    return numbers


def _history(sessions: list[JudgeSession], *, for_agent: bool) -> dict[str, Any]:
    return history_data(sessions[0].run_id, _entries(sessions, for_agent=for_agent), sessions[0].task.judge)


def _entries(sessions: list[JudgeSession], *, for_agent: bool) -> list[HistoryEntry]:
    return [
        HistoryEntry(
            session.task.id,
            submission.id,
            submission.kind,
            submission.status,
            submission.received.submitted_at,
            submission.report,
            UNGRADED if for_agent and submission.error else submission.error,
        )
        for session in sessions
        for submission in session.submissions.values()
        if not for_agent or submission.kind is SubmissionKind.AGENT
    ]
