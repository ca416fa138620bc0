"""Grade one submission in a fresh sandbox, or in two of them, which keep it apart from its grader.

A failure of the infrastructure is never a score. A sandbox that cannot be made, that ends before the grader does or
whose setup fails is followed by another one, and after the last try there is a GraderError and no report. What every
failed try has left behind is kept in `try-N/` beside the submission.
"""

import asyncio
import io
import logging
import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from belljar.errors import BelljarError, message, printable
from belljar.harness.judge.archive import CleanArchive, SubmissionFilter, clean_archive
from belljar.harness.judge.isolation.service import PROGRAM, SERVICE, SubmissionService
from belljar.harness.judge.parsers.graded import Grades, invalid
from belljar.harness.judge.parsers.parsing import MAX_OUTPUT, MAX_RESULT, parse
from belljar.harness.judge.report import EvalReport
from belljar.harness.judge.rescaling import rescale
from belljar.harness.results.layout import write_json
from belljar.harness.sandboxes import NO_SERVICES, HarnessSandbox, SandboxOpener
from belljar.harness.tasks.model import EvalTask
from belljar.runtime.commands import Ended
from belljar.sandbox.spec import Command, SandboxSpec

ARCHIVE: Final = "submission.tar.gz"
RESULT: Final = "BELLJAR_RESULT"
"""The variable that names the file to which a grader writes its result."""

_TRIES: Final = 3
_PAUSE: Final = 0.5
_OPEN_TIMEOUT: Final = 3600.0  # with the setup of the task, which has a limit of its own
_UNPACK_TIMEOUT: Final = 600.0
_STEP_TIMEOUT: Final = 60.0
_SHOWN: Final = 2000
_FULL_MARKS: Final = 100.0

_MAKE: Final = 'mkdir -p -- "$1"'
_PREPARE: Final = 'mkdir -p -- "$1" && mkdir -m 700 -- "$2" "$2/bin"'
_INSTALL: Final = '{ echo "#!/usr/bin/env python3"; cat; } >"$1" && chmod 755 -- "$1"'
_EVALUATE: Final = """
PATH=$2/bin:$PATH
command -v bash >/dev/null 2>&1 && exec bash -c "$1"
exec /bin/sh -c "$1"
"""
_READ_RESULT: Final = """
kill -KILL -1 2>/dev/null
[ -e "$1" ] || [ -L "$1" ] || exit 3
[ -f "$1" ] && exec cat -- "$1"
"""
"""What the submission has left running cannot change a result that is being read."""

_STILL_THERE: Final = ":"
"""Fails if the sandbox has ended: then it was not the grader that ended the evaluation."""

_NO_RESULT: Final = 3
_RESULT_FILE: Final = "result.json"
_OUTPUT: Final = "test_output.txt"
_ERRORS: Final = "test_errors.txt"
_RUNNER: Final = Path(__file__).parents[1] / "submit" / "runner.py"
_LOG: Final = logging.getLogger(__name__)


