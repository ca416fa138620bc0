"""Events: followed, resumed after the server was away, and put together from whatever pieces arrive."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar import AsyncClient, Client
from belljar.client import NoServerError, NotFoundError, following
from belljar.client.sse import EventParser, ServerSent
from tests.client.test_errors import leaking


def test_what_is_known_and_no_more(jar):
    jar.pause()
    with jar.events(after=0) as events:  # until all of it is written down
        while next(events).event != "sandbox.paused":
            pass
    with jar.events(after=0, follow=False) as events:
        known = list(events)
    assert known[-1].event == "sandbox.paused"
    assert known[-1].fields == {"cause": "request"}
    assert {event.sandbox for event in known} == {jar.id}
    with jar.events(after=known[-2].id, follow=False) as events:
        assert list(events) == known[-1:]


def test_nothing_is_missed_once_the_stream_is_there(client, jar):
    with client.events() as events:
        jar.pause()
        jar.resume()
        seen: list[str] = []
        while not seen or seen[-1] != "sandbox.resumed":
            seen.append(next(events).event)
    assert seen[-2:] == ["sandbox.paused", "sandbox.resumed"]


def test_one_that_is_not_there_is_told_at_once(client):
    sandbox = client.claim(backend="memory")
    sandbox.delete()
    with pytest.raises(NotFoundError), sandbox.events():
        pass


def test_a_stream_goes_on_after_the_server_was_away_and_misses_nothing(start):
    server = start()
    with Client(server.state) as client:
        sandbox = client.claim(backend="memory")
        with sandbox.events() as events:
            server = start()  # on the same state: streams are cut, and the old one is gone
            sandbox.pause()
            seen = [next(events).event]
            while seen[-1] != "sandbox.paused":
                seen.append(next(events).event)
            assert "sandbox.adopted" in seen
            sandbox.delete()
            assert [event.event for event in events][-1] == "sandbox.deleted"


def test_so_does_that_of_the_other_client(start):
    server = start()

    async def act() -> None:
        async with AsyncClient(server.state) as client:
            sandbox = await client.claim(backend="memory")
            async with sandbox.events() as events:
                await asyncio.to_thread(start)
                seen = [(await anext(events)).event]
                while seen[-1] != "sandbox.adopted":
                    seen.append((await anext(events)).event)
                await sandbox.delete()
                assert [event.event async for event in events][-1] == "sandbox.deleted"

    asyncio.run(act())


@leaking
def test_a_server_that_does_not_come_back_is_an_error_in_the_end(start, monkeypatch):
    monkeypatch.setattr("belljar.client.sync.connection.PAUSES", (0.0, 0.0))
    server = start()
    with Client(server.state) as client, client.events() as events:
        server.stop()
        with pytest.raises(NoServerError, match="belljar serve"):
            next(events)


def test_one_deleted_while_nobody_looked_is_the_end(start, monkeypatch):
    first = start()
    with Client(first.state) as client:
        sandbox = client.claim(backend="memory")
        with sandbox.events() as events:
            second = start()
            sandbox.delete()
            seen = {event.event for event in events}  # it may begin with the sandbox's own beginning
            assert seen <= {"sandbox.created", "sandbox.deleted"}
        second.stop()


def test_there_is_patience_for_a_server_that_is_started_anew():
    assert 30 <= sum(following.PAUSES) <= 120


SENT = st.builds(
    ServerSent,
    event=st.sampled_from(["stdout", "flow.denied"]),
    data=st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1),
    id=st.integers(0, 10**6).map(str),
)


@given(st.lists(SENT), st.lists(st.integers(1, 9)))
def test_events_are_put_together_however_they_were_cut(sent, cuts):
    stream = b": hello\n\n" + b"".join(
        f"id: {each.id}\nevent: {each.event}\ndata: {each.data}\n\n: \n\n".encode() for each in sent
    )
    parser, found = EventParser(), []
    for cut in cuts:
        found += parser.feed(stream[:cut])
        stream = stream[cut:]
    assert found + parser.feed(stream) == sent
