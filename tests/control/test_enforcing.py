"""Enforcement that depends on nobody's goodwill: the gateway's workers are stopped, and the API does what it says."""

import os
import signal
import threading
from pathlib import Path

import httpx2
import pytest

from belljar.backends.interface import LostError
from belljar.control.serving import SOCKET
from belljar.runtime import lifecycle
from belljar.testing.memory import MemoryBackend
from belljar.testing.memoryprocess import MemoryProcess
from tests.backends.containers.listening import docker, silent
from tests.control.machines import Machine
from tests.control.servers import API, PATIENCE, parse_events, until
from tests.control.test_machine import NOTHING, PLAIN, streaming
from tests.processes import children_of

MANY = 27


def workers(machine: Machine) -> list[int]:
    """Return the processes that serve sandboxes, the oldest first."""
    assert machine.process is not None
    return [pid for pid in children_of(machine.process.pid) if b"workers.worker" in _command_of(pid)]


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def stop_all(machine: Machine) -> list[int]:
    pids = workers(machine)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


def resume_all(machine: Machine) -> None:
    """Let those that are still stopped end when the server does; it would wait for them."""
    for pid in workers(machine):
        os.kill(pid, signal.SIGCONT)


def in_force(machine: Machine, jar: str) -> bool:
    return bool(machine.call("GET", f"/sandboxes/{jar}")["network"]["in_force"])


def connections(universe) -> set[str]:
    return {seen.address for seen in universe.internet.witness.of_kind("connection")}


def events(machine: Machine, jar: str) -> list[str]:
    with machine.client() as client, client.stream("GET", f"/sandboxes/{jar}/events?after=0&follow=false") as answer:
        return [event.event for event in parse_events(answer.iter_lines())]


def test_a_policy_counts_although_the_worker_is_stopped(machine, universe):
    jar, other = machine.sandbox(PLAIN), machine.sandbox(PLAIN)
    with streaming(machine, jar) as ended:
        stop_all(machine)
        universe.forget()
        assert machine.call("PUT", f"/sandboxes/{jar}/network", NOTHING)["generation"] == 2
        assert ended.wait(60), "its connection has ended"
    assert machine.fetch(jar, "http://plain.test/") == ""
    assert connections(universe) == set()
    machine.call("PUT", f"/sandboxes/{other}/network", PLAIN)
    until(lambda: in_force(machine, jar) and in_force(machine, other))
    assert machine.fetch(other, "http://plain.test/") != "", "the others are served again"
    assert machine.fetch(jar, "http://plain.test/") == ""
    until(lambda: "sandbox.held" in events(machine, jar))


def test_many_sandboxes_of_stopped_workers_are_closed_at_once(machine, universe):
    jars = [machine.sandbox(PLAIN) for _ in range(MANY)]
    assert machine.fetch(jars[-1], "http://plain.test/") != ""
    stop_all(machine)
    universe.forget()
    generations: list[int] = []

    def close(jar: str) -> None:
        generations.append(machine.call("PUT", f"/sandboxes/{jar}/network", NOTHING)["generation"])

    threads = [threading.Thread(target=close, args=(jar,)) for jar in jars]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert generations == [2] * MANY
    until(lambda: all(in_force(machine, jar) for jar in jars))
    assert machine.fetch(jars[-1], "http://plain.test/") == ""
    assert connections(universe) == set()


def test_deleting_pausing_and_times_to_live_need_no_worker(machine):
    deleted, paused, soft, hard = (machine.sandbox(PLAIN) for _ in range(4))
    stop_all(machine)
    assert machine.call("POST", f"/sandboxes/{paused}/pause")["status"] == "paused"
    machine.call("POST", f"/sandboxes/{soft}/refresh", {"ttl": 0.1})
    until(lambda: machine.call("GET", f"/sandboxes/{soft}")["status"] == "paused")
    stop_all(machine)
    machine.call("DELETE", f"/sandboxes/{deleted}")
    stop_all(machine)
    machine.call("POST", f"/sandboxes/{hard}/refresh", {"ttl": 0, "hard_ttl": 0.1})
    until(lambda: {paused, soft} == {each["id"] for each in machine.call("GET", "/sandboxes")["sandboxes"]})
    for gone in (deleted, hard):
        assert not (machine.state / "local" / gone).exists()
    resume_all(machine)


