"""Worker processes: what they serve, and what is left of it when they die."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from threading import Event

import pytest

from belljar.gateway.audit.log import open_log
from belljar.gateway.limits import Limits
from belljar.gateway.service import Acknowledgement
from belljar.gateway.settings import Exceptions, Settings
from belljar.gateway.upstream.proxyurl import UpstreamProxy
from belljar.gateway.workers import keeper
from belljar.gateway.workers.process import RefusedError, WorkerLostError
from belljar.gateway.workers.supervisor import Workers
from belljar.linux.nft import sealed
from belljar.policy import Protocol
from belljar.sandbox.arming import HTTP_PROXY_PORT, SOCKS_PORT
from tests.gateway.driving import HANGS, open_descriptors
from tests.gateway.serving import RESOLVER, resolved
from tests.gateway.test_metrics import read_exposition
from tests.universe import Sandbox, Universe, addresses

ECHO = addresses.ECHO
PLAIN = f"mode: block-all\negress: {{allowed_domains: ['plain.test:{ECHO}']}}"
OTHER = f"mode: block-all\negress: {{allowed_domains: ['other.test:{ECHO}']}}"
NOTHING = "mode: block-all"
SETTINGS = Settings(resolvers=(RESOLVER,))
NOBODYS = "198.18.99.99"
"""A virtual address that was never handed out."""
PLAIN_ADDRESSES = {addresses.PUBLIC, addresses.PUBLIC_V6}
HELLO = b"\0hello"
"""The beginning of nothing that names a host, so that nobody waits for more."""


@pytest.fixture
def workers(universe):
    """Two workers where the gateway lives."""
    with start(universe) as workers:
        yield workers


def start(universe: Universe, count: int = 2, settings: Settings = SETTINGS, **options) -> Workers:
    return universe.in_gateway(lambda: Workers(count, settings, **options))


@contextmanager
def served(universe: Universe, workers: Workers, name: str, text: str) -> Iterator[Sandbox]:
    with universe.sandbox() as sandbox:
        workers.open(name, resolved(text), sandbox.listeners)
        yield sandbox
        workers.close(name)


def says(connection: socket.socket, text: bytes) -> bytes:
    """Return what comes back, b"" if it is the end of the connection."""
    try:
        connection.sendall(text)
        return connection.recv(100)
    except ConnectionError:
        return b""


def reaches(sandbox: Sandbox, host: str) -> bool:
    try:
        with sandbox.connect(host, ECHO) as connection:
            return says(connection, HELLO) == HELLO
    except OSError:
        return False


def until(happened) -> None:
    given_up = time.monotonic() + HANGS
    while not happened():
        assert time.monotonic() < given_up, "it never happened"
        time.sleep(0.001)


def kill(workers: Workers, number: int) -> int:
    """Kill a worker as soon as it is up, and return its process's number."""
    until(lambda: workers.pids()[number] is not None)
    pid = workers.pids()[number]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def replaced(workers: Workers, number: int, pid: int) -> None:
    until(lambda: workers.pids()[number] not in (None, pid))


def stop(workers: Workers, number: int) -> int:
    """Stop a worker where it is: it holds its sockets, and serves nobody."""
    pid = workers.pids()[number]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_each_sandbox_reaches_what_its_own_policy_allows_and_nothing_else(universe, workers):
    with (
        served(universe, workers, "a", PLAIN) as a,
        served(universe, workers, "b", OTHER) as b,
        served(universe, workers, "c", NOTHING) as c,
    ):
        assert [reaches(a, host) for host in ("plain.test", "other.test", "evil.test")] == [True, False, False]
        assert [reaches(b, host) for host in ("plain.test", "other.test", "evil.test")] == [False, True, False]
        assert [reaches(c, host) for host in ("plain.test", addresses.PUBLIC, addresses.EVIL)] == [False] * 3
    first, second = universe.internet.witness.of_kind("connection")
    assert first.address in PLAIN_ADDRESSES
    assert second.address == addresses.OTHER_PUBLIC
    assert universe.gateway.seen == []


def test_a_lost_worker_takes_its_own_flows_with_it_and_no_others(universe, workers):
    with served(universe, workers, "a", PLAIN) as a, served(universe, workers, "b", PLAIN) as b:
        with a.connect("plain.test", ECHO) as doomed, b.connect("plain.test", ECHO) as spared:
            assert says(doomed, b"before") == says(spared, b"before") == b"before"
            pid = kill(workers, 0)
            assert says(doomed, b"after") == b""
            assert says(spared, b"after") == b"after"
            replaced(workers, 0, pid)
            assert says(spared, b"and later") == b"and later"
        assert reaches(a, "plain.test")
        assert not reaches(a, "evil.test")
    assert {seen.address for seen in universe.internet.seen} <= {addresses.RESOLVER, *PLAIN_ADDRESSES}


