"""What the benchmark measures is the real thing: connections that were inspected, decided and relayed to the origin."""

from dataclasses import replace

import pytest

from bench.arena import Arena
from bench.fetching import MissingError
from bench.load import Work
from bench.messages import client_hello, question
from bench.origin import ANSWER, STREAM


@pytest.fixture(scope="module")
def arena(privileged):
    with Arena() as arena:
        yield arena


@pytest.fixture(scope="module")
def belljar(arena):
    return arena.belljar()


@pytest.fixture
def work(belljar):
    return Work("answer", belljar.address_of(ANSWER), belljar.port, client_hello(ANSWER).hex(), seconds=0.05)


def test_clients_get_the_origins_answer_through_the_gateway(arena, belljar, work):
    assert arena.perform(belljar, work).count > 0


def test_a_client_hello_with_another_name_is_not_let_through(arena, belljar, work):
    with pytest.raises(MissingError, match="not the answer of the origin"):
        arena.perform(belljar, replace(work, message=client_hello(STREAM).hex()))


def test_streams_are_received_by_several_clients(arena, belljar, work):
    hello = client_hello(STREAM).hex()
    streams = replace(work, kind="stream", address=belljar.address_of(STREAM), message=hello, clients=3)
    assert arena.perform(belljar, streams).count > 3 << 16


def test_questions_are_answered(arena, belljar):
    assert arena.perform(belljar, Work("dns", "127.0.0.1", 53, question(ANSWER).hex(), seconds=0.05)).count > 0
