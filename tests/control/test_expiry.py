"""Times to live: the soft one pauses, the hard one deletes, and a restart changes nothing about it."""

import threading
import time

from belljar.runtime import housekeeping
from belljar.testing.memory import MemoryBackend
from tests.control.servers import problem, until


def test_soft_expiry_pauses_and_says_so(server):
    jar = server.sandbox(ttl=0.1)
    until(lambda: server.status(jar) == "paused")
    told = server.client.get(server.path(jar)).json()
    assert "time to live" in told["detail"]
    assert told["expires_at"] is None
    with server.events(server.path(jar, "/events?after=0")) as events:
        assert next(event for event in events if event.event == "sandbox.paused").data["cause"] == "ttl"


def test_hard_expiry_deletes_a_paused_one_too(server):
    jar = server.sandbox(ttl=0.05, hard_ttl=0.3)
    until(lambda: server.status(jar) == "gone")
    assert jar not in server.world.sandboxes


def test_a_backend_that_hangs_keeps_nobody_else_waiting(start, monkeypatch):
    hangs, pause = threading.Event(), MemoryBackend.pause

    def pause_later(self, sandbox):
        if sandbox == stuck:
            hangs.wait()
        pause(self, sandbox)

    server = start()
    stuck, other = server.sandbox(), server.sandbox()
    monkeypatch.setattr(MemoryBackend, "pause", pause_later)
    monkeypatch.setattr(MemoryBackend, "sandboxes", lambda _: hangs.wait() and [])
    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.01)
    try:
        server.client.post(server.path(stuck, "/refresh"), json={"ttl": 0.01})
        server.client.post(server.path(other, "/network/grants"), json={"allow": "gitlab.com", "seconds": 0.01})
        until(lambda: server.client.get(server.path(other, "/network/grants")).json() == {"grants": []})
        server.client.post(server.path(other, "/refresh"), json={"ttl": 0.01})
        until(lambda: server.status(other) == "paused")
        assert server.status(stuck) == "running"
    finally:
        monkeypatch.undo()
        hangs.set()
    until(lambda: server.status(stuck) == "paused")


def test_to_resume_is_to_begin_anew(server):
    jar = server.sandbox(ttl=0.2)
    until(lambda: server.status(jar) == "paused")
    assert server.client.post(server.path(jar, "/resume")).json()["expires_at"] > time.time()
    until(lambda: server.status(jar) == "paused")


def test_refreshing_gives_more_time_and_takes_it_away(server):
    jar = server.sandbox(ttl=600, hard_ttl=900)
    before = server.client.get(server.path(jar)).json()
    after = server.client.post(server.path(jar, "/refresh"), json={"ttl": 700}).json()
    assert after["expires_at"] > before["expires_at"] + 90
    assert after["hard_expires_at"] > before["hard_expires_at"]
    told = problem(server.client.post(server.path(jar, "/refresh"), json={"ttl": 1000}), 400, "invalid_request")
    assert told["field"] == "ttl"
    assert server.client.get(server.path(jar)).json() == after, "a bad request changes nothing"
    assert server.client.post(server.path(jar, "/refresh"), json={"ttl": 0}).json()["expires_at"] is None
    assert server.client.post(server.path(jar, "/refresh")).json()["ttl"] is None


def test_both_survive_a_restart(start):
    server = start()
    soft, hard, neither = server.sandbox(ttl=0.6), server.sandbox(hard_ttl=0.6), server.sandbox(ttl=600)
    grant = {"allow": "github.com", "seconds": 0.6}
    server.client.post(server.path(neither, "/network/grants"), json=grant)
    expires = server.client.get(server.path(neither)).json()["expires_at"]
    server = start()
    until(lambda: (server.status(soft), server.status(hard)) == ("paused", "gone"))
    assert server.client.get(server.path(neither)).json()["expires_at"] == expires
    until(lambda: server.client.get(server.path(neither, "/network/grants")).json() == {"grants": []})


def test_what_has_expired_while_the_server_was_away_is_seen_to_at_once(start):
    server = start()
    jar, gone = server.sandbox(ttl=0.01), server.sandbox(hard_ttl=0.3)
    server.client.post(server.path(jar, "/network/grants"), json={"allow": "github.com", "seconds": 0.3})
    server.stop()
    time.sleep(0.3)  # that is what it is about
    server = start()
    answer = server.client.get(server.path(jar, "/network/explain?destination=github.com"))
    assert answer.json()["action"] == "deny", "an expired grant is never adopted"
    until(lambda: (server.status(jar), server.status(gone)) == ("paused", "gone"))
