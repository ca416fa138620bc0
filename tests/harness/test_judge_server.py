"""The judge's server, against clients that do nothing, and its secret."""

import asyncio
import os
import socket
import stat
import threading
from contextlib import suppress
from typing import Any

import pytest
from starlette.applications import Starlette

from belljar.harness.judge import server as server_module
from belljar.harness.judge.adminsecret import AdminSecret, AdminSecretError, load_admin_secret
from belljar.harness.judge.remote import RemoteJudgeError, connect_judge
from belljar.harness.judge.server import JudgeServerError, serve_on_port, serve_on_socket
from tests.harness.judges import SECRET
from tests.harness.test_judge_api import scoring

APP = Starlette()


@pytest.mark.parametrize("start", [b"", b"GET /api/v1/history HT", b"GET /api/v1/history HTTP/1.1\r\nHost: x\r\n"])
def test_a_client_that_sends_no_whole_request_is_disconnected(serve, monkeypatch, start):
    monkeypatch.setattr(server_module, "_IDLE_TIMEOUT", 0.05)
    judge = serve()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(judge.socket))
        client.sendall(start)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_client_that_asks_no_more_is_disconnected_after_its_answer(serve, monkeypatch):
    monkeypatch.setattr(server_module, "_IDLE_TIMEOUT", 0.05)
    judge = serve()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(judge.socket))
        client.sendall(b"GET /api/v1/history HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while data := client.recv(65536):
            received += data
    assert received.startswith(b"HTTP/1.1 401")


def test_a_client_that_reads_no_answers_is_disconnected(serve, monkeypatch):
    monkeypatch.setattr(server_module, "_READ_TIMEOUT", 0.05)
    judge = serve()
    request = b"GET /api/v1/history HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(judge.socket))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(request * 100_000)


def test_more_connections_than_are_taken_are_answered_and_do_not_stop_the_others(serve, monkeypatch):
    monkeypatch.setitem(server_module._OPTIONS, "limit_concurrency", 5)
    judge = serve()
    idle = []
    for _ in range(8):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(judge.socket))
        idle.append(client)
    assert judge.agent.get("/history").status_code == 503
    for client in idle:
        client.close()
    token = judge.register()
    while judge.agent.get("/history", params={"token": token}).status_code == 503:
        pass  # until the server has noticed that they are closed
    assert judge.agent.get("/history", params={"token": token}).status_code == 200


def test_an_address_that_is_taken_or_absent_is_an_error(tmp_path):
    async def listen(opening: Any) -> None:
        async with opening:
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(JudgeServerError, match=f"127.0.0.1:{port}.*--port"):
            asyncio.run(listen(serve_on_port(APP, "127.0.0.1", port)))
    with pytest.raises(JudgeServerError, match="--host"):
        asyncio.run(listen(serve_on_port(APP, "192.0.2.1", 0)))
    with pytest.raises(JudgeServerError, match="absent"):
        asyncio.run(listen(serve_on_socket(APP, tmp_path / "absent" / "s")))


def test_a_judge_elsewhere_is_used_with_the_secret(judge, tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(scoring(6))

    async def use() -> Any:
        async with connect_judge(judge.url, AdminSecret(SECRET)) as remote:
            token = await remote.register("tiny", "r", max_agent_submissions=3, submission_cooldown=None)
            name = await remote.submit(tmp_path / "a.tar.gz")
            while (found := await remote.result(name))["status"] != "completed":
                pass
            return token, name, found, await remote.history()

    token, name, found, history = asyncio.run(use())
    assert (name, found["report"]["score"], history["auto_submissions"]) == ("auto-1", 6, 1)
    assert judge.agent.get("/history", params={"token": token}).json()["entries"] == []


@pytest.mark.parametrize(
    ("url", "secret", "words"),
    [
        ("http://127.0.0.1:1", SECRET, "--judge-url"),
        ("URL", "x" * 64, "admin secret"),
        ("URL/elsewhere", SECRET, "nothing at this path"),
    ],
)
def test_a_judge_elsewhere_that_refuses_or_is_none_is_an_error(judge, url, secret, words):
    async def use() -> Any:
        async with connect_judge(url.replace("URL", judge.url), AdminSecret(secret)) as remote:
            await remote.register("tiny", "r")

    with pytest.raises(RemoteJudgeError, match=words):
        asyncio.run(use())


def test_a_secret_is_made_once_and_is_for_this_user_alone(tmp_path):
    secret = load_admin_secret(tmp_path / "state", {})
    [path] = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_admin_secret(tmp_path / "state", {}).text == secret.text
    assert secret.matches(secret.text)
    assert not any(secret.matches(other) for other in (None, "", secret.text[:-1], "é\ud800"))


def test_processes_that_make_the_secret_at_once_agree(tmp_path):
    found: list[str] = []
    barrier = threading.Barrier(8)

    def load():
        barrier.wait()
        found.append(load_admin_secret(tmp_path, {}).text)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_the_environment_names_another_secret(tmp_path):
    for name in ("BELLJAR_ADMIN_SECRET", "SFORGE_ADMIN_SECRET"):
        assert load_admin_secret(tmp_path, {name: "y" * 32}).text == "y" * 32
    with pytest.raises(AdminSecretError, match="can be guessed"):
        load_admin_secret(tmp_path, {"BELLJAR_ADMIN_SECRET": "admin"})
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_others_can_read_or_that_is_garbage_is_not_used(tmp_path):
    load_admin_secret(tmp_path, {})
    path = tmp_path / "judge-admin-secret"
    path.chmod(0o644)
    with pytest.raises(AdminSecretError, match="read by others"):
        load_admin_secret(tmp_path, {})
    path.chmod(0o600)
    for content in (b"", b"short", b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(AdminSecretError):
            load_admin_secret(tmp_path, {})
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208


def test_a_judge_that_stops_removes_its_socket(judge):
    assert judge.agent.get("/history").status_code == 401
    judge.stop()
    assert not judge.socket.exists()