def test_while_a_worker_is_dead_its_sandbox_is_closed_and_nobody_else_can_take_its_ports(universe, workers):
    with served(universe, workers, "a", PLAIN) as a:
        address = a.look_up("plain.test")[0]
        assert reaches(a, "plain.test")
        pid = stop(workers, 0)  # so that the next one cannot be there before we have looked
        universe.forget()
        with a.call(socket.create_connection, (address, ECHO), HANGS) as waiting:
            waiting.sendall(b"hello")
            for kind, ports in PORTS.items():
                for port in ports:
                    for reuse in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                        assert binding(a, kind, port, reuse) == errno.EADDRINUSE
            assert universe.internet.seen == universe.gateway.seen == []
            os.kill(pid, signal.SIGKILL)
            assert binding(a, socket.SOCK_STREAM, sealed.TCP_PORT, socket.SO_REUSEPORT) == errno.EADDRINUSE
            assert waiting.recv(100) == b"hello"  # from the next worker, which knows the address
        assert [seen.port for seen in universe.internet.witness.of_kind("connection")] == [ECHO]


PORTS = {
    socket.SOCK_STREAM: (sealed.TCP_PORT, sealed.DNS_PORT, HTTP_PROXY_PORT, SOCKS_PORT),
    socket.SOCK_DGRAM: (sealed.DNS_PORT,),
}


def binding(sandbox: Sandbox, kind: int, port: int, reuse: int) -> int | None:
    """Try to listen on a port inside, and return how that fails."""
    with sandbox.make_socket(kind=kind) as thief:
        if reuse:
            thief.setsockopt(socket.SOL_SOCKET, reuse, 1)
        try:
            thief.bind(("127.0.0.1", port))
            if kind == socket.SOCK_STREAM:
                thief.listen()
        except OSError as error:
            return error.errno
    return None


def test_an_address_means_the_same_name_after_a_crash_or_nothing(universe, workers):
    both = f"mode: block-all\negress: {{allowed_domains: ['plain.test:{ECHO}', 'other.test:{ECHO}']}}"
    with served(universe, workers, "a", both) as a:
        plain = a.look_up("plain.test")[0]
        replaced(workers, 0, kill(workers, 0))
        other = a.look_up("other.test")[0]
        assert a.look_up("plain.test")[0] == plain != other
        assert reaches(a, plain)
        assert reaches(a, other)
        assert not reaches(a, NOBODYS)
    first, second = universe.internet.witness.of_kind("connection")
    assert first.address in PLAIN_ADDRESSES
    assert second.address == addresses.OTHER_PUBLIC


def test_a_crash_wins_no_fresh_budget_under_a_wildcard(universe, workers):
    wild = resolved("mode: block-all\negress: {allowed_domains: ['*.wild.test']}")
    with universe.sandbox() as sandbox:
        workers.open("a", wild, sandbox.listeners, Limits(names_under_wildcard=2))
        known = [sandbox.look_up(f"{name}.wild.test") for name in ("one", "two")]
        replaced(workers, 0, kill(workers, 0))
        with pytest.raises(socket.gaierror):
            sandbox.look_up("three.wild.test")
        assert [sandbox.look_up(f"{name}.wild.test") for name in ("one", "two")] == known
        workers.close("a")


def test_a_policy_is_acknowledged_with_its_generation_and_outlives_the_worker(universe, workers):
    with served(universe, workers, "a", PLAIN) as a:
        with a.connect("plain.test", ECHO) as cut:
            assert says(cut, HELLO) == HELLO
            assert workers.flows("a")[0].flow.name == "plain.test"
            assert workers.change_policy("a", resolved(OTHER, generation=2)) == Acknowledgement(2, flows_cut=1)
            assert says(cut, HELLO) == b""
        kill(workers, 0)
        assert workers.change_policy("a", resolved(PLAIN, generation=3)) == Acknowledgement(3, flows_cut=0)
        assert reaches(a, "plain.test")
        assert not reaches(a, "other.test")
        replaced(workers, 0, kill(workers, 0))
        assert reaches(a, "plain.test")
        assert not reaches(a, "other.test")
    assert not {seen for seen in universe.internet.seen if seen.address == addresses.OTHER_PUBLIC}


