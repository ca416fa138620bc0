"""Use a judge that another machine serves (`--judge-url`)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from belljar.errors import BelljarError, printable, reason
from belljar.harness.judge.adminsecret import AdminSecret
from belljar.harness.judge.report import SubmissionKind

_CONNECT_TIMEOUT: Final = 10.0
_ANSWER_TIMEOUT: Final = 120.0
_UPLOAD_TIMEOUT: Final = 900.0
_ADMIN_HEADERS: Final = ("X-Belljar-Admin-Secret", "X-SForge-Admin-Secret")
_SHOWN: Final = 500


class RemoteJudgeError(BelljarError):
    """A judge elsewhere cannot be reached, or does not do what it was asked. `status` is its HTTP status, if any."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class RemoteJudge:
    """A judge elsewhere, and one session there once `register` has begun it. Methods raise RemoteJudgeError."""

    def __init__(self, client: httpx2.AsyncClient, secret: AdminSecret) -> None:
        self._client, self._secret = client, secret
        self.token = ""

    async def register(self, task_id: str, run_id: str, **limits: Any) -> str:
        """Begin a session, and return its token, which the agent gets. `limits` are fields of the API."""
        body = {"task_id": task_id, "run_id": run_id, "admin_secret": self._secret.text}
        body |= {name: value for name, value in limits.items() if value is not None}
        answer = await self._ask("POST", "/register", json=body)
        token = answer.get("token")
        if not isinstance(token, str) or not token:
            raise RemoteJudgeError(f"the judge at {self._client.base_url} gave no token; is this a judge?")
        self.token = token
        return token

    async def submit(self, archive: Path, kind: SubmissionKind = SubmissionKind.AUTO) -> str:
        """Submit an archive, and return the name of the submission."""
        with archive.open("rb") as file:
            answer = await self._ask(
                "POST",
                "/submit",
                data={"token": self.token, "kind": kind.value, "admin_secret": self._secret.text},
                files={"archive": ("submission.tar.gz", file, "application/gzip")},
                timeout=httpx2.Timeout(_CONNECT_TIMEOUT, read=_UPLOAD_TIMEOUT, write=_UPLOAD_TIMEOUT),
            )
        return str(answer.get("submission_id", ""))

    async def result(self, submission: str) -> dict[str, Any]:
        """Return how far a submission has come, with its report once there is one."""
        return await self._ask("GET", f"/result/{submission}", headers=self._headers())

    async def close(self) -> None:
        """Close the session: the judge accepts nothing more in it."""
        await self._ask("POST", "/close", json={"token": self.token, "admin_secret": self._secret.text})

    async def history(self) -> dict[str, Any]:
        """Return all submissions of the session."""
        return await self._ask("GET", "/history", headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", **dict.fromkeys(_ADMIN_HEADERS, self._secret.text)}

    async def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, f"/api/v1{path}", **options)
        except httpx2.HTTPError as error:
            what = reason(error) or type(error).__name__
            raise RemoteJudgeError(
                f"the judge at {self._client.base_url} cannot be reached ({what}); check --judge-url, and that "
                "`belljar eval serve` runs there"
            ) from None
        try:
            data = json.loads(response.content)
        except (ValueError, RecursionError):
            data = None
        if not response.is_success:
            detail = data.get("detail") if isinstance(data, dict) else None
            text = printable(str(detail or response.reason_phrase)[:_SHOWN])
            raise RemoteJudgeError(f"the judge at {self._client.base_url} refuses: {text}", response.status_code)
        if not isinstance(data, dict):
            raise RemoteJudgeError(f"what answers at {self._client.base_url} is no judge; check --judge-url")
        return data


@asynccontextmanager
async def connect_judge(url: str, secret: AdminSecret) -> AsyncIterator[RemoteJudge]:
    """Yield the judge at a URL. Proxies of the environment are not used: the secret is for the judge alone."""
    timeout = httpx2.Timeout(_CONNECT_TIMEOUT, read=_ANSWER_TIMEOUT, write=_ANSWER_TIMEOUT)
    async with httpx2.AsyncClient(base_url=url.rstrip("/"), timeout=timeout, trust_env=False) as client:
        yield RemoteJudge(client, secret)
