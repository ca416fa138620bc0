"""The loop: who is called, when, and what happens to the others when somebody fails."""

import threading
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from belljar.gateway.io.loop import Cancelled, Loop
from belljar.gateway.io.streams import Stream
from belljar.turns import Owner
from tests.gateway.connections import connected
from tests.gateway.driving import open_descriptors


@pytest.fixture
def crashes(driver):
    """What went to the crash handler, which lets the loop go on."""
    crashes: list[BaseException] = []
    driver.loop.on_crash = crashes.append
    return crashes


class TestDescriptors:
    def test_whoever_waits_is_woken_once(self, driver):
        with connected(driver.loop) as (stream, far):
            calls = []
            stream.watch.on_readable = lambda: calls.append("readable")
            far.send(b"x")
            driver.settle()
            assert calls == ["readable"], "the edge is told once, though the byte is still there"
            far.send(b"y")
            driver.settle()
            assert calls == ["readable", "readable"]

    def test_an_edge_that_nobody_waits_for_is_not_missed_by_whoever_tries_first(self, driver):
        with connected(driver.loop) as (stream, far):
            far.send(b"early")
            driver.settle()
            assert driver.run(stream.read()) == b"early"

    def test_a_wake_up_for_nothing_does_no_harm(self, driver):
        with connected(driver.loop) as (stream, far):
            reading = driver.start(stream.read())
            driver.settle()
            assert stream.watch.on_readable is not None
            stream.watch.on_readable()
            assert not reading.done
            far.send(b"x")
            assert driver.result(reading) == b"x"

    def test_both_directions_are_waited_for_independently(self, driver):
        with connected(driver.loop) as (stream, far):
            reading, writing = driver.start(stream.read()), driver.start(stream.write(bytes(1 << 24)))
            driver.settle()
            assert (reading.done, writing.done) == (False, False)
            far.send(b"x")
            assert driver.result(reading) == b"x"
            driver.until(lambda: writing.done or not far.recv(1 << 20))

    def test_an_unwatched_descriptor_calls_nobody(self, driver):
        with connected(driver.loop) as (stream, far):
            calls = []
            stream.watch.on_readable = lambda: calls.append("readable")
            driver.loop.unwatch(stream)
            driver.loop.unwatch(stream)
            far.send(b"x")
            driver.settle()
            assert calls == []

    def test_an_event_of_a_descriptor_that_a_call_has_just_closed_is_dropped(self, driver):
        with connected(driver.loop) as (one, far_one), connected(driver.loop) as (other, far_other):
            closed = []

            def close(victim: Stream) -> None:
                victim.close()
                closed.append(victim)

            one.watch.on_readable, other.watch.on_readable = partial(close, other), partial(close, one)
            far_one.send(b"x")
            far_other.send(b"x")
            driver.settle()
            assert len(closed) == 1

    def test_only_a_task_can_wait(self, driver):
        waiting = driver.loop.sleep(1)
        with pytest.raises(RuntimeError, match="only a task"):
            waiting.send(None)


class TestTime:
    def test_timers_run_in_the_order_of_their_times(self, driver):
        calls = []
        for seconds in (3, 1, 2, 1.5):
            driver.loop.call_later(seconds, lambda seconds=seconds: calls.append(seconds))
        driver.advance(1.6)
        assert calls == [1, 1.5]
        driver.advance(10)
        assert calls == [1, 1.5, 2, 3]

    def test_timers_of_the_same_time_run_in_the_order_they_were_made(self, driver):
        calls = []
        for number in range(5):
            driver.loop.call_later(1, lambda number=number: calls.append(number))
        driver.advance(1)
        assert calls == [0, 1, 2, 3, 4]

    def test_a_cancelled_timer_does_not_run_even_if_it_is_due(self, driver):
        calls = []

        def first() -> None:
            second.cancel()

        driver.loop.call_later(1, first)
        second = driver.loop.call_later(1, lambda: calls.append("second"))
        driver.advance(1)
        assert calls == []

    def test_cancelled_timers_do_not_pile_up(self, driver):
        for _ in range(100_000):
            driver.loop.call_later(3600, lambda: None).cancel()
        assert len(driver.loop._timers.heap) < 10_000

    def test_a_task_that_always_sleeps_for_no_time_leaves_turns_to_others(self, driver):
        async def never_tired() -> Any:
            while True:
                await driver.loop.sleep(0)

        busy = driver.start(never_tired())
        driver.settle()
        busy.cancel()
        driver.until(lambda: busy.done)

    def test_the_loop_waits_no_longer_than_the_next_timer(self):
        loop = Loop()
        loop.call_later(3600, lambda: None)
        loop.call_later(0.01, loop.stop)
        loop.run()
        loop.close()