def test_a_policy_that_cannot_be_enforced_changes_nothing_and_says_why(universe):
    denying = resolved("mode: allow-all\negress: {denied_cidrs: [203.0.113.0/24]}", generation=2)
    proxy = UpstreamProxy(ip_address(addresses.OTHER_PUBLIC), 3128, None)
    trusting = SETTINGS._replace(proxy=proxy, exceptions=Exceptions(domains=("plain.test",)), proxy_resolves=True)
    with start(universe, settings=trusting) as workers:
        with served(universe, workers, "a", PLAIN) as a:
            with pytest.raises(RefusedError, match="denies ranges of addresses"):
                workers.change_policy("a", denying)
            assert reaches(a, "plain.test")
            assert not reaches(a, "other.test")
        with universe.sandbox() as b, pytest.raises(RefusedError, match="denies ranges of addresses"):
            workers.open("b", denying, b.listeners)
        with pytest.raises(KeyError):
            workers.flows("b")


def test_ten_crashes_in_a_row_are_survived(universe, workers, monkeypatch):
    monkeypatch.setattr(keeper, "_LONGEST_PAUSE", 0.02)
    with served(universe, workers, "a", PLAIN) as a, served(universe, workers, "b", PLAIN) as b:
        for _ in range(10):
            pid = kill(workers, 0)
            assert reaches(b, "plain.test")
            replaced(workers, 0, pid)
        assert reaches(a, "plain.test")
        assert not reaches(a, "evil.test")
    assert addresses.EVIL not in {seen.address for seen in universe.internet.seen}


def test_crashes_in_the_midst_of_traffic_lead_nothing_astray(universe, workers):
    with served(universe, workers, "a", PLAIN) as a, served(universe, workers, "b", PLAIN) as b:
        plain = a.look_up("plain.test")[0]
        with busy(a, [plain, plain, addresses.EVIL, NOBODYS]) as outcomes, b.connect("plain.test", ECHO) as spared:
            for _ in range(3):
                outcomes.clear()
                until(lambda: (plain, True) in outcomes)
                kill(workers, 0)
                assert says(spared, HELLO) == HELLO
            outcomes.clear()
            until(lambda: {(plain, True), (addresses.EVIL, False), (NOBODYS, False)} <= set(outcomes))
    assert {contact.address for contact in universe.wire.contacts()} <= {addresses.RESOLVER, *PLAIN_ADDRESSES}
    assert universe.gateway.seen == []


@contextmanager
def busy(sandbox: Sandbox, hosts: list[str]) -> Iterator[list[tuple[str, bool]]]:
    """Have a client dial each host all the time, and yield what comes of it."""
    outcomes: list[tuple[str, bool]] = []
    over = Event()

    def dial(host: str) -> None:
        while not over.is_set():
            outcomes.append((host, reaches(sandbox, host)))

    with ThreadPoolExecutor(len(hosts)) as clients:
        for host in hosts:
            clients.submit(dial, host)
        try:
            yield outcomes
        finally:
            over.set()


def test_what_kills_every_worker_is_given_up(universe, workers):
    @dataclass(frozen=True)
    class Unheard(Limits):
        of: int = 1

    with served(universe, workers, "a", PLAIN) as a, universe.sandbox() as b:
        untouched = workers.pids()[0]
        with pytest.raises(WorkerLostError, match="exit code 1"):
            workers.open("b", resolved(PLAIN), b.listeners, Unheard())
        assert workers.pids()[0] == untouched
        assert reaches(a, "plain.test")
        workers.open("b", resolved(PLAIN), b.listeners)
        assert reaches(b, "plain.test")
        workers.close("b")


def test_a_worker_that_does_not_answer_is_replaced_even_if_nobody_asks_it_for_anything(universe, workers, monkeypatch):
    monkeypatch.setattr(keeper, "_SILENCE", 1.0)
    with served(universe, workers, "a", PLAIN) as a:
        replaced(workers, 0, stop(workers, 0))
        assert reaches(a, "plain.test")


def test_the_log_tells_the_whole_story(universe, tmp_path):
    log = open_log(str(tmp_path / "audit.log"))
    with start(universe, audit=log) as workers, served(universe, workers, "a", PLAIN) as a:
        assert reaches(a, "plain.test")
        replaced(workers, 0, kill(workers, 0))
        assert not reaches(a, "evil.test")
    os.close(log)
    records = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    told = [record["event"] for record in records if not record["event"].startswith("flow.closed")]
    assert told == [
        "sandbox.opened",
        *["dns.answered"] * 2,
        "flow.allowed",
        "sandbox.interrupted",
        "sandbox.opened",
        *["dns.denied"] * 2,
        "sandbox.closed",
    ]
    assert {record["sandbox"] for record in records} == {"a"}
    assert [record["cause"] for record in records if "cause" in record] == ["killed by SIGKILL"]


