"""What is measured of the broker is the real thing: a provider's stream, relayed event by event, with nothing lost."""

import socket
from functools import partial

import pytest

from bench.broker import events_relayed
from bench.fetching import PEERS, MissingError
from bench.peers import Peer
from bench.relaypeers import RELAYS
from bench.relays import Loopback


@pytest.fixture(scope="module")
def loopback(privileged):
    with Loopback() as loopback:
        yield loopback


@pytest.fixture(scope="module")
def belljar(loopback):
    return loopback.belljar()


def test_events_are_relayed(loopback, belljar):
    for relay in (loopback.direct(), *belljar):
        assert events_relayed(loopback, relay, 50) > 0


def test_a_request_that_is_not_served_is_no_figure(loopback, belljar):
    plain, _ = belljar
    with pytest.raises(MissingError, match=r"answers b'HTTP/1\.1 4"):
        events_relayed(loopback, plain._replace(path="/elsewhere"), 50)


def test_a_peer_that_does_not_start_is_named_with_its_words(loopback):
    peer = Peer("0", "nothing", ["sh", "-c", "echo no such luck; exit 1"], 4999)
    with pytest.raises(MissingError, match="does not start: no such luck"):
        loopback.peer("broken", lambda *_: peer, "/")


def test_there_is_no_way_out(loopback):
    with pytest.raises(OSError, match="unreachable"):
        loopback.place.call(partial(socket.create_connection, ("203.0.113.10", 443), 1))


@pytest.mark.parametrize("name", RELAYS)
def test_a_peer_relays_events(loopback, name):
    if not (PEERS / name.lower() / "bin" / "pip").exists():
        pytest.skip(f"{name} is not installed below .cache/bench-peers")
    prepare, path = RELAYS[name]
    assert events_relayed(loopback, loopback.peer(name, prepare, path), 50) > 0
