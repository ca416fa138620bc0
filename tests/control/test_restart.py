"""A server that is started again: what is adopted, what is swept, and what is refused."""

import json
import socket
import sqlite3
from contextlib import closing, suppress
from threading import Event
from typing import Any

import pytest

from belljar.backends.interface import MachineError
from belljar.control.serving import SOCKET, ServeError
from belljar.runtime import adoption, housekeeping
from belljar.runtime.adoption import ServedPortError
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.memory import MemoryBackend, MemoryWorld
from tests.control.servers import PATIENCE, Server, problem, until

OF_0_1_0 = """\
{"policy": {"document": {"mode": "block-all", "egress": {"allowed_domains": ["*.wild.example", \
".apex.example:8443", "db.example:5432"], "allowed_cidrs": ["10.2.0.0/16", "2001:db8::/32"], "allowed_ports": \
[443, "8000-8100", "123/udp"]}, "rules": [{"name": "no-gists", "action": "deny", "domains": \
["gist.wild.example"], "ports": [443], "protocol": "tcp"}], "presets": [{"python": "mirror.example"}], \
"host_ports": [5432], "allow_private": true}, "presets": [[["mirror.example", "", 443, "named in the policy"], \
["mirror.example", "", 80, "named in the policy"]]], "generation": 1, "host_addresses": ["192.0.2.1"]}, \
"revision": 3, "generation": 5, "grants": [["gr-00", "more.example", 1000000000.0, 2794833224.143628]]}"""
"""What the server of that release has written down of a network, to the letter."""

POLICY = {
    "mode": "block-all",
    "egress": {"allowed_domains": ["github.com"]},
    "presets": ["openai"],
    "services": {"db": {"address": "10.1.2.3:5432"}, "anthropic": {"budget": {"requests": 9}}},
}


def test_sandboxes_are_adopted_with_everything_that_was_known_of_them(start):
    server = start()
    jar, paused = server.sandbox(labels={"a": "b"}, ttl=600), server.sandbox()
    server.client.put(server.path(jar, "/network"), json=POLICY)
    server.client.post(server.path(jar, "/network/grants"), json={"allow": "gitlab.com", "seconds": 600})
    server.client.post(server.path(paused, "/pause"))
    before = server.client.get("/sandboxes").json()
    grants = server.client.get(server.path(jar, "/network/grants")).json()
    server = start()
    assert server.client.get("/sandboxes").json() == before
    assert server.client.get(server.path(jar, "/network")).json() == POLICY
    assert server.client.get(server.path(jar, "/network/grants")).json() == grants
    assert server.client.put(server.path(jar, "/network"), json=POLICY).json()["generation"] == 4
    assert server.client.post(server.path(jar, "/exec"), json={"command": ["true"]}).json()["exit_code"] == 0


def test_what_the_first_release_has_written_down_holds(start):
    server = start()
    jar = server.sandbox()
    server.stop()
    with closing(sqlite3.connect(server.state / "belljar.db")) as database, database:
        database.execute("UPDATE sandboxes SET policy = ? WHERE id = ?", (OF_0_1_0, jar))
    server = start()

    def verdict(destination: str) -> tuple[str, str | None]:
        told = server.client.get(server.path(jar, "/network/explain"), params={"destination": destination}).json()
        return told["action"], told["rule"]

    written = json.loads(OF_0_1_0)
    answer = server.client.get(server.path(jar, "/network"))
    assert answer.json() == written["policy"]["document"]
    assert answer.headers["etag"] == '"3"'
    assert server.client.get(server.path(jar)).json()["network"]["in_force"]
    assert verdict("a.wild.example") == ("allow", "egress.allowed_domains[0]")
    assert verdict("gist.wild.example") == ("deny", "rules[0]")
    assert verdict("a.apex.example:8443") == ("allow", "egress.allowed_domains[1]")
    assert verdict("db.example:443") == ("deny", "egress.allowed_domains[2]")
    assert verdict("10.2.3.4:8050") == ("allow", "egress.allowed_cidrs[0]")
    assert verdict("mirror.example:80") == ("allow", "presets[0]")
    assert verdict("host.belljar.internal:5432") == ("allow", "host_ports")
    assert verdict("more.example") == ("allow", "rules[1]")
    assert verdict("unknown.example") == ("deny", "mode")
    assert server.client.put(server.path(jar, "/network"), json=POLICY).json()["generation"] == 6