def test_a_grant_ends_although_the_worker_is_stopped(machine, universe):
    jar = machine.sandbox(NOTHING)
    machine.call("POST", f"/sandboxes/{jar}/network/grants", {"allow": "plain.test", "seconds": 4})
    with streaming(machine, jar) as ended:
        stop_all(machine)
        assert ended.wait(60), "the worker is not needed to end it"
    until(lambda: machine.call("GET", f"/sandboxes/{jar}/network/grants") == {"grants": []})
    universe.forget()
    assert machine.fetch(jar, "http://plain.test/") == ""
    assert connections(universe) == set()
    resume_all(machine)


def test_a_server_that_is_killed_before_a_policy_is_in_force_begins_with_it(machine, universe):
    jar = machine.sandbox(PLAIN)
    assert machine.fetch(jar, "http://plain.test/") != ""
    stop_all(machine)

    def put() -> None:
        try:
            machine.call("PUT", f"/sandboxes/{jar}/network", NOTHING)
        except OSError:
            return

    change = threading.Thread(target=put)
    change.start()
    until(lambda: b"block-all" in _written(machine) and b"plain.test" not in _written(machine))
    machine.kill()
    change.join()
    universe.forget()
    machine.start()
    assert machine.fetch(jar, "http://plain.test/") == ""
    assert machine.call("GET", f"/sandboxes/{jar}/network") == NOTHING
    assert connections(universe) == set()


def _written(machine: Machine) -> bytes:
    """Return the policy that is written down."""
    import sqlite3  # noqa: PLC0415

    with sqlite3.connect(machine.state / "belljar.db") as database:
        return b"".join(row[0].encode() for row in database.execute("SELECT policy FROM sandboxes"))


def test_questions_about_a_stopped_worker_hold_up_nobody_else(machine):
    jars = [machine.sandbox(PLAIN) for _ in range(len(workers(machine)))]
    os.kill(workers(machine)[0], signal.SIGSTOP)
    codes: list[int] = []

    def ask() -> None:
        with machine.client() as client:
            codes.append(client.get(f"/sandboxes/{jars[0]}/flows").status_code)

    asking = [threading.Thread(target=ask) for _ in range(100)]
    for thread in asking:
        thread.start()
    for jar in jars:
        assert machine.call("PUT", f"/sandboxes/{jar}/network", NOTHING)["generation"] == 2
        assert machine.run(jar, "true")["exit_code"] == 0
    for thread in asking:
        thread.join()
    assert set(codes) <= {200, 503}


def test_calls_that_hang_in_one_sandbox_hold_up_neither_its_policy_nor_its_end_nor_others(start, monkeypatch):
    server, hangs, get_file = start(), threading.Event(), MemoryBackend.get_file
    stuck, other = server.sandbox(), server.sandbox()
    server.client.put(server.path(other, "/files?path=a"), content=b"a")

    def get_file_later(self, sandbox, path, limit=0):
        if sandbox == stuck:
            hangs.wait()
        return get_file(self, sandbox, path)

    def read() -> None:
        transport = httpx2.HTTPTransport(uds=str(server.state / SOCKET), verify=False)
        with httpx2.Client(base_url=API, transport=transport) as client:
            client.get(server.path(stuck, "/files?path=a"), timeout=PATIENCE)

    monkeypatch.setattr(MemoryBackend, "get_file", get_file_later)
    reading = [threading.Thread(target=read) for _ in range(100)]
    for thread in reading:
        thread.start()
    try:
        assert server.client.get(server.path(other, "/files?path=a")).content == b"a"
        assert server.client.put(server.path(stuck, "/network"), json=NOTHING).json()["in_force"]
        assert server.client.post(server.path(stuck, "/pause")).json()["status"] == "paused"
        assert server.client.delete(server.path(stuck)).status_code == 204
    finally:
        hangs.set()
        for thread in reading:
            thread.join()


@pytest.fixture
def hangs(monkeypatch):
    """A backend that does not answer when it is to pause a sandbox, until the event is set."""
    event, pause = threading.Event(), MemoryBackend.pause

    def pause_later(self, sandbox):
        event.wait()
        pause(self, sandbox)

    monkeypatch.setattr(MemoryBackend, "pause", pause_later)
    yield event
    event.set()


