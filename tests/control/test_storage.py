"""A database that is locked, full or damaged: clear errors; nothing is opened by it, and nothing stays open."""

import sqlite3
from contextlib import closing

import pytest

from belljar.control import database
from belljar.runtime.storage import StorageError
from tests.control.servers import Server, problem, until

X = {"mode": "block-all", "egress": {"allowed_domains": ["x.test"]}}
OTHER = {"mode": "block-all", "egress": {"allowed_domains": ["other.test"]}}


@pytest.fixture
def impatient(monkeypatch):
    """Nobody waits for locks."""
    monkeypatch.setattr(database, "_LOCKED_SECONDS", 0.05)


def refused(server: Server, jar: str, status: int, code: str) -> None:
    """Make sure that whatever opens something is refused, and has not happened."""
    before, made = server.client.get(server.path(jar)).json(), set(server.world.sandboxes)
    problem(server.client.post("/sandboxes", json={"backend": "memory"}), status, code)
    problem(
        server.client.post(server.path(jar, "/network/grants"), json={"allow": "x.test", "seconds": 9}), status, code
    )
    problem(server.client.post(server.path(jar, "/refresh"), json={"ttl": 9}), status, code)
    assert server.client.get(server.path(jar)).json() == before
    assert set(server.world.sandboxes) == made
    explained = server.client.get(server.path(jar, "/network/explain?destination=x.test")).json()
    assert explained["action"] == "deny"
    assert server.client.get("http://localhost/healthz").status_code == 503


def closed(server: Server, jar: str, doomed: str) -> None:
    """Make sure that what closes something is done, although it cannot be written down."""
    told = problem(server.client.put(server.path(jar, "/network"), json=OTHER), 507, "not_written_down")
    assert "is in force" in told["detail"]
    assert action(server, jar, "x.test") == "deny"
    assert action(server, jar, "other.test") == "allow"
    assert server.client.get(server.path(jar)).json()["network"]["in_force"]
    problem(server.client.delete(server.path(doomed)), 507, "not_written_down")
    assert doomed not in server.world.sandboxes


def action(server: Server, jar: str, name: str) -> str:
    return str(server.client.get(server.path(jar, f"/network/explain?destination={name}")).json()["action"])


def test_a_locked_database(start, impatient):
    server = start()
    jar = server.sandbox()
    with closing(sqlite3.connect(server.state / "belljar.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused(server, jar, 503, "storage_unavailable")
        other.execute("ROLLBACK")
    assert server.client.put(server.path(jar, "/network"), json={"mode": "allow-all"}).status_code == 200
    assert server.client.get("http://localhost/healthz").status_code == 200


def full(*_):
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


def test_a_full_disk(start, monkeypatch):
    server = start()
    jar = server.sandbox()

    with monkeypatch.context() as patched:
        patched.setattr(database.Database, "_transact", full)
        refused(server, jar, 507, "storage_full")
    assert server.client.put(server.path(jar, "/network"), json={"mode": "allow-all"}).status_code == 200


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_closes_is_done_on_a_full_disk(start, monkeypatch, is_restarted):
    server = start()
    jar, doomed = server.sandbox(network=X), server.sandbox(network=X)
    with monkeypatch.context() as patched:
        patched.setattr(database.Database, "_transact", full)
        closed(server, jar, doomed)
        if is_restarted:
            server.stop()
    if not is_restarted:
        until(lambda: server.status(doomed) == "gone" and not any((server.state / "stale").read_bytes()))
    server = start()
    assert server.status(doomed) == "gone"
    assert action(server, jar, "x.test") == "deny"
    assert action(server, jar, "other.test") == ("deny" if is_restarted else "allow"), "what nobody knows is closed"
    assert not any((server.state / "stale").read_bytes())


def test_what_closes_is_done_while_the_database_is_locked(start, impatient):
    server = start()
    jar, doomed = server.sandbox(network=X), server.sandbox(network=X)
    with closing(sqlite3.connect(server.state / "belljar.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        closed(server, jar, doomed)
        other.execute("ROLLBACK")
    until(lambda: server.status(doomed) == "gone")


def test_a_revoked_grant_stays_revoked(start, impatient):
    server = start()
    jar = server.sandbox()
    grant = server.client.post(server.path(jar, "/network/grants"), json={"allow": "x.test", "seconds": 3600}).json()
    with closing(sqlite3.connect(server.state / "belljar.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        revoking = server.client.delete(server.path(jar, f"/network/grants/{grant['id']}"))
        problem(revoking, 507, "not_written_down")
        assert action(server, jar, "x.test") == "deny"
        server.stop()
    server = start()
    assert action(server, jar, "x.test") == "deny"
    assert server.client.get(server.path(jar, "/network/grants")).json() == {"grants": []}


def test_a_grant_closes_even_if_that_cannot_be_written_down(start, impatient):
    server = start()
    jar = server.sandbox()
    server.client.post(server.path(jar, "/network/grants"), json={"allow": "x.test", "seconds": 0.3})
    with closing(sqlite3.connect(server.state / "belljar.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        until(lambda: server.client.get(server.path(jar, "/network/grants")).json() == {"grants": []})


@pytest.mark.parametrize("damage", [b"this is no database at all, but long enough to look like one" * 100, None])
def test_a_damaged_database_is_left_as_it_is_and_nothing_is_opened(start, damage):
    server = start()
    jar = server.sandbox()
    server.stop()
    path = server.state / "belljar.db"
    content = path.read_bytes()
    damaged = damage or content[:4096] + b"\xff" * (len(content) - 4096)
    path.write_bytes(damaged)
    with pytest.raises(StorageError, match="damaged"):
        start()
    assert path.read_bytes() == damaged
    assert jar in server.world.sandboxes, "nothing was swept because nothing is known"
    path.write_bytes(content)
    assert start().status(jar) == "running"


def test_a_newer_database_is_refused(start):
    server = start()
    server.stop()
    with closing(sqlite3.connect(server.state / "belljar.db")) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageError, match="newer"):
        start()
