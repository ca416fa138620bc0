"""Turns: whoever has endless work slows itself, and nobody else. Time passes only where a test says so."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from belljar.gateway.io.loop import Cancelled
from belljar.gateway.io.sharing import Shared
from belljar.turns import SLICE, Owner
from tests.gateway.connections import connected
from tests.gateway.driving import Driver

STEP = SLICE / 10


class Busy:
    """An owner that always has something to do, each time for so long."""

    def __init__(self, driver: Driver, seconds: float = STEP) -> None:
        self._driver, self._seconds = driver, seconds
        self.owner = Owner()
        self.calls = 0
        self.is_tired = False
        driver.loop.call_soon_for(self.owner, self.work)

    def work(self) -> None:
        self.calls += 1
        self._driver.clock.now += self._seconds
        if not self.is_tired:
            self._driver.loop.call_soon(self.work)


@pytest.fixture
def busy(driver):
    """Return a function that makes somebody busy, who stops at the end."""
    all_of_them = []

    def make(seconds: float = STEP) -> Busy:
        all_of_them.append(Busy(driver, seconds))
        return all_of_them[-1]

    yield make
    for each in all_of_them:
        each.is_tired = True
    driver.until(lambda: not driver.loop._line)


def turns_until(driver: Driver, happened: Callable[[], object]) -> int:
    for turns in itertools.count():
        if happened():
            return turns
        driver.loop.turn()
    raise AssertionError


class TestShares:
    def test_a_slice_ends_when_its_time_is_over(self, driver, busy):
        hog = busy()
        driver.loop.turn()
        assert hog.calls in (10, 11)

    def test_who_is_alone_is_not_held_back(self, driver, busy):
        hog = busy()
        for _ in range(50):
            driver.loop.turn()
        assert hog.calls == pytest.approx(500, rel=0.01)

    def test_who_is_alone_has_its_next_turn_whatever_it_owes(self, driver):
        owner, done = Owner(), []
        owner.credit = -50.5 * SLICE
        driver.loop.call_soon_for(owner, lambda: done.append("next"))
        assert turns_until(driver, lambda: done) == 1
        assert owner.credit == pytest.approx(0.5 * SLICE)

    def test_time_is_shared_evenly_whatever_the_steps_take(self, driver, busy):
        """Steps that are longer than a slice are paid for later."""
        owners = [busy(seconds) for seconds in (STEP, 3 * STEP, 25 * STEP, 170 * STEP)]
        while driver.clock.now < 1000 + 40_000 * STEP:
            driver.loop.turn()
        shares = [each.owner.used / STEP for each in owners]
        assert sum(shares) == pytest.approx(40_000, rel=0.01)
        assert all(share == pytest.approx(10_000, rel=0.05) for share in shares)

    def test_all_time_is_charged_to_somebody(self, driver, busy):
        one, other = busy(), busy(5 * STEP)
        for _ in range(100):
            driver.loop.turn()
        assert one.owner.used + other.owner.used == pytest.approx(driver.clock.now - 1000)

    def test_a_small_request_goes_ahead_of_many_hogs(self, driver, busy):
        for _ in range(20):
            busy()
        for _ in range(100):
            driver.loop.turn()
        guest, done = Owner(), []
        driver.loop.call_soon_for(guest, lambda: done.append("small"))
        assert turns_until(driver, lambda: done) == 1

    def test_a_hog_cannot_pass_for_a_small_request_by_pausing(self, driver, busy):
        """Whoever has used its credit up stands at the end of the line, even if it had nothing to do meanwhile."""
        steady, moody = busy(), Owner()

        def work() -> None:
            driver.clock.now += 2 * SLICE

        for _ in range(200):
            if not moody.calls:
                driver.loop.call_soon_for(moody, work)
            driver.loop.turn()
        assert moody.used == pytest.approx(steady.owner.used, rel=0.05)

    def test_what_comes_first_is_done_before_all_else_and_others_do_not_wait_for_it(self, driver, busy):
        hog, guest, done = busy(), Owner(), []
        driver.loop.turn()
        before = hog.calls

        def cut() -> None:
            assert hog.calls == before
            driver.clock.now += STEP
            done.append("cut")

        driver.loop.call_first_for(hog.owner, [cut] * 100)
        driver.loop.call_soon_for(guest, lambda: done.append("small"))
        driver.until(lambda: hog.calls > before)
        assert done.count("cut") == 100
        assert done.index("small") < 25

    def test_what_fails_is_charged_too_and_stops_nobody(self, driver, busy):
        crashes: list[BaseException] = []
        driver.loop.on_crash = crashes.append
        hog, guest, done = busy(), Owner(), []

        def broken() -> None:
            driver.clock.now += STEP
            raise ZeroDivisionError

        driver.loop.call_soon_for(guest, broken)
        driver.loop.call_soon_for(guest, lambda: done.append("next"))
        assert turns_until(driver, lambda: done) <= 2
        assert guest.used == pytest.approx(STEP)
        assert len(crashes) == 1
        assert hog.calls <= 10

    def test_who_was_held_up_does_not_pay_for_it_for_ever(self, driver, busy):
        steady, unlucky = busy(), Owner()
        done = []

        def sleep() -> None:
            driver.clock.now += 3600

        driver.loop.call_soon_for(unlucky, sleep)
        driver.until(lambda: unlucky.used)
        before = steady.owner.used
        driver.loop.call_soon_for(unlucky, lambda: done.append("again"))
        driver.until(lambda: done)
        assert steady.owner.used - before < 0.03


class TestTheGatewayItself:
    def test_comes_first_and_is_not_interrupted(self, driver, busy):
        hog, done = busy(), []

        def order() -> None:
            driver.clock.now += 10 * SLICE
            done.append(hog.calls)

        for _ in range(3):
            driver.loop.call_soon(order)
        driver.loop.turn()
        assert done == [0, 0, 0]

    @pytest.mark.parametrize("how", ["a thread", "a timer", "a descriptor"])
    def test_waits_for_one_slice_at_most(self, driver, busy, how):
        hog, done = busy(), []
        with connected(driver.loop) as (stream, far):
            driver.loop.turn()
            if how == "a thread":
                driver.loop.call_from_thread(lambda: done.append(hog.calls))
            elif how == "a timer":
                driver.loop.call_later(STEP, lambda: done.append(hog.calls))
            else:
                stream.watch.on_readable = lambda: done.append(hog.calls)
                far.send(b"x")
            before = hog.calls
            driver.until(lambda: done)
            assert done[0] - before <= 20


class TestInheritance:
    """Whatever is made in an owner's turn is done in its turns."""

    def test_tasks_timers_and_watches(self, driver):
        owner, seen = Owner(), []

        def look() -> None:
            seen.append(driver.loop.owner)

        async def work(stream: Any) -> None:
            look()
            driver.loop.call_soon(look)
            driver.loop.call_later(1, look)
            driver.loop.watch(stream).on_readable = look
            await driver.loop.join(driver.loop.spawn(inner()))
            look()

        async def inner() -> None:
            await driver.loop.sleep(1)
            look()

        with connected(driver.loop) as (stream, far):
            driver.loop.unwatch(stream)
            with driver.loop.working_for(owner):
                task = driver.start(work(stream))
            far.send(b"x")
            driver.settle()
            driver.advance(1)
            driver.until(lambda: task.done)
        assert len(seen) == 6
        assert set(seen) == {owner}
        assert driver.loop.owner is not owner

    def test_who_is_woken_in_somebody_else_s_turn_goes_on_in_its_own(self, driver):
        owner, seen, wakes = Owner(), [], []

        def arrange(wake: Callable[[], None]) -> Callable[[], None]:
            wakes.append(wake)
            return lambda: None

        async def wait() -> None:
            await driver.loop.wait_for(arrange)
            seen.append(driver.loop.owner)

        with driver.loop.working_for(owner):
            driver.start(wait())
        driver.settle()
        wakes[0]()
        assert seen == []
        driver.settle()
        assert seen == [owner]

    def test_nobody_waits_for_work_that_is_done_in_the_turns_of_a_hog(self, driver, busy):
        """A name that a hog looks up is looked up once more for others."""
        hog, guest = busy(), Owner()
        shared: Shared[Any] = Shared(driver.loop)

        async def work(_key: str) -> Any:
            for _ in range(3):
                await driver.loop.give_way()
            return driver.loop.owner

        tasks = []
        for owner in (hog.owner, hog.owner, guest):
            with driver.loop.working_for(owner):
                tasks.append(driver.start(shared.do("name", work)))
        driver.until(lambda: all(task.done for task in tasks))
        assert [task.result for task in tasks] == [hog.owner, hog.owner, guest]


