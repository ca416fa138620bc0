"""A judge without agents: a server of it (`belljar eval serve`), and one archive (`belljar eval score`)."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

from belljar.errors import BelljarError, reason
from belljar.harness.host import open_host
from belljar.harness.judge.adminsecret import AdminSecret
from belljar.harness.judge.api import host_app
from belljar.harness.judge.grading import ARCHIVE, ReceivedSubmission
from belljar.harness.judge.report import EvalReport, SubmissionKind
from belljar.harness.judge.server import serve_on_port
from belljar.harness.judge.sessions import Judge
from belljar.harness.judge.tarreader import ArchiveError, ArchiveLimits
from belljar.harness.leftovers import open_state, run_directory, sweep
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.grading import TrialGrader
from belljar.harness.trials.journal import Journal
from belljar.harness.trials.places import TaskSandboxes

_THREADS: Final = 64
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingPlan:
    """What is graded, and where."""

    tasks: Mapping[str, EvalTask]
    backend: str
    setup_timeout: float
    state: Path
    results: Path
    concurrency: int = 1
    on_change: Callable[[Journal], None] = lambda _: None


async def serve_judge(
    plan: JudgingPlan,
    secret: AdminSecret,
    address: tuple[str, int],
    *,
    on_start: Callable[[int], None],
    until: Callable[[], Awaitable[object]],
) -> None:
    """Serve a judge until something has happened. Raises BelljarError.

    `on_start` is called with the port once the server listens. What is not graded at the end ends as an error.
    """
    async with (
        _open_grader(plan) as grader,
        Judge(grader.grade, plan.tasks, plan.results, concurrency=plan.concurrency) as judge,
        serve_on_port(host_app(judge, secret), *address) as port,
    ):
        on_start(port)
        await until()


async def score_archive(plan: JudgingPlan, task: EvalTask, source: BinaryIO) -> tuple[EvalReport, Path]:
    """Grade an archive, and return the report and the directory that keeps it as `manual-N`.

    Raises ArchiveError, after which nothing of it is kept, and GraderError.
    """
    directory = await asyncio.to_thread(_receive, source, plan.results / SubmissionKind.MANUAL.value / task.id)
    submitted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    received = ReceivedSubmission(id=directory.name, directory=directory, submitted_at=submitted_at)
    try:
        async with _open_grader(plan) as grader:
            return await grader.grade(task, received), directory
    except ArchiveError:
        shutil.rmtree(directory)
        raise


@asynccontextmanager
async def _open_grader(plan: JudgingPlan) -> AsyncIterator[TrialGrader]:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    state = open_state(plan.state)
    await asyncio.to_thread(sweep, state)
    with run_directory(state, plan.backend) as private:
        logs = private / "logs"
        logs.mkdir()
        async with open_host(private, plan.backend, plan.concurrency) as host:
            journals = {name: Journal(name, logs / f"{name}.log", plan.on_change) for name in plan.tasks}
            yield TrialGrader(TaskSandboxes(host, plan.setup_timeout), journals, private)


def _receive(source: BinaryIO, results: Path) -> Path:
    """Copy an archive into a directory of its own, and return that. Raises BelljarError, and leaves nothing then."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        directory = _new_directory(results)
        try:
            _copy(source, directory / ARCHIVE)
        except BaseException:
            shutil.rmtree(directory)
            raise
    except OSError as error:
        raise BelljarError(
            f"the archive cannot be kept below {results} ({reason(error)}); name another place with --results"
        ) from None
    return directory


def _new_directory(results: Path) -> Path:
    for number in count(1):
        directory = results / f"{SubmissionKind.MANUAL.value}-{number}"
        with suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise AssertionError("numbers do not end")


def _copy(source: BinaryIO, target: Path) -> None:
    limit = ArchiveLimits().compressed
    with target.open("xb") as file:
        while data := source.read(_CHUNK):
            file.write(data)
            if file.tell() > limit:
                raise ArchiveError(f"the archive is larger than {limit >> 20} MB; submit less")