def test_a_backend_that_hangs_keeps_no_policy_and_no_deletion_from_counting(start, hangs):
    server = start()
    stuck = server.sandbox()
    asking = [
        threading.Thread(target=_ask, args=(server, method, server.path(stuck, what)))
        for method, what in (("POST", "/pause"), ("DELETE", ""))
    ]
    asking[0].start()
    assert server.client.put(server.path(stuck, "/network"), json=NOTHING).json()["in_force"]
    asking[1].start()
    until(lambda: server.status(stuck) == "deleting")
    until(lambda: not server.client.get(server.path(stuck)).json()["network"]["in_force"])
    hangs.set()
    for thread in asking:
        thread.join()
    assert server.status(stuck) == "gone"


def test_where_a_backend_does_not_pause_in_time_nothing_is_reached(start, hangs, monkeypatch):
    monkeypatch.setattr(lifecycle, "_SECONDS_TO_PAUSE", 0.1)
    server = start()
    stuck, other = server.sandbox(ttl=0.1), server.sandbox()
    until(lambda: not server.client.get(server.path(stuck)).json()["network"]["in_force"])
    assert server.client.get(server.path(other)).json()["network"]["in_force"]
    hangs.set()
    until(lambda: server.status(stuck) == "paused")
    server.client.post(server.path(stuck, "/resume"))
    until(lambda: server.client.get(server.path(stuck)).json()["network"]["in_force"])


def _ask(server, method: str, path: str, body: object = None) -> None:
    transport = httpx2.HTTPTransport(uds=str(server.state / SOCKET), verify=False)
    with httpx2.Client(base_url=API, transport=transport) as client:
        client.request(method, path, json=body, timeout=PATIENCE)


def test_a_command_that_cannot_be_ended_in_time_reaches_nothing_any_more(start, monkeypatch):
    server, signal_process = start(), MemoryProcess.signal
    jar, other = server.sandbox(network=PLAIN), server.sandbox(network=PLAIN)
    server.client.post(server.path(jar, "/network/grants"), json={"allow": "evil.test", "seconds": 600})

    def refuse(self, number):
        raise LostError("the engine does not answer")

    monkeypatch.setattr(MemoryProcess, "signal", refuse)
    body = {"command": ["sleep"], "timeout": 0.05}
    running = threading.Thread(target=_ask, args=(server, "POST", server.path(jar, "/exec"), body))
    running.start()
    until(lambda: server.client.get(server.path(jar, "/network")).json() == NOTHING)
    told = until(lambda: (now := server.client.get(server.path(jar)).json())["network"]["in_force"] and now)
    assert told["network"]["grants"] == 0
    assert "could not be ended" in told["detail"]
    assert server.client.get(server.path(other, "/network")).json() == PLAIN
    monkeypatch.setattr(MemoryProcess, "signal", signal_process)
    server.client.delete(server.path(jar))
    running.join()


def test_a_server_ends_at_once_although_an_engine_does_not_answer(machine, tmp_path):
    with silent(tmp_path / "engine.sock", {"/_ping": docker("24.0.0", "1.43")}) as asked:
        machine.stop()
        machine.environment = {"DOCKER_HOST": f"unix://{tmp_path / 'engine.sock'}", "XDG_CACHE_HOME": str(tmp_path)}
        machine.start()

        def create() -> None:
            with pytest.raises((OSError, AssertionError)):
                machine.sandbox(backend="docker", image="any")

        creating = threading.Thread(target=create)
        creating.start()
        until(lambda: asked)
        machine.stop()
        creating.join()
    machine.environment = {}
    machine.start()
    until(lambda: machine.call("GET", "/sandboxes")["sandboxes"] == [])


def test_a_commands_time_passes_even_if_nobody_reads_what_it_writes(machine):
    jar = machine.sandbox(PLAIN)
    body = {"command": ["sh", "-c", "touch begun; exec yes"], "timeout": 1}
    with (
        machine.client() as client,
        client.stream("POST", f"/sandboxes/{jar}/exec", json=body, headers={"accept": "text/event-stream"}),
    ):
        until(lambda: machine.run(jar, "test", "-e", "begun")["exit_code"] == 0)
        until(lambda: machine.run(jar, "pgrep", "-x", "yes")["exit_code"] == 1)