class TestGivingWay:
    def test_who_always_has_something_to_read_leaves_turns_to_others(self, driver):
        owner, guest, read = Owner(), Owner(), []
        with connected(driver.loop) as (stream, far):

            async def read_on() -> None:
                while data := await stream.read(1):
                    driver.clock.now += STEP
                    read.append(data)

            with driver.loop.working_for(owner):
                task = driver.start(read_on())
            far.send(bytes(1000))
            driver.until(lambda: read)
            assert len(read) <= 11
            done: list[str] = []
            driver.loop.call_soon_for(guest, lambda: done.append("small"))
            driver.until(lambda: done)
            assert len(read) <= 31
            task.cancel()
            driver.until(lambda: task.done)

    def test_who_has_given_way_can_be_cancelled(self, driver):
        task = driver.start(driver.loop.give_way())
        driver.loop.turn()
        assert not task.done
        task.cancel()
        with pytest.raises(Cancelled):
            driver.result(task)

    def test_events_that_wait_are_kept_once(self, driver, busy):
        """However many there are: a descriptor stands in its owner's queue once."""
        owner, calls = Owner(), []
        busy()
        with connected(driver.loop) as (stream, far):
            stream.watch.owner = owner
            stream.watch.on_readable = lambda: calls.append("readable")
            owner.credit = -100 * SLICE
            for _ in range(20):
                far.send(b"x")
                driver.loop.turn()
            assert len(owner.calls) == 1
            assert calls == []
            driver.until(lambda: calls)
            assert calls == ["readable"]

    def test_events_of_what_was_closed_meanwhile_call_nobody(self, driver, busy):
        owner, calls = Owner(), []
        busy()
        with connected(driver.loop) as (stream, far):
            stream.watch.owner = owner
            stream.watch.on_readable = lambda: calls.append("readable")
            owner.credit = -10 * SLICE
            far.send(b"x")
            driver.loop.turn()
            stream.close()
            driver.until(lambda: not owner.calls)
            assert calls == []
