"""A judge that another server is, as a trial uses it (`--judge-url`).

The agent reaches it by the name that every judge has, `judge.belljar.internal`: the service leads to the address of the
URL, and to nothing else there.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from belljar.errors import BelljarError
from belljar.harness.judge.history import HistoryEntry
from belljar.harness.judge.remote import RemoteJudge, RemoteJudgeError
from belljar.harness.judge.report import EvalReport, SubmissionKind, SubmissionStatus
from belljar.harness.judge.session import SessionLimits, SubmissionRefusedError
from belljar.harness.results.layout import write_json
from belljar.linux.interfaces import own_addresses
from belljar.policy.services import DEFAULT_PORT

_NAME: Final = re.compile(r"[a-z]+-\d+", re.ASCII)
_BUSY: Final = (429, 503)
_TRIES: Final = 4
_PAUSE: Final = 1.0
_POLL_SECONDS: Final = 0.5
_THIS_MACHINE: Final = ("localhost", "host.docker.internal")


class JudgeUrlError(BelljarError):
    """A judge URL that agents could not use. Name another."""


def judge_service(url: str) -> dict[str, Any]:
    """Return the entry of a policy that leads to the judge at a URL. Raises JudgeUrlError."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.path.strip("/"):
        raise JudgeUrlError(f"--judge-url {url} is not a plain http://HOST:PORT; end TLS and paths before the judge")
    host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    if host in _THIS_MACHINE or _is_own(host):
        return {"port": port, "at": DEFAULT_PORT}
    return {"address": f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "at": DEFAULT_PORT}


def judge_base(url: str) -> str:
    """Return the URL under which this process finds the judge: SForge calls this machine by Docker's name for it."""
    return url.replace("host.docker.internal", "127.0.0.1", 1)


async def register(remote: RemoteJudge, task: str, run_id: str, limits: SessionLimits) -> None:
    """Begin a session, and try again while the judge cannot be reached. Raises RemoteJudgeError."""
    for number in range(1, _TRIES + 1):
        try:
            await remote.register(
                task,
                run_id,
                max_agent_submissions=limits.max_submissions,
                submission_cooldown=limits.cooldown,
                judge_cpu_limit=limits.cpus,
                judge_mem_limit=None if limits.memory_bytes is None else f"{limits.memory_bytes >> 10}k",
            )
        except RemoteJudgeError as error:
            if error.status is not None or number == _TRIES:
                raise
            await asyncio.sleep(_PAUSE * number)
        else:
            return


class ElsewhereJudge:
    """A `TrialJudge` that is a session of another server. Reports are kept in the trial's own directory as well."""

    def __init__(self, remote: RemoteJudge, service: Mapping[str, Any], directory: Path) -> None:
        self._remote, self.service, self._directory = remote, service, directory

    @property
    def token(self) -> str:
        """See `TrialJudge`."""
        return self._remote.token

    async def submit(self, archive: Path) -> str:
        """See `TrialJudge`."""
        try:
            return await self._remote.submit(archive)
        except RemoteJudgeError as error:
            if error.status in _BUSY:
                raise SubmissionRefusedError(error.status, str(error), _PAUSE) from None
            raise

    async def finish(self) -> Sequence[HistoryEntry]:
        """See `TrialJudge`."""
        await self._remote.close()
        while True:
            entries = (await self._history())["entries"]
            if all(entry["status"] in (SubmissionStatus.COMPLETED, SubmissionStatus.ERROR) for entry in entries):
                return [await self._entry(entry) for entry in entries]
            await asyncio.sleep(_POLL_SECONDS)

    async def _history(self) -> Mapping[str, Any]:
        """Return the history, and try again while the judge cannot be reached: the work must not be lost."""
        for number in range(1, _TRIES + 1):
            try:
                return await self._remote.history()
            except RemoteJudgeError:
                if number == _TRIES:
                    raise
                await asyncio.sleep(_PAUSE * number)
        raise AssertionError("unreachable")

    async def _entry(self, entry: Mapping[str, Any]) -> HistoryEntry:
        try:
            name, kind = str(entry["submission_id"]), SubmissionKind(entry["kind"])
            result = await self._remote.result(name)
            report = EvalReport.from_data(result["report"]) if result.get("report") else None
            status = SubmissionStatus(entry["status"])
            submitted = str(entry.get("submitted_at", ""))
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteJudgeError(f"the judge answers in a way that is not understood: {error!r}") from None
        if report is not None and _NAME.fullmatch(name):
            (self._directory / name).mkdir(parents=True, exist_ok=True)
            write_json(self._directory / name / "report.json", report.to_data())
        return HistoryEntry(str(entry["task_id"]), name, kind, status, submitted, report, result.get("error"))


def _is_own(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address in own_addresses()
