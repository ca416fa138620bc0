import pytest

from belljar.gateway.io.loop import Cancelled, Loop, Task
from belljar.gateway.io.sharing import Shared
from belljar.turns import SLICE, Owner
from tests.gateway.driving import Driver


class Work:
    """Work that ends when it is told to, and tells how often it was begun and what came of it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, key: str) -> str:
        self.begun.append(key)
        try:
            await self._loop.sleep(1.0)
        except Cancelled:
            self.cancelled.append(key)
            raise
        self.ended.append(key)
        if key == "broken":
            raise ZeroDivisionError
        return f"{key} {len(self.begun)}"


@pytest.fixture
def work(driver):
    return Work(driver.loop)


@pytest.fixture
def shared(driver):
    shared: Shared[str] = Shared(driver.loop)
    yield shared
    assert len(shared) == 0


def begin(driver: Driver, shared: Shared[str], work: Work, *keys: str) -> list[Task]:
    tasks = [driver.start(shared.do(key, work)) for key in keys]
    driver.settle()
    return tasks


def test_work_of_one_key_is_done_once_for_all(driver, shared, work):
    tasks = begin(driver, shared, work, "a", "a", "b", "a")
    assert len(shared) == 2
    assert "a" in shared
    driver.advance(1.0)
    assert [task.result for task in tasks] == ["a 2", "a 2", "b 2", "a 2"]
    assert work.begun == ["a", "b"]


def test_whoever_comes_afterwards_begins_anew(driver, shared, work):
    for expected in ["a 1", "a 2"]:
        [task] = begin(driver, shared, work, "a")
        driver.advance(1.0)
        assert task.result == expected


def test_an_error_is_raised_to_everyone(driver, shared, work):
    tasks = begin(driver, shared, work, "broken", "broken")
    driver.advance(1.0)
    for task in tasks:
        with pytest.raises(ZeroDivisionError):
            driver.result(task)


def test_those_who_stay_get_their_result(driver, shared, work):
    first, second, third = begin(driver, shared, work, "a", "a", "a")
    first.cancel()
    third.cancel()
    driver.advance(1.0)
    assert second.result == "a 1"
    assert isinstance(first.error, Cancelled)
    assert isinstance(third.error, Cancelled)


def test_when_the_last_has_left_the_work_is_cancelled(driver, shared, work):
    tasks = begin(driver, shared, work, "a", "a")
    for task in tasks:
        task.cancel()
    assert "a" not in shared
    driver.settle()
    assert (work.cancelled, work.ended) == (["a"], [])


def test_nobody_joins_work_that_is_being_cancelled(driver, shared, work):
    [leaver] = begin(driver, shared, work, "a")
    leaver.cancel()
    [comer] = begin(driver, shared, work, "a")
    assert work.cancelled == ["a"]
    driver.advance(1.0)
    assert comer.result == "a 2"


def test_work_that_was_never_begun_can_be_abandoned(driver, shared, work):
    task = driver.start(shared.do("a", work))
    driver.loop.turn()
    task.cancel()
    driver.settle()
    driver.advance(1.0)
    assert work.begun == work.cancelled
    assert isinstance(task.error, Cancelled)


def test_one_that_was_woken_may_cancel_the_others(driver, shared, work):
    tasks: list[Task] = []

    async def cancel_the_others() -> None:
        await shared.do("a", work)
        for task in tasks[1:]:
            task.cancel()

    tasks += [driver.start(cancel_the_others()) for _ in range(3)]
    driver.settle()
    driver.advance(1.0)
    assert tasks[0].error is None
    assert [type(task.error) for task in tasks[1:]] == [Cancelled, Cancelled]


def test_one_that_was_woken_may_begin_the_same_work_again(driver, shared, work):
    async def twice() -> list[str]:
        return [await shared.do("a", work), await shared.do("a", work)]

    task = driver.start(twice())
    driver.settle()
    driver.advance(1.0)
    driver.advance(1.0)
    assert task.result == ["a 1", "a 2"]


def test_others_have_their_turn_while_many_who_waited_go_on(driver, shared, work):
    busy, other, order = Owner(), Owner(), []

    async def want() -> None:
        await shared.do("a", work)
        order.append("busy")
        driver.clock.now += SLICE

    with driver.loop.working_for(busy):
        tasks = [driver.start(want()) for _ in range(10)]
    driver.settle()
    driver.clock.now += 1.0
    driver.until(lambda: order)
    driver.loop.call_soon_for(other, lambda: order.append("other"))
    driver.until(lambda: all(task.done for task in tasks))
    assert order.index("other") <= 2