def test_what_nobody_knows_is_swept(start):
    server = start()
    MemoryBackend(server.world).create("stranger", SandboxSpec()).close()
    server = start()
    assert "stranger" not in server.world.sandboxes


def test_what_has_died_meanwhile_is_swept(start):
    server = start()
    dead, vanished, alive = server.sandbox(), server.sandbox(), server.sandbox()
    server.world.sandboxes[dead].is_dead = True
    del server.world.sandboxes[vanished]
    server = start()
    assert [server.status(jar) for jar in (dead, vanished, alive)] == ["gone", "gone", "running"]
    assert list(server.world.sandboxes) == [alive]
    with server.events("/events?after=0") as events:
        assert next(event for event in events if event.event == "sandbox.deleted").data["cause"] == "sweep"


@pytest.mark.parametrize("status", ["creating", "deleting"])
def test_what_was_half_made_or_half_deleted_is_swept(start, status):
    server = start()
    jar = server.sandbox()
    server.stop()
    with closing(sqlite3.connect(server.state / "belljar.db")) as database, database:
        database.execute("UPDATE sandboxes SET state = json_set(state, '$.status', ?)", (status,))
    server = start()
    assert server.status(jar) == "gone"
    assert not server.world.sandboxes


def test_the_key_of_a_request_outlives_the_server(start):
    server = start()

    def create() -> Any:
        return server.client.post("/sandboxes", json={"backend": "memory"}, headers={"idempotency-key": "k"}).json()

    first = create()
    server = start()
    assert create()["id"] == first["id"]


def test_one_that_cannot_be_adopted_stays_closed_and_says_so(start, monkeypatch):
    server = start()
    jar = server.sandbox()

    def refuse(*_, **__):
        raise MachineError("nft is not there; install it")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryBackend, "adopt", refuse)
        server = start()
        told = server.client.get(server.path(jar)).json()
        assert (told["status"], told["detail"]) == ("closed", "nft is not there; install it")
        problem(server.client.post(server.path(jar, "/exec"), json={"command": ["true"]}), 409, "sandbox_not_ready")
        assert jar in server.world.sandboxes, "it runs on"
    server = start()
    assert server.status(jar) == "running"


def test_what_is_changed_while_nobody_serves_it_counts_once_somebody_does(start, monkeypatch):
    """An agent may have brought that about, and may end it when it likes."""
    server = start()
    jar = server.sandbox(network=POLICY)
    grants = server.path(jar, "/network/grants")
    lasting = server.client.post(grants, json={"allow": "gitlab.com", "seconds": 600}).json()
    server.client.post(grants, json={"allow": "example.org", "seconds": 1})
    open_doors, is_open = MemoryBackend.adopt, Event()

    def refuse(self, sandbox, **options):
        if not is_open.is_set():
            raise MachineError("somebody has the port")
        return open_doors(self, sandbox, **options)

    monkeypatch.setattr(MemoryBackend, "adopt", refuse)
    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.1)
    server = start()
    assert server.status(jar) == "closed"
    assert server.client.delete(f"{grants}/{lasting['id']}").status_code == 204
    changed = server.client.put(server.path(jar, "/network"), json={"mode": "block-all"})
    assert (changed.status_code, changed.json()["in_force"]) == (200, False)
    is_open.set()
    until(lambda: server.status(jar) == "running")
    for host in ("github.com", "gitlab.com", "example.org"):
        explained = server.client.get(server.path(jar, "/network/explain"), params={"destination": host}).json()
        assert explained["action"] == "deny"
    assert server.client.get(grants).json()["grants"] == []


