"""The token bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.io.tokenbucket import TokenBucket


def test_it_starts_full_and_refills_with_time():
    bucket = TokenBucket(rate=2, burst=3)
    assert [bucket.admit(10.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.admit(10.5) for _ in range(2)] == [True, False]
    assert [bucket.admit(99.0) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_was_set_back_neither_brings_nor_takes():
    bucket = TokenBucket(rate=1, burst=2)
    assert bucket.admit(1000.0)
    assert bucket.admit(10.0)
    assert not bucket.admit(10.5)
    assert bucket.admit(11.0)


@given(
    st.integers(1, 50),
    st.integers(1, 50),
    st.lists(st.floats(0, 2, allow_nan=False), max_size=200),
)
def test_no_more_than_the_burst_and_the_rate_are_admitted(rate, burst, pauses):
    bucket = TokenBucket(rate, burst)
    now = started = 5.0
    admitted = 0
    for pause in pauses:
        now += pause
        admitted += bucket.admit(now)
    assert admitted <= burst + rate * (now - started) + 1e-6


@pytest.mark.parametrize("rate", [1, 10, 500])
def test_whoever_keeps_to_the_rate_is_always_admitted(rate):
    bucket = TokenBucket(rate, burst=1)
    assert all(bucket.admit(step * 1.0001 / rate) for step in range(1000))
