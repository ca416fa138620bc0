"""The work of one trial: a sealed sandbox, the agent in it, and the last state of its work.

Order of events
---------------
The sandbox is made able to reach nothing, and the task's setup runs in it. Then the agent's policy is put in force and
the seal is looked at; only if it holds is the agent started. When its command has ended, every process that it has left
is killed, the last state of its work is taken and graded, and the sandbox is destroyed.

What fails before the agent was started is tried again if the machine is to blame. Nothing is tried again after that: an
agent that can end its own sandbox must not win another attempt.
"""

import asyncio
import gzip
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from belljar.backends.interface import GoneError, LostError, MachineError
from belljar.errors import BelljarError
from belljar.harness.agents.interface import PROMPT_FILE, AgentDefinition
from belljar.harness.judge.session import SubmissionRefusedError
from belljar.harness.judge.tarreader import ArchiveError, ArchiveLimits
from belljar.harness.kit import Kit
from belljar.harness.results import layout
from belljar.harness.sandboxes import RuntimeSandbox, SealError
from belljar.harness.settings.model import TrialSettings
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.journal import Journal, TrialState
from belljar.harness.trials.judging import TrialJudge
from belljar.harness.trials.outcome import TrialOutcome
from belljar.harness.trials.places import SetupError, TaskSandboxes
from belljar.harness.trials.policy import agent_policy, agent_variables, kit_binds
from belljar.sandbox.spec import Command, ResourceLimits, SandboxSpec

_ATTEMPTS: Final = 3
_RETRY_SECONDS: Final = 1.0
_MAX_OUTPUT: Final = 256 << 20
_MAX_ARCHIVE: Final = ArchiveLimits().unpacked + (64 << 20)
"""A tar archive has headers besides what it holds."""

