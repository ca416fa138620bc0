"""Judges to test with: real ones that grade in directories, served on a thread."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2

from belljar.harness.judge.adminsecret import AdminSecret
from belljar.harness.judge.api import agent_app, host_app
from belljar.harness.judge.grading import Grader
from belljar.harness.judge.server import serve_on_port, serve_on_socket
from belljar.harness.judge.session import SessionLimits
from belljar.harness.judge.sessions import Judge
from belljar.harness.tasks.model import EvalTask
from belljar.sandbox.spec import SandboxSpec
from tests.harness.directories import Directories
from tests.harness.stages import stage, task

PATIENCE = 60.0
SECRET = "s" * 64
SCORE_OF_FILE = 'echo "{\\"score\\": $(cat score)}"'


class ServedJudge:
    """A judge with both of its doors open: the agent's on a unix socket, the host's on a port."""

    def __init__(self, directory: Path, *tasks: EvalTask, **options: Any) -> None:
        self.directory, self.now = directory, 0.0
        self.sandboxes = Directories()
        self.tasks = {each.id: each for each in tasks or (task(stage(SCORE_OF_FILE)),)}
        self._options = options
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Judge, int]] = Future()
        self._thread = Thread(target=self._run)
        self._thread.start()
        self._loop, self._stop, self.judge, self.port = self._started.result(PATIENCE)
        self.url = f"http://127.0.0.1:{self.port}"
        self.socket = directory / "judge.sock"
        self.agent = self.client(uds=str(self.socket))
        self.host = self.client()

    def client(self, uds: str | None = None, **headers: str) -> httpx2.Client:
        transport = httpx2.HTTPTransport(uds=uds, verify=False)
        base = "http://judge" if uds else self.url
        return httpx2.Client(base_url=f"{base}/api/v1", transport=transport, headers=headers, timeout=PATIENCE)

    def register(self, run_id: str = "run-1", task_id: str = "tiny", **limits: Any) -> str:
        """Begin a session as the harness in this process does."""
        return str(self.call(lambda: self.judge.register(task_id, run_id, SessionLimits(**limits))))

    def call(self, function: Callable[[], Any]) -> Any:
        """Call something on the judge's loop."""

        async def call() -> Any:
            result = function()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(PATIENCE)

    def stop(self) -> None:
        for client in (self.agent, self.host):
            client.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        grader = Grader(self.sandboxes, lambda _: SandboxSpec(), self.directory)
        options = {"clock": lambda: self.now, **self._options}
        judge = Judge(grader.grade, self.tasks, self.directory / "results", **options)
        stop = asyncio.Event()
        async with (
            judge,
            serve_on_socket(agent_app(judge), self.directory / "judge.sock"),
            serve_on_port(host_app(judge, AdminSecret(SECRET)), "127.0.0.1", 0) as port,
        ):
            self._started.set_result((asyncio.get_running_loop(), stop, judge, port))
            await stop.wait()


def send(client: httpx2.Client, token: str | None, archive: bytes, **fields: str) -> httpx2.Response:
    """Submit an archive as SForge's harness does."""
    data = {**({"token": token} if token else {}), **fields}
    return client.post("/submit", data=data, files={"archive": ("a.tar.gz", archive)})


def wait_for(client: httpx2.Client, token: str, submission: str) -> dict[str, Any]:
    """Return a submission once it is done."""
    given_up = time.monotonic() + PATIENCE
    while True:
        answer = client.get(f"/result/{submission}", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        if found["status"] in ("completed", "error"):
            return found
        assert time.monotonic() < given_up
        time.sleep(0.01)
