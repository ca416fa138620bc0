"""Whether a server asks for a second hello is known when its answer is complete, and not before."""

import socket

import pytest

from belljar.gateway.tcp.retrying import server_asks_for_retry
from belljar.wire.tls.retryhello import ANSWER_BYTES
from tests.gateway.connections import connected

RETRY = bytes.fromhex("160303005802000054 0303 cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
HELLO = RETRY[:-32] + bytes(32)


@pytest.mark.parametrize("answer", [RETRY, HELLO], ids=["retry", "hello"])
@pytest.mark.parametrize("sizes", [(1,), (3, 20), (9, 11, ANSWER_BYTES - 1)], ids=str)
def test_an_answer_that_comes_in_pieces(driver, answer, sizes):
    """The edge of a piece that was seen already is told when nobody expects it, and means nothing."""
    with connected(driver.loop) as (stream, far):
        far.send(answer[: sizes[0]])
        asking = driver.start(server_asks_for_retry(driver.loop, stream))
        driver.settle()
        assert not asking.done
        for begin, end in zip(sizes, (*sizes[1:], len(answer)), strict=True):
            assert stream.watch.on_readable is not None
            stream.watch.on_readable()
            assert not asking.done
            far.send(answer[begin:end])
            driver.settle()
        assert driver.result(asking) is (answer is RETRY)


@pytest.mark.parametrize("size", [0, 1, ANSWER_BYTES - 1])
@pytest.mark.parametrize("is_early", [True, False], ids=["at-once", "later"])
def test_an_answer_that_ends_too_soon(driver, size, is_early):
    with connected(driver.loop) as (stream, far):
        far.send(RETRY[:size])
        if is_early:
            far.shutdown(socket.SHUT_WR)
        asking = driver.start(server_asks_for_retry(driver.loop, stream))
        driver.settle()
        if not is_early:
            assert not asking.done
            far.shutdown(socket.SHUT_WR)
        assert driver.result(asking) is False


def test_an_answer_that_is_complete_and_ends(driver):
    with connected(driver.loop) as (stream, far):
        far.send(RETRY)
        far.shutdown(socket.SHUT_WR)
        assert driver.run(server_asks_for_retry(driver.loop, stream)) is True
