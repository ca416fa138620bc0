"""Everything that happens, followed as it does and resumed where a client left off."""

import asyncio
import time

from belljar.control import hub
from belljar.control.database import Database
from belljar.control.stale import StaleRows
from belljar.control.store import KEPT_EVENTS, SqliteStore, Told
from belljar.gateway.audit.events import COMMON_FIELDS
from tests.control.servers import Event, Server, problem


def names(events: list[Event]) -> list[str]:
    return [event.event for event in events]


def read(server: Server, path: str, last: str, **headers: str) -> list[Event]:
    """Return what is told up to an event of this name."""
    found = []
    with server.events(path, **headers) as events:
        for event in events:
            found.append(event)
            if event.event == last:
                return found
    raise AssertionError(f"{path} ended after {names(found)}")


def test_the_life_of_a_sandbox_is_told_by_server_and_gateway_in_order(start):
    server = start()
    jar = server.sandbox(labels={"a": "b"})
    server.client.put(server.path(jar, "/network"), json={"mode": "allow-all"})
    server.client.post(server.path(jar, "/pause"))
    server.client.post(server.path(jar, "/resume"))
    server.client.delete(server.path(jar))
    told = read(server, "/events?after=0", "sandbox.deleted")
    assert set(names(told)) == {
        "sandbox.opened",
        "sandbox.created",
        "policy.changed",
        "sandbox.paused",
        "sandbox.resumed",
        "sandbox.closed",
        "sandbox.deleted",
    }
    assert [event.id for event in told] == sorted({event.id for event in told})
    assert all(event.data["sandbox"] == jar and event.data["event"] == event.event for event in told)
    assert all(list(event.data)[:4] == list(COMMON_FIELDS) for event in told)
    assert next(event for event in told if event.event == "sandbox.created").data["labels"] == {"a": "b"}


def test_a_stream_goes_on_where_it_was_left(server):
    jar = server.sandbox()
    [*_, created] = read(server, server.path(jar, "/events?after=0"), "sandbox.created")
    server.client.post(server.path(jar, "/pause"))
    server.client.post(server.path(jar, "/resume"))
    told = read(server, server.path(jar, "/events"), "sandbox.resumed", **{"last-event-id": str(created.id)})
    assert [name for name in names(told) if name != "sandbox.opened"] == ["sandbox.paused", "sandbox.resumed"]
    assert all(event.id > created.id for event in told)


def test_without_a_number_a_stream_begins_now(server):
    jar = server.sandbox()
    with server.events(server.path(jar, "/events")) as events:
        server.client.post(server.path(jar, "/pause"))
        while (event := next(events)).event != "sandbox.paused":
            assert event.event in ("sandbox.opened", "sandbox.created"), "nothing from before"


def test_the_stream_of_a_sandbox_has_no_others_and_ends_with_it(server):
    jar, other = server.sandbox(), server.sandbox()
    with server.events(server.path(jar, "/events?after=0")) as events:
        server.client.delete(server.path(other))
        server.client.delete(server.path(jar))
        told = list(events)
    assert {event.data["sandbox"] for event in told} == {jar}
    assert told[-1].event == "sandbox.deleted"
    problem(server.client.get(server.path(jar, "/events")), 404, "sandbox_not_found")


def test_numbers_grow_across_restarts_and_nothing_is_forgotten(start):
    first = start()
    jar = first.sandbox()
    before = read(first, "/events?after=0", "sandbox.created")
    second = start()
    after = read(second, "/events?after=0", "sandbox.adopted")
    assert [event for event in after if event.id <= before[-1].id] == before
    second.client.delete(second.path(jar))
    assert read(second, "/events?after=0", "sandbox.deleted")[-1].id > after[-1].id


def test_what_is_read_from_the_database_and_from_memory_is_one_sequence(start, monkeypatch):
    monkeypatch.setattr(hub, "_IN_MEMORY", 3)
    monkeypatch.setattr(hub, "_AT_ONCE", 2)
    server = start()
    jar = server.sandbox()
    for _ in range(5):
        server.client.post(server.path(jar, "/pause"))
        server.client.post(server.path(jar, "/resume"))
    server.client.delete(server.path(jar))
    told = read(server, "/events?after=0", "sandbox.deleted")
    assert [event.id for event in told] == list(range(1, len(told) + 1))
    assert names(told).count("sandbox.paused") == names(told).count("sandbox.resumed") == 5


def test_odd_numbers_are_refused(server):
    problem(server.client.get("/events", headers={"last-event-id": "x"}), 400, "invalid_request")
    problem(server.client.get("/events?after=-1"), 400, "invalid_request")


def test_streams_end_with_the_server(start):
    server = start()
    began = time.monotonic()
    with server.events("/events") as events:
        server._stop()
        assert list(events) == []
    assert time.monotonic() - began < 10


def test_health_and_metrics(server):
    jar = server.sandbox()
    assert server.client.get("http://localhost/healthz").json()["status"] == "ok"
    metrics = server.client.get("http://localhost/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f'belljar_policy_generation{{sandbox="{jar}"}} 1' in metrics.text


def test_no_amount_of_what_is_allowed_washes_away_what_was_denied_or_decided(tmp_path):
    async def look() -> tuple[int, int, int]:
        database = Database(tmp_path / "belljar.db")
        stale = StaleRows(tmp_path / "stale")
        store = SqliteStore(database, stale)
        await store.add_events([Told("sb-1", "policy.changed", "{}")])
        await store.add_events([Told("sb-1", "flow.denied", "{}")] * 20)
        await store.add_events([Told("sb-1", "dns.answered", "{}")] * (KEPT_EVENTS + 1000))
        await store.add_events([Told("sb-2", "dns.answered", "{}")])
        await store.forget_old_events()
        denied = await store.latest("sb-1", ["flow.denied"], KEPT_EVENTS)
        traffic = await store.latest("sb-1", ["dns.answered"], 2 * KEPT_EVENTS)
        decided = await store.latest("sb-1", ["policy.changed"], KEPT_EVENTS)
        database.close()
        stale.close()
        return len(denied), len(traffic), len(decided)

    assert asyncio.run(look()) == (20, KEPT_EVENTS, 1)