def test_what_the_workers_know_is_gathered(universe, workers):
    with served(universe, workers, "a", PLAIN) as a, served(universe, workers, "b", PLAIN) as b:
        assert not reaches(a, "evil.test")
        assert [(denial.protocol, denial.destination) for denial in workers.denials("a")] == [("dns", "evil.test")] * 2
        assert workers.denials("b") == []
        with b.connect("plain.test", ECHO) as connection:
            assert says(connection, HELLO) == HELLO
            [(flow, bytes_up, bytes_down, _)] = workers.flows("b")
            assert (flow.name, flow.port, flow.protocol) == ("plain.test", ECHO, Protocol.TCP)
            assert bytes_up == bytes_down == len(HELLO)
            numbers = read_exposition(workers.metrics())
            live = {sandbox: numbers["belljar_flows_live", frozenset({("sandbox", sandbox)})] for sandbox in ("a", "b")}
            assert live == {"a": 0, "b": 1}
    assert read_exposition(workers.metrics()) == {}


def test_datagrams_find_their_way_again(universe, workers):
    with universe.sandbox() as sandbox, sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
        workers.open("a", resolved("mode: allow-all\negress: {denied_domains: [evil.test]}"), sandbox.listeners)
        client.connect((sandbox.resolve("plain.test").answer[0][0].to_text(), ECHO))
        assert says(client, HELLO) == HELLO
        replaced(workers, 0, kill(workers, 0))
        assert says(client, HELLO) == HELLO
        workers.close("a")


def test_two_sandboxes_cannot_have_one_name(universe, workers):
    with served(universe, workers, "a", PLAIN) as a, universe.sandbox() as b:
        with pytest.raises(ValueError, match="there is a sandbox a"):
            workers.open("a", resolved(OTHER), b.listeners)
        assert reaches(a, "plain.test")


SUPERVISOR = """
import sys, time
from belljar.gateway.workers.supervisor import Workers
workers = Workers(2)
while None in workers.pids():
    time.sleep(0.001)
print(*workers.pids(), flush=True)
sys.stdin.read()
"""


def test_workers_die_with_their_supervisor_even_if_they_are_stuck(universe):
    supervisor = universe.gateway.call(
        subprocess.Popen, [sys.executable, "-c", SUPERVISOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with supervisor:
        pids = list(map(int, supervisor.stdout.readline().split()))
        os.kill(pids[0], signal.SIGSTOP)
        supervisor.kill()
    assert len(pids) == 2
    until(lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_nothing_is_left_behind(universe):
    before = open_descriptors()
    with universe.sandbox() as a, universe.sandbox() as b:
        with start(universe) as workers:
            for name, sandbox in (("a", a), ("b", b)):
                workers.open(name, resolved(PLAIN), sandbox.listeners)
                assert reaches(sandbox, "plain.test")
            replaced(workers, 0, kill(workers, 0))
            workers.close("b")
            pids = workers.pids()
        assert not any(is_alive(pid) for pid in pids if pid)
        assert binding(a, socket.SOCK_STREAM, sealed.TCP_PORT, 0) is None  # which shows that nobody holds it any more
        workers.shut_down()
        with pytest.raises(WorkerLostError, match="shut down"):
            workers.metrics()
    assert open_descriptors() == before


def test_a_worker_imports_nothing_that_an_agent_could_have_written(universe, tmp_path, monkeypatch):
    trap = f"open({str(tmp_path / 'caught')!r}, 'w')"
    for module in ("json", "socket", "idna", "belljar"):
        (tmp_path / f"{module}.py").write_text(trap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ".")
    subprocess.run([sys.executable, "-c", "import idna"], check=True)
    assert (tmp_path / "caught").exists(), "the trap works"
    (tmp_path / "caught").unlink()
    with start(universe) as workers, served(universe, workers, "a", PLAIN) as a:
        assert reaches(a, "plain.test")
    assert not (tmp_path / "caught").exists()


def test_what_comes_late_does_not_close_a_sandbox_that_has_a_newer_policy(universe, workers):
    with served(universe, workers, "a", NOTHING) as a:
        keeper = workers._homes["a"]
        kept = keeper.sandboxes["a"]
        before = kept.change
        workers.change_policy("a", resolved(PLAIN))
        workers._call(lambda: keeper.end(kept, before))
        workers._call(lambda: kept.holder.ask("hold", patience=HANGS, sandbox="a", change=before.number))
        assert reaches(a, "plain.test")
        assert not reaches(a, "evil.test")
        workers._call(lambda: kept.holder.ask("hold", patience=HANGS, sandbox="a", change=kept.change.number + 1))
        assert not reaches(a, "plain.test"), "one that is under way is waited for"
