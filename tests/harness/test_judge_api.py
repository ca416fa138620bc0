"""The judge over HTTP: what agents can do, what they cannot, and what the harness can."""

import gzip
import json
import socket
import stat
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from belljar.harness.tasks.model import Selection
from tests.harness.archives import link, member, packed
from tests.harness.judges import SECRET, ServedJudge, send, wait_for
from tests.harness.stages import stage, task


def scoring(score: object, *more: object) -> bytes:
    return gzip.compress(packed(member("score", str(score).encode()), *more))  # type: ignore[arg-type]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


ADMIN = {"x-belljar-admin-secret": SECRET}


def refused(answer: httpx2.Response, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


def test_an_agent_submits_waits_for_its_report_and_sees_its_history(judge):
    token = judge.register()
    answer = send(judge.agent, token, scoring(7))
    assert answer.json() == {
        "submission_id": "agent-1",
        "round_id": "agent-1",
        "status": "queued",
        "remaining_submissions": None,
    }
    found = wait_for(judge.agent, token, "agent-1")
    assert found["status"] == "completed"
    assert found["report"]["score"] == 7
    assert "score_0_100" not in found["report"]
    history = judge.agent.get("/history", headers=bearer(token)).json()
    assert history["best_score"] is None  # its task compares pass rates
    assert [(entry["round"], entry["score"], entry["valid"]) for entry in history["entries"]] == [("agent-1", 7, True)]


@pytest.mark.parametrize("how", ["header", "field", "query"])
def test_a_token_comes_as_a_header_or_a_field_or_in_the_query(judge, how):
    token = judge.register()
    if how == "header":
        answer = judge.agent.post("/submit", headers=bearer(token), files={"archive": ("a", scoring(1))})
    else:
        answer = send(judge.agent, token, scoring(1))
    assert answer.status_code == 200
    assert judge.agent.get("/history", params={"token": token}).status_code == 200


def test_results_and_histories_are_for_the_token_of_their_session(judge):
    mine, other = judge.register("run-1"), judge.register("run-2")
    send(judge.agent, mine, scoring(1))
    wait_for(judge.agent, mine, "agent-1")
    refused(judge.agent.get("/result/agent-1", headers=bearer(other)), 404, "no submission")
    assert judge.agent.get("/history", headers=bearer(other)).json()["entries"] == []
    for token in ("", "x" * 64, mine[:-1], f"{mine}0", "é" * 8):
        answer = judge.agent.get("/result/agent-1", params={"token": token})
        assert answer.status_code == 401
        assert send(judge.agent, token or None, scoring(1)).status_code == 401
    refused(judge.agent.get("/result/agent-1"), 401, "no token")


def test_an_agent_submits_nothing_in_the_name_of_the_harness_and_sees_nothing_of_it(judge):
    token = judge.register()
    for client in (judge.agent, judge.host):
        refused(send(client, token, scoring(1), kind="auto"), 403, "admin secret")
        refused(send(client, token, scoring(1), kind="auto", admin_secret="x" * 64), 403, "admin secret")
        refused(send(client, token, scoring(1), kind="manual"), 400, "kind")
    # The secret itself changes nothing at the agent's door.
    refused(send(judge.agent, token, scoring(1), kind="auto", admin_secret=SECRET), 403, "admin secret")
    assert send(judge.host, token, scoring(9), kind="auto", admin_secret=SECRET).json()["round_id"] == "auto-1"
    found = judge.host.get("/result/auto-1", headers={**bearer(token), **ADMIN})
    assert found.status_code == 200
    refused(judge.agent.get("/result/auto-1", headers={**bearer(token), **ADMIN}), 404, "no submission")
    refused(judge.host.get("/result/auto-1", headers=bearer(token)), 404, "no submission")
    assert judge.agent.get("/history", headers={**bearer(token), **ADMIN}).json()["entries"] == []
    assert len(judge.host.get("/history", headers={**bearer(token), **ADMIN}).json()["entries"]) == 1


@pytest.mark.parametrize(
    "path", ["/tasks", "/register", "/runs/run-1/history", "/close", "/game/a/b/new", "/", "/../x"]
)
def test_at_the_agents_door_there_is_nothing_else(judge, path):
    judge.register()
    for method in ("GET", "POST"):
        assert judge.agent.request(method, path, headers=ADMIN).status_code == 404


def test_the_harness_registers_lists_tasks_and_reads_whole_runs_with_the_secret_alone(judge):
    body = {"task_id": "tiny", "run_id": "r", "max_agent_submissions": 1, "judge_mem_limit": "512m", "backend": None}
    refused(judge.host.post("/register", json=body), 403, "admin secret")
    refused(judge.host.post("/register", json={**body, "admin_secret": "x" * 64}), 403, "admin secret")
    token = judge.host.post("/register", json={**body, "admin_secret": SECRET}).json()["token"]
    assert len(token) == 64
    refused(judge.host.get("/tasks", headers=bearer(token)), 403, "admin secret")
    assert judge.host.get("/tasks", headers=ADMIN).json() == {"tasks": [{"task_id": "tiny", "name": "tiny"}]}
    send(judge.host, token, scoring(3))
    wait_for(judge.host, token, "agent-1")
    refused(judge.host.get("/runs/r/history", headers=bearer(token)), 403, "admin secret")
    assert judge.host.get("/runs/r/history", headers=ADMIN).json()["agent_submissions"] == 1
    found = judge.host.get("/result/agent-1", headers=ADMIN, params={"run_id": "r"}).json()
    assert found["report"]["score"] == 3
    refused(judge.host.get("/runs/x/history", headers=ADMIN), 404, "no run")


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"task_id": "other"}, 404, "no task"),
        ({"task_id": 3}, 400, "task_id"),
        ({"run_id": "../../etc"}, 400, "run_id"),
        ({"run_id": ".hidden"}, 400, "run_id"),
        ({"run_id": None}, 400, "run_id"),
        ({"max_agent_submissions": "3"}, 400, "max_agent_submissions"),
        ({"max_agent_submissions": 2.5}, 400, "max_agent_submissions"),
        ({"submission_cooldown": -1}, 400, "submission_cooldown"),
        ({"judge_mem_limit": "much"}, 400, "judge_mem_limit"),
        ({"backend": "k8s"}, 400, "backend"),
        ({"max_submisions": 3}, 400, "max_submisions"),
    ],
)
def test_a_registration_that_is_wrong_is_refused(judge, change, status, words):
    body = {"task_id": "tiny", "run_id": "r", "admin_secret": SECRET, **change}
    refused(judge.host.post("/register", json=body), status, words)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 60000, b'{"a": "' + b"x" * 70000 + b'"}'])