class TestTasks:
    def test_the_result_of_a_task(self, driver):
        async def work() -> Any:
            await driver.loop.sleep(1)
            return "done"

        async def boss() -> Any:
            return await driver.loop.join(driver.loop.spawn(work()))

        task = driver.start(boss())
        driver.settle()
        driver.advance(1)
        assert driver.result(task) == "done"

    def test_the_error_of_a_task_belongs_to_whoever_joins_it(self, driver, crashes):
        async def work() -> Any:
            raise ZeroDivisionError

        async def boss() -> Any:
            with pytest.raises(ZeroDivisionError):
                await driver.loop.join(driver.loop.spawn(work()))

        driver.run(boss())
        assert crashes == []

    def test_a_task_that_is_cancelled_before_it_begins_never_does(self, driver, crashes):
        """Whether or not the loop turns again: what is never begun, Python complains of."""
        began = []

        async def work() -> Any:
            began.append("work")

        task = driver.start(work())
        coroutine = task._coroutine
        task.cancel()
        assert task.done
        assert isinstance(task.error, Cancelled)
        assert coroutine.cr_frame is None, "it is closed"
        driver.settle()
        assert (began, crashes) == ([], [])

    def test_a_cancelled_task_ends_where_it_waits(self, driver):
        trace = []

        async def work() -> Any:
            try:
                await driver.loop.sleep(1)
            finally:
                trace.append("cleaned up")

        task = driver.start(work())
        driver.settle()
        task.cancel()
        with pytest.raises(Cancelled):
            driver.result(task)
        assert trace == ["cleaned up"]

    def test_cancelling_twice_or_too_late_does_nothing(self, driver, crashes):
        task = driver.start(driver.loop.sleep(1))
        driver.settle()
        task.cancel()
        task.cancel()
        driver.settle()
        task.cancel()
        driver.settle()
        assert isinstance(task.error, Cancelled)
        assert crashes == []

    def test_whoever_works_for_a_cancelled_task_does_nothing_more(self, driver):
        steps = []

        async def work() -> None:
            while True:
                steps.append(True)
                await driver.loop.give_way()

        async def employ() -> None:
            worker = driver.loop.spawn(work())
            try:
                await driver.loop.join(worker)
            finally:
                worker.cancel()

        with driver.loop.working_for(Owner()):
            task = driver.start(employ())
        driver.until(lambda: steps)
        task.cancel()
        before = len(steps)
        driver.settle()
        assert len(steps) == before

    def test_a_task_may_cancel_itself(self, driver):
        async def work() -> Any:
            driver.loop.current.cancel()
            await driver.loop.sleep(1)

        with pytest.raises(Cancelled):
            driver.run(work())

    def test_a_task_may_decline_to_be_cancelled(self, driver):
        async def work() -> Any:
            with suppress(Cancelled):
                await driver.loop.sleep(1)
            await driver.loop.sleep(1)
            return "stubborn"

        task = driver.start(work())
        driver.settle()
        task.cancel()
        driver.settle()
        driver.advance(1)
        assert driver.result(task) == "stubborn"

    def test_waiting_for_anything_at_all(self, driver):
        wakes, undone = [], []

        def arrange(wake):
            wakes.append(wake)
            return lambda: undone.append(wake)

        task = driver.start(driver.loop.wait_for(arrange))
        driver.settle()
        wakes[0]()
        assert task.done
        assert undone == wakes


class TestTimeout:
    def test_what_takes_too_long_is_interrupted(self, driver):
        async def work() -> Any:
            with pytest.raises(TimeoutError), driver.loop.timeout(1):
                await driver.loop.sleep(5)
            return "went on"

        task = driver.start(work())
        driver.settle()
        driver.advance(1)
        assert driver.result(task) == "went on"

    def test_what_is_over_in_time_is_not(self, driver):
        async def work() -> Any:
            with driver.loop.timeout(1):
                await driver.loop.sleep(0.5)
            await driver.loop.sleep(5)
            return "went on"

        task = driver.start(work())
        for _ in range(12):
            driver.advance(0.5)
        assert driver.result(task) == "went on"

    @pytest.mark.parametrize(("outer", "inner"), [(1, 1), (1, 2), (2, 1)])
    def test_two_timeouts_at_once_leave_nothing_for_later(self, driver, outer, inner):
        """A timeout that has ended must not raise in whatever the task does next."""

        async def work() -> Any:
            with suppress(TimeoutError), driver.loop.timeout(outer):
                with suppress(TimeoutError), driver.loop.timeout(inner):
                    await driver.loop.sleep(10)
                return "inner"
            await driver.loop.sleep(5)
            return "outer"

        task = driver.start(work())
        driver.settle()
        driver.advance(2)
        driver.advance(5)
        assert driver.result(task) in ("inner", "outer")

    def test_a_task_that_is_cancelled_in_the_same_turn_is_interrupted_first(self, driver):
        trace = []

        async def work() -> Any:
            try:
                with driver.loop.timeout(1):
                    await driver.loop.sleep(10)
            except TimeoutError:
                trace.append("timeout")
            await driver.loop.sleep(10)

        task = driver.start(work())
        driver.settle()
        driver.loop.call_later(1, task.cancel)
        driver.advance(1)
        assert isinstance(task.error, Cancelled)
        assert trace == ["timeout"]