_KILL_SECONDS: Final = 10.0
_WAITING: Final = 429
_MAX_OVERLOADED: Final = 60
_KILL_ALL: Final = Command(("/bin/sh", "-c", "kill -KILL -1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkParts:
    """What the work of a trial is made of."""

    sandboxes: TaskSandboxes
    judge: TrialJudge
    kit: Kit
    task: EvalTask
    agent: AgentDefinition
    settings: TrialSettings
    prompt: str
    directory: Path
    journal: Journal


@dataclass(slots=True)
class WorkRecord:
    """What happened in the work sandbox."""

    outcome: TrialOutcome | None = None
    """Why there is nothing to grade by; None if the agent's command has run to its end or to the end of its time."""

    detail: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    seconds: float = 0.0
    out_of_memory: bool = False
    attempts: list[str] = field(default_factory=list)
    """Why each earlier attempt to make the sandbox failed."""

    network: Mapping[str, Any] = field(default_factory=dict)
    unusable: str = ""
    """Why the last state of the work could not be graded, by the agent's doing."""

    seal: Mapping[str, Any] = field(default_factory=dict)
    """The proof that the sandbox was sealed; empty if it was never seen to be."""

    def fail(self, outcome: TrialOutcome, error: BelljarError) -> None:
        """Note what has kept the work from being done."""
        self.outcome, self.detail = outcome, str(error)


async def work(parts: WorkParts, record: WorkRecord) -> None:
    """Run the agent in a work sandbox, and submit the last state of its work. What happens is noted in the record."""
    while True:
        try:
            await _attempt(parts, record)
        except (MachineError, LostError, GoneError) as error:
            if not record.seal and len(record.attempts) + 1 < _ATTEMPTS:
                record.attempts.append(str(error))
                parts.journal.write(f"trying again: {str(error).partition(chr(10))[0]}")
                await asyncio.sleep(_RETRY_SECONDS * len(record.attempts))
                continue
            record.fail(TrialOutcome.SANDBOX_DIED if record.seal else TrialOutcome.ENVIRONMENT_ERROR, error)
        except SealError as error:
            record.fail(TrialOutcome.ISOLATION_ERROR, error)
        except SetupError as error:
            record.fail(TrialOutcome.INSTALL_ERROR, error)
        except BelljarError as error:
            record.fail(TrialOutcome.SANDBOX_DIED if record.seal else TrialOutcome.ENVIRONMENT_ERROR, error)
        return


async def _attempt(parts: WorkParts, record: WorkRecord) -> None:
    task, agent, directory = parts.task, parts.agent, parts.directory
    parts.journal.enter(TrialState.SETUP)
    spec = SandboxSpec(
        limits=ResourceLimits(parts.settings.work_cpu_limit, parts.settings.work_mem_limit),
        files={Path(PROMPT_FILE): parts.prompt.encode()},
        binds=(*kit_binds(parts.kit, runs_images=parts.sandboxes.runs_images), *agent.shown),
    )
    opening = parts.sandboxes.open(task, task.work, spec, purpose="work", log=directory / layout.AUDIT)
    evidence = None
    try:
        async with opening as sandbox:
            evidence = sandbox.evidence
            record.seal = await sandbox.seal(agent_policy(parts.judge.service, agent.model_api, parts.settings))
            layout.write_json(directory / layout.SEAL, record.seal)
            await _run_agent(parts, sandbox, record)
            await _submit_last_state(parts, sandbox, record)
    finally:
        if evidence is not None:
            record.network = evidence.to_data()
            layout.write_json(directory / layout.NETWORK, record.network)


async def _run_agent(parts: WorkParts, sandbox: RuntimeSandbox, record: WorkRecord) -> None:
    """Run the agent's command to its end, or to the end of its time. Raises GoneError if the sandbox ends first."""
    parts.journal.enter(TrialState.AGENT)
    variables = agent_variables(parts.task, parts.judge.token, runs_images=parts.sandboxes.runs_images)
    words = ("/bin/sh", "-c", parts.agent.command)
    command = Command(words, {**variables, **parts.agent.environment}, Path(parts.task.cwd))
    evaluating = asyncio.create_task(_evaluate_at_intervals(parts, sandbox))
    try:
        with (parts.directory / layout.OUTPUT).open("wb") as output:
            ended = await sandbox.run(command, output, timeout=parts.settings.timeout, limit=_MAX_OUTPUT)
    finally:
        evaluating.cancel()
        await asyncio.wait({evaluating})
    record.exit_code, record.timed_out, record.seconds = ended.exit_code, ended.timed_out, ended.seconds
    record.out_of_memory = ended.out_of_memory
    how = "its time is over" if ended.timed_out else f"exit code {ended.exit_code}"
    parts.journal.write(f"the agent's command has ended: {how}")
    if not await sandbox.is_alive():
        raise GoneError("all processes of the work sandbox ended while the agent worked")


async def _evaluate_at_intervals(parts: WorkParts, sandbox: RuntimeSandbox) -> None:
    """Submit the state of the work again and again. What fails is noted, and tried at the next interval."""
    interval = parts.settings.eval_interval
    while interval:
        await asyncio.sleep(interval)
        try:
            submission = await _submit(parts, sandbox, parts.directory / "auto.tar.gz")
        except (BelljarError, OSError) as error:
            line = f"failed: {error}"
        else:
            line = f"submitted as {submission}"
        with (parts.directory / layout.TICKS).open("a") as ticks:
            ticks.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")


async def _submit_last_state(parts: WorkParts, sandbox: RuntimeSandbox, record: WorkRecord) -> None:
    """End what the agent has left running, and submit the state of its work.

    A state that cannot be taken or graded is the agent's doing while its sandbox lives: it can bring that about, and
    must not gain by it. Raises GoneError if the sandbox has ended.
    """
    archive = parts.directory / layout.ARCHIVE
    try:
        with tempfile.TemporaryFile() as output:
            await sandbox.run(_KILL_ALL, output, timeout=_KILL_SECONDS, limit=0)
        await _take(parts, sandbox, archive)
    except BelljarError as error:
        if not await sandbox.is_alive():
            raise GoneError("all processes of the work sandbox ended before its work was taken") from None
        record.unusable = f"the last state of the work could not be taken: {error}"
    else:
        try:
            await _submit_in_time(parts, archive)
        except ArchiveError as error:
            record.unusable = f"the last state of the work was refused: {error}"
        except BelljarError as error:
            record.detail = f"the last state of the work could not be submitted: {error}"
    if record.unusable or record.detail:
        parts.journal.write(record.unusable or record.detail)


async def _submit_in_time(parts: WorkParts, archive: Path) -> None:
    """Submit an archive, once the judge has room for it. Raises BelljarError.

    While submissions of the agent wait to be graded, that is only a matter of time.
    """
    overloaded = 0
    while True:
        try:
            await parts.judge.submit(archive)
        except SubmissionRefusedError as error:
            overloaded += error.status != _WAITING
            if error.retry_after is None or overloaded > _MAX_OVERLOADED:
                raise
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


async def _submit(parts: WorkParts, sandbox: RuntimeSandbox, archive: Path) -> str:
    """Take the state of the work into an archive, submit and remove it. Return the submission's name."""
    try:
        await _take(parts, sandbox, archive)
        return await parts.judge.submit(archive)
    finally:
        archive.unlink(missing_ok=True)


async def _take(parts: WorkParts, sandbox: RuntimeSandbox, archive: Path) -> None:
    plain = archive.with_suffix(".partial")
    try:
        await sandbox.get_tree(parts.task.cwd, plain, names=parts.task.submit_paths, limit=_MAX_ARCHIVE)
        await asyncio.to_thread(_compress, plain, archive)
    finally:
        plain.unlink(missing_ok=True)


def _compress(source: Path, target: Path) -> None:
    with source.open("rb") as plain, gzip.open(target, "wb", compresslevel=1) as compressed:
        shutil.copyfileobj(plain, compressed, 1 << 20)