def test_a_body_that_is_no_small_object_is_refused(judge, body):
    assert judge.host.post("/register", content=body).status_code in (400, 413)


def test_a_run_has_one_session_for_a_task_and_numbers_go_on_after_it(judge):
    token = judge.register()
    refused(
        judge.host.post("/register", json={"task_id": "tiny", "run_id": "run-1", "admin_secret": SECRET}), 409, "run-1"
    )
    send(judge.agent, token, scoring(1))
    judge.call(lambda: judge.judge.drain(token))
    assert judge.host.post("/close", json={"token": token, "admin_secret": SECRET}).status_code == 200
    refused(send(judge.agent, token, scoring(1)), 409, "ended")
    again = judge.register(max_submissions=2)
    assert send(judge.agent, again, scoring(1)).json()["round_id"] == "agent-2"
    refused(send(judge.agent, again, scoring(1)), 429, "budget exhausted")


def test_the_budget_and_the_cooldown_hold_for_the_agent_alone(judge):
    token = judge.register(max_submissions=2, cooldown=120)
    assert send(judge.agent, token, scoring(1)).json()["remaining_submissions"] == 1
    judge.now = 100
    answer = send(judge.agent, token, scoring(1))
    refused(answer, 429, "cooldown")
    assert answer.headers["retry-after"] == "21"
    assert send(judge.host, token, scoring(1), kind="auto", admin_secret=SECRET).status_code == 200
    judge.now = 121
    assert send(judge.agent, token, scoring(1)).json()["remaining_submissions"] == 0
    judge.now = 1000
    answer = send(judge.agent, token, scoring(1))
    refused(answer, 429, "budget exhausted")
    assert "cooldown" not in answer.text


