"""Workers that live and do not listen: what is wanted of their sandboxes happens all the same, and fails closed."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import dns.message
import pytest

from belljar.gateway.audit.log import open_log
from belljar.gateway.workers import keeper
from belljar.gateway.workers.process import WorkerSilentError
from tests.gateway.driving import HANGS
from tests.gateway.serving import resolved
from tests.gateway.test_workers import (
    ECHO,
    HELLO,
    NOTHING,
    OTHER,
    PLAIN,
    is_alive,
    kill,
    reaches,
    replaced,
    says,
    served,
    start,
    stop,
    until,
)
from tests.universe import Sandbox, addresses

MANY = 27


@pytest.fixture
def workers(universe):
    """Two workers where the gateway lives."""
    with start(universe) as workers:
        yield workers


def in_time(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call something that must not wait for a worker."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *arguments).result(HANGS)


def is_served(sandbox: Sandbox, neighbour: Sandbox) -> bool:
    """Return whether a sandbox gets any answer, even after a neighbour has had all of its own."""
    question = dns.message.make_query("plain.test", "A").to_wire()
    with sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", 53))
        client.send(question)
        assert reaches(neighbour, "plain.test")
        client.settimeout(1)
        try:
            return bool(client.recv(512))
        except (TimeoutError, ConnectionRefusedError):
            return False


def contacts(universe) -> set[str]:
    return {seen.address for seen in universe.internet.witness.of_kind("connection")}


def test_a_policy_counts_although_the_worker_is_stopped_and_the_old_one_never_again(universe, workers):
    with served(universe, workers, "a", PLAIN) as a, served(universe, workers, "b", PLAIN) as b:
        with a.connect("plain.test", ECHO) as cut, b.connect("plain.test", ECHO) as spared:
            assert says(cut, HELLO) == says(spared, HELLO) == HELLO
            pid = stop(workers, 0)
            universe.forget()
            told = in_time(workers.change_policy, "a", resolved(OTHER, generation=2))
            assert told.generation == 2
            until(lambda: not is_alive(pid))  # it was killed, and so nothing that it holds can carry anything
            assert says(cut, HELLO) == b""
            assert says(spared, HELLO) == HELLO, "the other worker has nothing to do with it"
        until(lambda: workers.is_in_force("a"))
        assert reaches(a, "other.test")
        assert not reaches(a, "plain.test")
    assert contacts(universe) == {addresses.OTHER_PUBLIC}


def test_a_sandbox_is_closed_until_its_policy_is_in_force_and_the_log_says_so(universe, tmp_path):
    log = open_log(str(tmp_path / "audit.log"))
    with start(universe, 1, audit=log) as workers, served(universe, workers, "a", PLAIN) as a:
        assert reaches(a, "plain.test")
        stop(workers, 0)
        universe.forget()
        told = in_time(workers.change_policy, "a", resolved(NOTHING, generation=2))
        assert (told.generation, told.in_force) == (2, False)
        until(lambda: workers.is_in_force("a"))
        assert not reaches(a, "plain.test")
    os.close(log)
    records = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert contacts(universe) == set()
    told = [(record["event"], record.get("generation")) for record in records]
    assert told.index(("sandbox.opened", 1)) < told.index(("sandbox.held", 2))
    assert told.index(("sandbox.interrupted", None)) < told.index(("sandbox.opened", 2))
    [held] = [record for record in records if record["event"] == "sandbox.held"]
    assert held["cause"] == "stalled"


def test_many_sandboxes_of_a_stopped_worker_get_their_policies_at_once(universe):
    with start(universe, 1) as workers, ExitStack() as stack:
        jars = [stack.enter_context(served(universe, workers, f"jar-{n}", PLAIN)) for n in range(MANY)]
        assert reaches(jars[0], "plain.test")
        stop(workers, 0)
        universe.forget()
        with ThreadPoolExecutor(MANY) as threads:
            changes: list[Future[Any]] = [
                threads.submit(workers.change_policy, f"jar-{n}", resolved(NOTHING, generation=2)) for n in range(MANY)
            ]
            assert {change.result(HANGS).generation for change in changes} == {2}
        until(lambda: all(workers.is_in_force(f"jar-{n}") for n in range(MANY)))
        assert not any(reaches(jar, "plain.test") for jar in jars)
    assert contacts(universe) == set()


def test_a_sandbox_ends_although_its_worker_is_stopped(universe, workers):
    with (
        universe.sandbox() as a,
        served(universe, workers, "b", PLAIN) as b,
        served(universe, workers, "c", OTHER) as c,
    ):
        workers.open("a", resolved(PLAIN), a.listeners)
        for number in (0, 1):
            stop(workers, number)
        in_time(workers.close, "a")
        with pytest.raises(KeyError):
            workers.flows("a")
        in_time(workers.change_policy, "b", resolved(PLAIN, generation=2))
        in_time(workers.change_policy, "c", resolved(OTHER, generation=2))
        assert reaches(b, "plain.test")
        assert reaches(c, "other.test")
        universe.forget()
        assert not is_served(a, b)
    assert len(universe.internet.witness.of_kind("connection")) == 1, "the neighbour's"


def test_a_question_to_a_stopped_worker_is_given_up_and_harms_nobody(universe, workers):
    with served(universe, workers, "a", PLAIN) as a, served(universe, workers, "b", PLAIN) as b:
        assert reaches(b, "plain.test")
        pid = stop(workers, 0)
        with pytest.raises(WorkerSilentError):
            in_time(workers.flows, "a")
        assert in_time(workers.flows, "b") == []
        assert 'sandbox="b"' in in_time(workers.metrics)
        assert workers.pids()[0] == pid
        os.kill(pid, signal.SIGCONT)
        assert reaches(a, "plain.test")


def test_a_change_while_a_worker_is_replaced_is_what_the_next_one_begins_with(universe, workers, monkeypatch):
    monkeypatch.setattr(keeper, "_FIRST_PAUSE", 0.5)
    with served(universe, workers, "a", PLAIN) as a:
        kill(workers, 0)
        until(lambda: workers.pids()[0] is None)
        universe.forget()
        told = in_time(workers.change_policy, "a", resolved(OTHER, generation=2))
        assert told.generation == 2
        until(lambda: workers.is_in_force("a"))
        assert not reaches(a, "plain.test")
        assert reaches(a, "other.test")
    assert contacts(universe) == {addresses.OTHER_PUBLIC}


def test_a_change_overtakes_the_hand_over_of_the_policy_before(universe, workers):
    names = ", ".join(f"n{number}.test" for number in range(20_000))  # which takes its time to be compiled
    large = f"mode: block-all\negress: {{allowed_domains: ['plain.test:{ECHO}', {names}]}}"
    with served(universe, workers, "a", large) as a:
        assert reaches(a, "plain.test")
        kill(workers, 0)
        until(lambda: workers.pids()[0] is None)
        universe.forget()
        assert in_time(workers.change_policy, "a", resolved(OTHER, generation=2)).generation == 2
        until(lambda: workers.is_in_force("a"))
        assert [reaches(a, host) for host in ("plain.test", "other.test")] == [False, True]
    assert contacts(universe) == {addresses.OTHER_PUBLIC}


def test_the_last_of_many_changes_counts(universe, workers):
    with served(universe, workers, "a", PLAIN) as a:
        stop(workers, 0)
        with ThreadPoolExecutor(8) as threads:
            racing = [threads.submit(workers.change_policy, "a", resolved(PLAIN, generation=n)) for n in range(2, 9)]
            for change in racing:
                change.result(HANGS)
        assert in_time(workers.change_policy, "a", resolved(OTHER, generation=9)).generation == 9
        until(lambda: workers.is_in_force("a"))
        assert [reaches(a, host) for host in ("plain.test", "other.test")] == [False, True]


def test_a_policy_that_is_not_replaced_in_time_ends_by_itself(universe, workers):
    def soon() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) + 0.01

    with served(universe, workers, "a", PLAIN) as a, a.connect("plain.test", ECHO) as cut:
        assert says(cut, HELLO) == HELLO
        workers.change_policy("a", resolved(PLAIN, generation=2), until=soon())
        until(lambda: not workers.is_in_force("a"))
        until(lambda: says(cut, HELLO) == b"")
        assert not reaches(a, "plain.test")
        workers.change_policy("a", resolved(PLAIN, generation=3))
        assert reaches(a, "plain.test")
        workers.change_policy("a", resolved(PLAIN, generation=4), until=soon())
        pid = stop(workers, 0)
        until(lambda: not is_alive(pid))
        replaced(workers, 0, pid)
        assert not reaches(a, "plain.test")


def test_a_policy_that_no_worker_survives_closes_its_own_sandbox_and_no_other(universe, tmp_path):
    bug: Any = ("no address",)
    poison = resolved(PLAIN, generation=2)._replace(host_addresses=bug)
    log = open_log(str(tmp_path / "audit.log"))
    with (
        start(universe, 1, audit=log) as workers,
        served(universe, workers, "a", PLAIN) as a,
        served(universe, workers, "b", PLAIN) as b,
    ):
        in_time(workers.change_policy, "a", poison)
        until(lambda: '"given_up"' in (tmp_path / "audit.log").read_text())
        until(lambda: workers.is_in_force("b"))
        assert reaches(b, "plain.test")
        assert not workers.is_in_force("a")
        universe.forget()
        assert not is_served(a, b)
        assert len(universe.internet.witness.of_kind("connection")) == 1, "the neighbour's"
        workers.change_policy("a", resolved(PLAIN, generation=3))
        until(lambda: workers.is_in_force("a"))
        assert reaches(a, "plain.test")
    os.close(log)