class TestBugs:
    def broken(self) -> None:
        raise ZeroDivisionError

    async def broken_task(self) -> Any:
        raise ZeroDivisionError

    def test_a_call_that_fails_does_not_stop_the_others(self, driver, crashes):
        calls = []
        with connected(driver.loop) as (stream, far):
            stream.watch.on_readable = self.broken
            stream.watch.on_writable = lambda: calls.append("writable")
            driver.loop.call_soon(self.broken)
            driver.loop.call_soon(lambda: calls.append("soon"))
            driver.loop.call_later(1, self.broken)
            driver.loop.call_later(1, lambda: calls.append("later"))
            far.send(b"x")
            driver.advance(1)
        assert calls == ["soon", "writable", "later"]
        assert [type(error) for error in crashes] == [ZeroDivisionError] * 3

    def test_a_task_that_fails_does_not_stop_the_others(self, driver, crashes):
        driver.loop.spawn(self.broken_task())
        other = driver.start(driver.loop.sleep(1))
        driver.settle()
        driver.advance(1)
        assert (other.done, other.error) == (True, None)
        assert [type(error) for error in crashes] == [ZeroDivisionError]

    def test_a_call_from_a_thread_that_fails_takes_no_other_with_it(self, driver, crashes):
        calls = []
        driver.loop.call_from_thread(self.broken)
        driver.loop.call_from_thread(lambda: calls.append("second"))
        driver.settle()
        assert calls == ["second"]
        assert len(crashes) == 1

    def test_a_loop_of_its_own_says_so_in_the_log(self, caplog):
        loop = Loop()
        loop.call_soon(self.broken)
        loop.turn()
        loop.close()
        assert "ZeroDivisionError" in caplog.text

    def test_who_interrupts_the_program_interrupts_the_loop(self, driver):
        async def interrupted() -> Any:
            raise KeyboardInterrupt

        driver.loop.spawn(interrupted())
        with pytest.raises(KeyboardInterrupt):
            driver.settle()


class TestThreads:
    def test_a_call_from_another_thread_wakes_a_loop_that_waits(self):
        loop = Loop()
        thread = threading.Thread(target=lambda: loop.call_from_thread(loop.stop))
        loop.call_soon(thread.start)
        loop.run()
        thread.join()
        loop.close()

    def test_no_call_from_a_thread_is_lost(self):
        loop = Loop()
        seen: list[tuple[int, int]] = []

        def call_often(number: int) -> None:
            for count in range(1000):
                loop.call_from_thread(partial(seen.append, (number, count)))

        threads = [threading.Thread(target=call_often, args=[number]) for number in range(4)]
        for thread in threads:
            loop.call_soon(thread.start)

        def stop_when_done() -> None:
            if len(seen) == 4000:
                loop.stop()
            else:
                loop.call_later(0.001, stop_when_done)

        loop.call_soon(stop_when_done)
        loop.run()
        for thread in threads:
            thread.join()
        loop.close()
        for number in range(4):
            assert [count for source, count in seen if source == number] == list(range(1000))


def test_fairness(driver):
    """Somebody with endless work to do is called no more often than somebody with a little."""
    calls = {"busy": 0, "idle": 0}

    def busy() -> None:
        calls["busy"] += 1
        driver.loop.call_soon(busy)

    driver.loop.call_soon(busy)
    with connected(driver.loop) as (stream, far):

        async def echo() -> Any:
            while data := await stream.read():
                calls["idle"] += 1
                await stream.write(data)

        task = driver.start(echo())
        for turn in range(100):
            far.send(b"x")
            driver.until(lambda turn=turn: calls["idle"] > turn)
            far.recv(1)
        assert calls["busy"] < 1000
        task.cancel()
        driver.settle()


def test_closing_leaves_nothing_open():
    before = open_descriptors()
    Loop().close()
    assert open_descriptors() == before