def test_two_submissions_at_once_do_not_share_the_last_of_a_budget(judge):
    token = judge.register(max_submissions=1)
    with ThreadPoolExecutor() as side_by_side:
        sent = [side_by_side.submit(send, judge.agent, token, scoring(1)) for _ in range(2)]
    assert sorted(answer.result().status_code for answer in sent) == [200, 429]


def test_a_submission_that_the_judge_could_not_grade_is_an_error_without_a_score_or_a_price(judge):
    token = judge.register(max_submissions=1)
    judge.sandboxes.faults = ["lost", "run", "open"]
    send(judge.agent, token, scoring(1))
    found = wait_for(judge.agent, token, "agent-1")
    assert (found["status"], found["report"]) == ("error", None)
    assert "does not count" in found["error"]
    assert "memory" in wait_admin(judge, token)["error"]
    entry = judge.agent.get("/history", headers=bearer(token)).json()["entries"][0]
    assert entry["status"] == "error"
    assert "score" not in entry
    assert send(judge.agent, token, scoring(1)).json()["remaining_submissions"] == 0


def wait_admin(judge: ServedJudge, token: str) -> Any:
    return judge.host.get("/result/agent-1", headers={**bearer(token), **ADMIN}).json()


def test_a_sandbox_that_dies_once_costs_the_agent_nothing(judge):
    token = judge.register()
    judge.sandboxes.faults = ["run"]
    send(judge.agent, token, scoring(4))
    assert wait_for(judge.agent, token, "agent-1")["report"]["score"] == 4


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", scoring(1)[:-20], scoring(1, link("out", "/etc")), scoring(1) + b"x"],
    ids=["empty", "garbage", "cut", "link", "more"],
)
def test_a_bad_archive_is_refused_with_its_reason_and_costs_nothing(judge, content):
    token = judge.register(max_submissions=1, cooldown=100)
    answer = send(judge.agent, token, content)
    assert answer.status_code == 400
    assert answer.json()["detail"]
    assert send(judge.agent, token, scoring(1)).status_code == 200
    assert list((judge.directory / "results" / ".incoming").iterdir()) == []


def form(*parts: bytes) -> bytes:
    return b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"


def field(name: str, value: bytes) -> bytes:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (form(), 400),
        (b"nonsense", 400),
        (form(field("archive", b"x")), 401),
        (form(field("archive", b"x"), field("token", b"TOKEN")), 401),
        (form(field("token", b"TOKEN")), 400),
        (form(field("token", b"TOKEN"), field("archive", b"x"), field("archive", b"x")), 400),
        (form(field("token", b"TOKEN"), field("note", b"x" * 5000)), 400),
        (form(field("token", b"TOKEN"), *[field("note", b"")] * 50), 400),
        (form(b"X: " + b"y" * 5000 + b"\r\n\r\n"), 400),
        (form(field("token", b"TOKEN"), field("archive", b"x"))[:-10], 400),
    ],
    ids=range(10),
)
def test_a_malformed_form_is_refused(judge, body, status):
    body = body.replace(b"TOKEN", judge.register().encode())
    answer = judge.agent.post("/submit", content=body, headers={"content-type": "multipart/form-data; boundary=b"})
    assert answer.status_code == status, answer.text
    assert judge.agent.post("/submit", content=body).status_code == 400


def test_a_large_upload_does_not_pass_through_memory_and_one_too_large_is_refused(judge, monkeypatch):
    token = judge.register()
    data = b"x" * (40 << 20)
    tracemalloc.start()
    assert send(judge.agent, token, data).status_code == 400  # it is no archive
    assert tracemalloc.get_traced_memory()[1] < 24 << 20  # the client has some of it
    tracemalloc.stop()