class GraderError(BelljarError):
    """A submission could not be graded, for reasons that are not its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSubmission:
    """A submission that was accepted. Its directory holds the archive as it came, and later its results."""

    id: str
    directory: Path
    submitted_at: str = ""


class Grader:
    """Grades submissions in sandboxes that are ready for it: `judge.setup_cmds` were run in them, or in their image.

    `spec_of` describes the sandbox that a task is judged in; `sockets` is a private directory with a short path, in
    which the services of gradings listen.
    """

    def __init__(self, opener: SandboxOpener, spec_of: Callable[[EvalTask], SandboxSpec], sockets: Path) -> None:
        self._opener, self._spec_of, self._sockets = opener, spec_of, sockets

    async def grade(self, task: EvalTask, submission: ReceivedSubmission) -> EvalReport:
        """Grade a submission, and write its report. Raises ArchiveError and GraderError."""
        directory, clean = submission.directory, submission.directory / "clean.tar"
        clean.unlink(missing_ok=True)
        try:
            found = await asyncio.to_thread(_clean, task, directory, clean)
            grades, ended = await self._try_several_times(task, directory, clean)
        finally:
            clean.unlink(missing_ok=True)
        report = _report(task, submission, found, grades, ended)
        write_json(directory / "report.json", report.to_data())
        return report

    async def _try_several_times(self, task: EvalTask, directory: Path, clean: Path) -> tuple[Grades, Ended]:
        problem = ""
        for number in range(1, _TRIES + 1):
            evidence = directory / f"try-{number}"
            await asyncio.sleep(_PAUSE * (number - 1))
            try:
                evidence.mkdir(exist_ok=True)
                return await self._try(task, evidence, clean)
            except (BelljarError, OSError) as error:  # TimeoutError is one of the latter
                problem = message(error) or "it took too long"
                _LOG.warning("%s: try %d of %d to grade it failed: %s", directory.name, number, _TRIES, problem)
                _keep(evidence / "error.txt", problem)
        raise GraderError(f"{directory.name} could not be graded in {_TRIES} tries; the last one: {problem}")

    async def _try(self, task: EvalTask, evidence: Path, clean: Path) -> tuple[Grades, Ended]:
        place = PurePosixPath(f"/tmp/belljar-{secrets.token_hex(8)}")  # noqa: S108 - inside the sandbox
        async with AsyncExitStack() as stack:
            service, services = None, NO_SERVICES
            if task.judge.isolate_submission:
                beside = await self._open(stack, task, "submission")
                await _run_step(beside, _MAKE, str(task.cwd))
                await _unpack(beside, task, clean)
                service = SubmissionService(beside, task.cwd)
                socket = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._sockets))) / "s"
                await stack.enter_async_context(service.serve(socket))
                services = {SERVICE: socket}
            sandbox = await self._open(stack, task, "judge", services)
            await _run_step(sandbox, _PREPARE, str(task.cwd), str(place))
            if service is None:
                await _unpack(sandbox, task, clean)
            else:
                await _run_step(sandbox, _INSTALL, str(place / "bin" / PROGRAM), stdin=_RUNNER.read_bytes())
            ended = await _evaluate(sandbox, task, place, evidence)
            if not ended.out_of_memory:  # which is the submission's own doing, whatever it has killed
                await _run_step(sandbox, _STILL_THERE)
            written = None
            if service is not None and not ended.timed_out:
                written = await _read_result(sandbox, place / _RESULT_FILE)
            if service is not None and service.failure is not None:
                raise service.failure
        output = evidence / _OUTPUT
        grades = await asyncio.to_thread(lambda: parse(task.judge, output.read_bytes(), written))
        if grades.valid and ended.exit_code and _has_full_marks(task, grades):
            # Submitted code could have printed a result, and then have made the grader fail before it printed its own.
            grades = invalid(f"eval_cmd exited with {ended.exit_code}, and yet the result has full marks")
        for file in list(evidence.iterdir()):
            file.replace(evidence.parent / file.name)
        evidence.rmdir()
        return grades, ended

    async def _open(
        self, stack: AsyncExitStack, task: EvalTask, purpose: str, services: Mapping[str, Path] = NO_SERVICES
    ) -> HarnessSandbox:
        async with asyncio.timeout(_OPEN_TIMEOUT):
            opening = self._opener(self._spec_of(task), purpose=purpose, services=services)
            return await stack.enter_async_context(opening)


def _clean(task: EvalTask, directory: Path, target: Path) -> CleanArchive:
    found = clean_archive(directory / ARCHIVE, target, SubmissionFilter(task.submit_paths, task.submit_exclude))
    (directory / "allowed_files.txt").write_text("".join(f"{printable(name)}\n" for name in found.names))
    (directory / "eval.sh").write_text(task.judge.eval_cmd + "\n")
    return found


async def _unpack(sandbox: HarnessSandbox, task: EvalTask, clean: Path) -> None:
    async with asyncio.timeout(_UNPACK_TIMEOUT):
        await sandbox.put_tree(task.cwd, clean)


async def _run_step(sandbox: HarnessSandbox, script: str, *arguments: str, stdin: bytes = b"") -> None:
    output = io.BytesIO()
    command = Command(("/bin/sh", "-c", script, "sh", *arguments))
    ended = await sandbox.run(command, output, stdin=stdin, timeout=_STEP_TIMEOUT, limit=_SHOWN)
    if ended.timed_out or ended.exit_code:
        raise GraderError(f"the judge's sandbox cannot be prepared: {_end_of(output.getvalue())}")


async def _evaluate(sandbox: HarnessSandbox, task: EvalTask, place: PurePosixPath, evidence: Path) -> Ended:
    """Run `eval_cmd`. Only its standard output is parsed: what it runs often writes to its standard error.

    It gets the name of a file for its result only if submitted code is isolated from it: otherwise submitted code would
    inherit the name.
    """
    command = Command(
        ("/bin/sh", "-c", _EVALUATE, "sh", task.judge.eval_cmd, str(place)),
        environment={RESULT: str(place / _RESULT_FILE)} if task.judge.isolate_submission else {},
        workdir=Path(task.cwd),
    )
    with (evidence / _OUTPUT).open("wb") as output, (evidence / _ERRORS).open("wb") as errors:
        return await sandbox.run(command, output, timeout=task.judge.eval_timeout, limit=MAX_OUTPUT, errors=errors)


async def _read_result(sandbox: HarnessSandbox, path: PurePosixPath) -> bytes | None:
    """Return the content of a result file; None if the grader has written none."""
    output = io.BytesIO()
    command = Command(("/bin/sh", "-c", _READ_RESULT, "sh", str(path)))
    ended = await sandbox.run(command, output, timeout=_STEP_TIMEOUT, limit=MAX_RESULT)
    if ended.exit_code == _NO_RESULT and not ended.timed_out:
        return None
    return output.getvalue() if ended.exit_code == 0 and not ended.timed_out else b""


def _has_full_marks(task: EvalTask, grades: Grades) -> bool:
    return grades.pass_rate >= 1 or (rescale(task.judge.rescale, grades.score) or 0.0) >= _FULL_MARKS


def _report(
    task: EvalTask, submission: ReceivedSubmission, found: CleanArchive, grades: Grades, ended: Ended
) -> EvalReport:
    if ended.timed_out:
        limit = f"{task.judge.eval_timeout:g} s"
        grades = Grades(valid=False, summary=f"the evaluation did not end within {limit} and was stopped")
    summary = grades.summary
    if ended.out_of_memory:
        summary = "\n".join(filter(None, (summary, "The sandbox ran out of memory, and something in it was killed.")))
    return EvalReport(
        task_id=task.id,
        submission_id=submission.id,
        total_tests=grades.total_tests,
        passed=grades.passed,
        failed=grades.failed,
        errors=grades.errors,
        pass_rate=grades.pass_rate,
        score=grades.score,
        score_0_100=rescale(task.judge.rescale, grades.score) if grades.valid else None,
        timed_out=ended.timed_out,
        exit_code=ended.exit_code,
        runtime_seconds=round(ended.seconds, 3),
        valid=grades.valid,
        summary=summary,
        details=grades.details,
        metrics=grades.metrics,
        left_out=tuple(found.left_out),
        submitted_at=submission.submitted_at,
    )


def _end_of(output: bytes) -> str:
    """Return the end of an output, for a message."""
    lines = output[-_SHOWN:].decode("utf-8", "replace").splitlines()
    return "\n".join(map(printable, lines)) or "nothing"


def _keep(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n")
    except OSError as error:
        _LOG.warning("%s cannot be written: %s", path, error)