@pytest.mark.parametrize(
    "opening",
    [
        lambda port: {"host_ports": [port]},
        lambda port: {"services": {"web": {"port": port, "at": 80}}},
        lambda port: {"services": {"llm": {"url": f"http://127.0.0.1:{port}"}}},
    ],
)
def test_a_port_that_a_sandbox_may_reach_is_not_listened_on(start, tmp_path, opening):
    server = start()
    port = server.port
    server.stop()
    other = Server(tmp_path / "other", server.world, port=0)
    other.sandbox(network={"mode": "block-all", **opening(port)})
    other.stop()
    with pytest.raises(ServedPortError, match="serve on another port"):
        Server(tmp_path / "other", server.world, port=port)


def test_a_directory_has_one_server_at_a_time(start):
    server = start()
    with pytest.raises(ServeError, match="another server"):
        Server(server.state, server.world)
    assert server.client.get("/sandboxes").status_code == 200


def test_a_directory_that_is_open_to_others_is_refused(tmp_path, start):
    (tmp_path / "state").mkdir(mode=0o755)
    with pytest.raises(ServeError, match="open to others"):
        start()


def test_dead_sandboxes_are_noticed(start, monkeypatch):
    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.01)
    server = start()
    jar = server.sandbox()
    server.world.sandboxes[jar].is_dead = True
    until(lambda: server.status(jar) == "dead")
    assert server.client.delete(server.path(jar)).status_code == 204


class TwoEngines(Server):
    """A server with two backends, of which one can be kept from answering."""

    other: MemoryWorld
    backend_of_other: type[MemoryBackend] = MemoryBackend

    def backends(self):
        return {"slow": self.backend_of_other(self.other), "memory": MemoryBackend(self.world)}


@pytest.mark.parametrize("question", ["sandboxes", "adopt"])
def test_a_backend_that_does_not_answer_holds_up_no_other_and_is_asked_again(tmp_path, monkeypatch, question):
    answers = Event()

    class Silent(MemoryBackend):
        """Answers when it is told to."""

    def wait(self, *arguments, **options):
        answers.wait()
        return getattr(MemoryBackend, question)(self, *arguments, **options)

    setattr(Silent, question, wait)
    world = MemoryWorld()
    monkeypatch.setattr(TwoEngines, "other", MemoryWorld(), raising=False)
    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.1)
    server = TwoEngines(tmp_path / "state", world)
    paused, jar, other = server.sandbox(backend="slow"), server.sandbox(backend="slow"), server.sandbox()
    server.client.post(server.path(paused, "/pause"))
    server.stop()
    monkeypatch.setattr(TwoEngines, "backend_of_other", Silent)
    server = TwoEngines(tmp_path / "state", world)
    try:
        assert server.status(other) == "running"
        assert server.client.post(server.path(other, "/exec"), json={"command": ["true"]}).json()["exit_code"] == 0
        for silent in (paused, jar):
            told = server.client.get(server.path(silent)).json()
            assert (told["status"], told["network"]["in_force"]) == ("closed", False)
            assert "slow" in told["detail"]
        answers.set()
        until(lambda: server.status(jar) == "running")
        until(lambda: server.status(paused) == "paused")
    finally:
        answers.set()
        server.stop()


def test_a_backend_that_never_answers_keeps_a_server_from_ending_no_more_than_from_starting(start, monkeypatch):
    server = start()
    server.sandbox()
    answers = Event()
    monkeypatch.setattr(MemoryBackend, "sandboxes", lambda _: answers.wait())
    monkeypatch.setattr(adoption, "SECONDS_TO_ANSWER", 0.1)
    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.01)
    server = start()
    try:
        server.stop()
        assert not server.is_running
    finally:
        answers.set()


def test_a_client_that_does_not_read_is_disconnected_when_the_server_ends(start):
    """Nor is it waited for. Its answers are more than the connection holds."""
    server = start()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(server.state / SOCKET))
        client.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        assert client.recv(1) == b"H"
        server.stop()
        assert not server.is_running
        with suppress(ConnectionResetError):
            while client.recv(1 << 16):
                pass