def test_nothing_is_written_without_a_known_token(judge):
    body = form(field("archive", b"x" * (8 << 20)))
    headers = {"content-type": "multipart/form-data; boundary=b", **bearer("x" * 64)}
    assert judge.agent.post("/submit", content=body, headers=headers).status_code == 401
    assert not (judge.directory / "results" / ".incoming").exists()


def test_a_client_that_leaves_midway_leaves_nothing_behind(judge):
    token = judge.register()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(judge.socket))
        start = form(field("token", token.encode()), field("archive", b"x" * 5000))[:-100]
        client.sendall(
            b"POST /api/v1/submit HTTP/1.1\r\nHost: judge\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            b"Content-Length: 100000\r\n\r\n" + start
        )
        incoming = judge.directory / "results" / ".incoming"
        until(lambda: incoming.exists() and list(incoming.iterdir()))
    until(lambda: not list(incoming.iterdir()))
    assert judge.agent.get("/history", headers=bearer(token)).json()["entries"] == []


def until(happened: Callable[[], object]) -> None:
    given_up = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < given_up
        time.sleep(0.005)


def test_one_session_cannot_fill_the_queue_of_the_others(serve):
    judge = serve(task(stage("while [ ! -e /tmp/never ]; do sleep 1; done")), concurrency=1)
    token, other = judge.register("run-1"), judge.register("run-2")
    answers = [send(judge.agent, token, scoring(1)).status_code for _ in range(10)]
    assert answers == [200] * 8 + [429] * 2
    assert send(judge.agent, other, scoring(1)).status_code == 200


def test_a_judge_that_stops_leaves_no_submission_undecided_and_no_sandbox(serve):
    judge = serve(task(stage("sleep 600")), concurrency=1)
    token = judge.register()
    for _ in range(3):
        send(judge.agent, token, scoring(1))
    until(lambda: judge.sandboxes.open_now == 1)
    judge.stop()
    found = judge.judge.history(token, for_agent=False)["entries"]
    assert [entry["status"] for entry in found] == ["error"] * 3
    assert judge.sandboxes.open_now == 0


def test_accepted_archives_are_kept_as_they_came(judge):
    token = judge.register()
    content = scoring(5, member("conftest.py", b"evil"))
    send(judge.agent, token, content)
    report = wait_for(judge.agent, token, "agent-1")["report"]
    assert [entry.partition(":")[0] for entry in report["left_out"]] == ["conftest.py"]
    kept = judge.directory / "results/run-1/tiny/submissions/agent-1"
    assert (kept / "submission.tar.gz").read_bytes() == content
    assert json.loads((kept / "report.json").read_text())["score"] == 5


def test_the_best_of_a_run_counts_what_the_harness_has_submitted_but_the_agent_does_not_see_that(serve):
    judge = serve(task(stage('echo "{\\"score\\": $(cat score)}"', selection=Selection.SCORE_FIRST)))
    token = judge.register()
    send(judge.agent, token, scoring(1))
    send(judge.host, token, scoring(9), kind="auto", admin_secret=SECRET)
    judge.call(lambda: judge.judge.drain(token))
    assert judge.agent.get("/history", headers=bearer(token)).json()["best_round"] == "agent-1"
    whole = judge.host.get("/runs/run-1/history", headers=ADMIN).json()
    assert (whole["best_round"], whole["best_score"], whole["auto_submissions"]) == ("auto-1", 9, 1)


def test_games_are_answered_with_a_reason(judge):
    refused(judge.host.post("/game/run/task/new"), 501, "games")


def test_the_socket_is_for_this_user_alone_and_answers_are_not_stored(judge):
    assert stat.S_IMODE(judge.socket.stat().st_mode) == 0o600
    answer = judge.agent.get("/history")
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE"])
def test_other_methods_are_refused(judge, method):
    answer = judge.agent.request(method, "/submit")
    assert answer.status_code == 405
