"""Sandboxes by API: made, found, paused, deleted."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from belljar.backends.interface import MachineError
from belljar.testing.memory import MemoryBackend
from tests.control.servers import problem


def test_a_sandbox_is_ready_when_the_answer_comes_and_gone_when_it_is_deleted(server):
    answer = server.client.post("/sandboxes", json={"backend": "memory", "labels": {"team": "red"}})
    made = answer.json()
    assert (answer.status_code, made["status"], made["labels"]) == (201, "running", {"team": "red"})
    assert answer.headers["location"] == f"/api/v1/sandboxes/{made['id']}"
    assert server.client.get(server.path(made["id"])).json() == made
    assert made["id"] in server.world.sandboxes
    assert server.client.delete(server.path(made["id"])).status_code == 204
    assert made["id"] not in server.world.sandboxes
    problem(server.client.get(server.path(made["id"])), 404, "sandbox_not_found")
    problem(server.client.delete(server.path(made["id"])), 404, "sandbox_not_found")


def test_without_a_policy_nothing_is_allowed(server, jar):
    assert server.client.get(server.path(jar, "/network")).json() == {"mode": "block-all"}


def test_what_was_asked_for_is_what_the_backend_is_asked_for(server, tmp_path):
    jar = server.sandbox(
        env={"KEY": "secret"},
        workdir=str(tmp_path),
        mounts=[{"source": "/usr/share", "target": "/data"}],
        limits={"cpus": 1.5, "memory_bytes": 1 << 30},
    )
    wanted = server.world.sandboxes[jar].spec
    assert (wanted.environment, wanted.workdir) == ({"KEY": "secret"}, tmp_path)
    [bind] = wanted.binds
    assert (str(bind.source), str(bind.target), bind.writable) == ("/usr/share", "/data", False)
    assert (wanted.limits.cpus, wanted.limits.memory_bytes) == (1.5, 1 << 30)
    assert "secret" not in server.client.get(server.path(jar)).text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"bakend": "memory"}, "bakend", id="unknown field"),
        pytest.param({"backend": "nowhere"}, "backend", id="unknown backend"),
        pytest.param({"ttl": -1}, "ttl", id="negative"),
        pytest.param({"ttl": True}, "ttl", id="not a number"),
        pytest.param({"ttl": 20, "hard_ttl": 10}, "ttl", id="paused after it is deleted"),
        pytest.param({"env": {"A=B": "c"}}, 'env."A=B"', id="a name with an equals sign"),
        pytest.param({"env": {"A": "\0"}}, "env.A", id="a value with a NUL"),
        pytest.param({"labels": {"": "x"}}, 'labels.""', id="an empty label"),
        pytest.param({"mounts": [{"source": "relative"}]}, "mounts[0].source", id="a relative path"),
        pytest.param({"mounts": [{}]}, "mounts[0].source", id="missing"),
        pytest.param([], None, id="no object"),
    ],
)
def test_a_bad_request_makes_nothing_and_says_where_and_what_to_do(server, body, field):
    before = set(server.world.sandboxes)
    told = problem(
        server.client.post("/sandboxes", json={"backend": "memory", **body} if isinstance(body, dict) else body),
        400,
        "invalid_request",
    )
    assert told["field"] == field
    assert told["remedy"]
    assert set(server.world.sandboxes) == before


def test_everything_that_is_wrong_is_told_at_once(server):
    body = {"ttl": "x", "hard_ttl": "y", "network": {"mode": "block-all"}}
    told = problem(server.client.post("/sandboxes", json=body), 400, "invalid_request")
    assert [found["field"] for found in told["problems"]] == ["ttl", "hard_ttl"]


def test_a_bad_policy_is_refused_with_its_place_in_the_request(server):
    network = {"mode": "block-all", "egress": {"allowed_domains": ["ok.test", "http://x/"]}}
    told = problem(
        server.client.post("/sandboxes", json={"backend": "memory", "network": network}), 400, "invalid_policy"
    )
    assert told["field"] == "network.egress.allowed_domains[1]"
    assert told["remedy"].startswith("write the host name alone")


def test_bodies_are_json_and_say_so(server):
    post = server.client.post
    problem(post("/sandboxes", content=b"{}"), 415, "unsupported_media_type")
    json = {"content-type": "application/json"}
    problem(post("/sandboxes", content=b"{", headers=json), 400, "invalid_request")
    problem(post("/sandboxes", content=b"\xff", headers=json), 400, "invalid_request")
    problem(post("/sandboxes", content=b'{"ttl": 1, "ttl": 2}', headers=json), 400, "invalid_request")
    problem(post("/sandboxes", content=b"[" * 10000, headers=json), 400, "invalid_request")


def test_the_server_s_own_state_is_never_shown_inside(server):
    for place in (server.state, server.state.parent, server.state / "pipes"):
        told = problem(
            server.client.post("/sandboxes", json={"backend": "memory", "mounts": [{"source": str(place)}]}),
            400,
            "state_exposed",
        )
        assert told["field"] == "mounts[0].source"
        problem(
            server.client.post("/sandboxes", json={"backend": "memory", "workdir": str(place)}), 400, "state_exposed"
        )


def test_a_link_to_the_server_s_state_is_not_shown_either(server, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(server.state)
    problem(server.client.post("/sandboxes", json={"backend": "memory", "workdir": str(link)}), 400, "state_exposed")


@pytest.mark.parametrize("place", [f"/tmp/{'x' * 300}", "/proc/self/task/1/root/x\0", "relative"])
@pytest.mark.parametrize("field", ["mounts[0].source", "workdir"])
def test_a_place_that_cannot_be_looked_at_is_refused(server, place, field):
    body = {"workdir": place} if field == "workdir" else {"mounts": [{"source": place}]}
    told = problem(server.client.post("/sandboxes", json={"backend": "memory", **body}), 400, "invalid_request")
    assert [found["field"] for found in told["problems"]] == [field]


def test_a_link_that_may_not_be_read_is_refused(server, monkeypatch):
    realpath = os.path.realpath

    def unreadable(path, **options):
        if str(path).startswith("/proc/1/root"):
            raise PermissionError(13, "Permission denied")
        return realpath(path, **options)

    monkeypatch.setattr(os.path, "realpath", unreadable)
    body = {"backend": "memory", "mounts": [{"source": "/proc/1/root/x"}]}
    told = problem(server.client.post("/sandboxes", json=body), 400, "invalid_request")
    assert "Permission denied" in str(told["problems"][0])


def test_what_the_backend_refuses_leaves_nothing(server, monkeypatch):
    def refuse(*_):
        raise MachineError("there is no room; make some")

    monkeypatch.setattr(MemoryBackend, "create", refuse)
    before = server.client.get("/sandboxes").json()
    told = problem(server.client.post("/sandboxes", json={"backend": "memory"}), 503, "machine_unable")
    assert (told["detail"], told["remedy"]) == ("there is no room", "make some")
    assert server.client.get("/sandboxes").json() == before


def test_a_repeated_request_finds_what_the_first_one_has_made(server):
    def create(key: str, **labels: str):
        return server.client.post(
            "/sandboxes", json={"backend": "memory", "labels": labels}, headers={"idempotency-key": key}
        )

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(create, ["k1"] * 8))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    assert create("k2").json()["id"] != answers[0].json()["id"]
    problem(create("k1", other="request"), 422, "idempotency_key_reused")


def test_sandboxes_are_listed_in_pages_and_found_by_label_and_status(start):
    server = start()
    names = [server.sandbox(labels={"number": str(number), "all": "yes"}) for number in range(5)]
    server.client.post(server.path(names[3], "/pause"))

    def found(**query: object) -> list[str]:
        return [sandbox["id"] for sandbox in server.client.get("/sandboxes", params=query).json()["sandboxes"]]

    assert found() == names
    assert found(label="number=2") == [names[2]]
    assert found(label=["all=yes", "number=4"]) == [names[4]]
    assert found(label="all=no") == []
    assert found(status="paused") == [names[3]]
    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = server.client.get("/sandboxes", params={"limit": 2, **cursor}).json()
        pages.append([sandbox["id"] for sandbox in page["sandboxes"]])
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert pages == [names[:2], names[2:4], names[4:]]
    assert problem(server.client.get("/sandboxes?limit=0"), 400, "invalid_request")["field"] == "limit"
    assert problem(server.client.get("/sandboxes?stats=x"), 400, "invalid_request")["field"] == "stats"


def test_a_paused_sandbox_runs_nothing_until_it_is_resumed(server, jar):
    assert server.client.post(server.path(jar, "/pause")).json()["status"] == "paused"
    command = {"command": ["true"]}
    problem(server.client.post(server.path(jar, "/exec"), json=command), 409, "sandbox_paused")
    assert server.client.post(server.path(jar, "/resume")).json()["status"] == "running"
    assert server.client.post(server.path(jar, "/exec"), json=command).json()["exit_code"] == 0


def test_files_go_in_and_come_out(server, jar):
    content = bytes(range(256)) * 100
    assert server.client.put(server.path(jar, "/files?path=a/b"), content=content).status_code == 204
    answer = server.client.get(server.path(jar, "/files?path=/workspace/a/b"))
    assert (answer.content, answer.headers["content-type"]) == (content, "application/octet-stream")
    problem(server.client.get(server.path(jar, "/files?path=nowhere")), 400, "unusable_path")
    problem(server.client.get(server.path(jar, "/files")), 400, "invalid_request")
    problem(server.client.put(server.path(jar, "/files?path=/usr/bin/x"), content=b""), 400, "unusable_path")
    problem(server.client.put(server.path(jar, "/files?path=x&mode=999"), content=b""), 400, "invalid_request")


def test_a_sandbox_whose_processes_have_ended_says_so(server, jar):
    server.world.sandboxes[jar].is_dead = True
    problem(server.client.post(server.path(jar, "/exec"), json={"command": ["true"]}), 410, "sandbox_gone")
    assert server.status(jar) == "dead"
    problem(server.client.put(server.path(jar, "/network"), json={"mode": "block-all"}), 410, "sandbox_gone")


def test_paths_and_methods_that_are_not_there(server, jar):
    problem(server.client.get("/nothing"), 404, "path_not_found")
    answer = server.client.put(server.path(jar))
    problem(answer, 405, "method_not_allowed")
    assert {"GET", "DELETE"} <= {method.strip() for method in answer.headers["allow"].split(",")}
