"""Named services: a name inside leads to what the sandbox's own policy says, and to nothing else."""

import socket
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import dns.message
import dns.query
import pytest

from belljar.linux.programs import run
from tests.gateway.ways_out.agents import Agent, TurnedAwayError
from tests.universe import addresses
from tests.universe.zone import at

CONTROL = "mode: block-all\negress: {allowed_domains: [plain.test]}\n"
LATE = "203.0.113.77"
DOORS = ["direct", "direct6", "connect", "socks"]


class UnixEcho:
    """A service at a unix socket, which sends everything back and remembers what it was."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: list[bytes] = []


@contextmanager
def listening(path: Path) -> Iterator[UnixEcho]:
    service = UnixEcho(path)

    class Answering(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while data := self.request.recv(999):
                service.heard.append(data)
                self.request.sendall(data)

    with socketserver.ThreadingUnixStreamServer(str(path), Answering) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def tool(tmp_path):
    """A service at a unix socket."""
    (tmp_path / "tools").mkdir()
    with listening(tmp_path / "tools" / "tool.sock") as service:
        yield service


def echoes(agent: Agent, name: str, port: int, door: str = "direct", word: bytes = b"\0hello") -> bool:
    with agent.dial(name, port, door) as client:
        client.sendall(word)
        return client.recv(len(word), socket.MSG_WAITALL) == word


def is_turned_away(agent: Agent, name: str, port: int) -> bool:
    """Tell whether a name is closed, whichever way it is tried: dialled, or asked for at the proxies."""
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError):
            agent.dial(name, port, door)
    try:
        return agent.is_reset(name, port)
    except socket.gaierror:
        return True


@pytest.mark.parametrize("door", DOORS)
def test_a_port_of_the_host(share, door):
    agent = share(f"{CONTROL}services: {{db: {{port: 5432, at: 81}}}}")
    assert echoes(agent, "db.belljar.internal", 81, door)
    assert {(seen.address, seen.port) for seen in agent.universe.gateway.seen} <= {("127.0.0.1", 5432), ("::1", 5432)}
    assert agent.universe.wire.contacts() == set()
    agent.universe.forget()
    for port in (5432, 80, 7):
        assert is_turned_away(agent, "db.belljar.internal", port)
        assert agent.reason() == "service_not_allowed"
    assert is_turned_away(agent, "host.belljar.internal", 5432)
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("door", [*DOORS, "absolute"])
def test_a_web_service_of_the_host(share, door):
    agent = share(f"{CONTROL}services: {{web: {{port: 80}}}}")
    assert agent.get("web.belljar.internal", "/x", door=door).body == b"web.belljar.internal /x\n"
    [request] = agent.universe.gateway.witness.of_kind("request")
    assert request.what == "GET web.belljar.internal /x"
    agent.universe.forget()
    called = agent.get("web.belljar.internal", door="direct", called="host.belljar.internal")
    assert called.problem["reason"] == agent.reason() == "name_mismatch"
    assert agent.universe.gateway.witness.of_kind("request") == []


@pytest.mark.parametrize("door", DOORS)
def test_a_unix_socket(enter, tool, door):
    agent = enter(f"{CONTROL}services: {{tool: {{socket: {tool.path}}}}}")
    assert echoes(agent, "tool.belljar.internal", 80, door)
    assert tool.heard == [b"\0hello"]
    assert is_turned_away(agent, "tool.belljar.internal", 81)
    assert is_turned_away(agent, "other.belljar.internal", 80)
    assert agent.reached_nobody()
    assert tool.heard == [b"\0hello"]
    assert agent.works()


@pytest.mark.parametrize("replaced", ["the socket", "its directory"])
def test_a_socket_that_was_replaced_by_a_link(enter, tool, tmp_path, replaced):
    """Where an agent can write to the directory, it could have the gateway connect to any socket of the host."""
    agent = enter(f"{CONTROL}services: {{tool: {{socket: {tool.path}}}}}")
    (tmp_path / "host").mkdir()
    with listening(tmp_path / "host" / "tool.sock") as secret:
        assert echoes(agent, "tool.belljar.internal", 80)
        if replaced == "the socket":
            tool.path.unlink()
            tool.path.symlink_to(secret.path)
        else:
            tool.path.parent.rename(tmp_path / "before")
            tool.path.parent.symlink_to(secret.path.parent)
        for door in ("connect", "socks"):
            with pytest.raises(TurnedAwayError):
                agent.dial("tool.belljar.internal", 80, door)
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(tool.path))  # so it leads there
        assert secret.heard == []
    agent.settle()
    assert "has a symbolic link in it" in [line["error"] for line in agent.audit() if line.get("error")][-1]


@pytest.mark.parametrize("what", ["nothing", "file", "directory", "datagrams"])
def test_what_is_not_a_socket(enter, tool, what):
    agent = enter(f"{CONTROL}services: {{tool: {{socket: {tool.path}}}}}")
    tool.path.unlink()
    if what == "file":
        tool.path.write_text("x")
    elif what == "directory":
        tool.path.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        if what == "datagrams":
            datagrams.bind(str(tool.path))
        with pytest.raises(TurnedAwayError) as failed:
            agent.dial("tool.belljar.internal", 80, "connect")
        assert failed.value.answer.status == 502
    assert agent.works()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("target", "reached"),
    [
        ("v4.test:7", addresses.PUBLIC),
        (f"{addresses.PUBLIC}:7", addresses.PUBLIC),
        ("v6.test:7", addresses.PUBLIC_V6),
        (f"[{addresses.PUBLIC_V6}]:7", addresses.PUBLIC_V6),
        ("private.test:7", addresses.PRIVATE),
        (f"{addresses.PRIVATE}:7", addresses.PRIVATE),
    ],
)
def test_an_address(share, target, reached, door):
    agent = share(f"{CONTROL}services: {{db: {{address: '{target}', at: 81}}}}")
    assert echoes(agent, "db.belljar.internal", 81, door)
    assert {(seen.address, seen.port) for seen in agent.universe.internet.witness.of_kind("connection")} == {
        (reached, 7)
    }
    agent.universe.forget()
    assert is_turned_away(agent, "db.belljar.internal", 7)
    host = target.rpartition(":")[0].strip("[]")
    assert is_turned_away(agent, host, 7)  # it is open by its name inside alone
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("target", ["loopback.test", "gateway.test", "metadata.test", addresses.GATEWAY])
def test_an_address_that_stays_closed(share, target):
    agent = share(f"{CONTROL}services: {{db: {{address: '{target}:7', at: 81}}, ok: {{address: '10.9.0.1:7'}}}}")
    assert is_turned_away(agent, "db.belljar.internal", 81)
    assert agent.reason() == "reserved_address"
    assert agent.reached_nobody(but_resolver=True)
    assert echoes(agent, "ok.belljar.internal", 7)


@pytest.mark.parametrize("target", [LATE, "late.test"])
def test_an_address_that_became_the_hosts_own(enter, universe, target):
    universe.zone["late.test"] = at(LATE)
    agent = enter(f"{CONTROL}services: {{db: {{address: '{target}:7'}}}}")
    assert echoes(agent, "db.belljar.internal", 7)
    universe.gateway.call(run, "ip", "address", "add", f"{LATE}/32", "dev", "wire")
    try:
        universe.gateway.forget()
        assert is_turned_away(agent, "db.belljar.internal", 7)
        assert agent.reason() == "reserved_address"
        assert universe.gateway.seen == []
    finally:
        universe.gateway.call(run, "ip", "address", "delete", f"{LATE}/32", "dev", "wire")


def test_a_name_that_leads_elsewhere_by_now(enter, universe):
    agent = enter(f"{CONTROL}services: {{db: {{address: 'moving.test:7'}}}}")
    universe.zone["moving.test"] = at(addresses.PRIVATE, ttl=0)
    assert echoes(agent, "db.belljar.internal", 7)
    universe.zone["moving.test"] = at("127.0.0.1", ttl=0)
    assert is_turned_away(agent, "db.belljar.internal", 7)
    assert agent.reason() == "reserved_address"
    assert universe.gateway.seen == []


def test_ranges_that_are_denied_stay_denied(enter, universe):
    denied = f"rules: [{{action: deny, cidrs: [{addresses.PRIVATE}]}}]"
    agent = enter(f"{CONTROL}{denied}\nservices: {{db: {{address: 'private.test:7'}}, ok: {{address: 'v4.test:7'}}}}")
    assert is_turned_away(agent, "db.belljar.internal", 7)
    assert agent.reason() == "denied_by_rule"
    assert agent.reached_nobody(but_resolver=True)
    assert echoes(agent, "ok.belljar.internal", 7)


def test_sandboxes_do_not_reach_each_others_services(enter, tool):
    one = enter(f"{CONTROL}services: {{tool: {{socket: {tool.path}}}, db: {{port: 5432}}}}")
    other = enter(f"{CONTROL}services: {{db: {{port: 7, at: 5432}}}}")
    address = one.address_of("tool.belljar.internal")
    assert is_turned_away(other, "tool.belljar.internal", 80)
    assert other.reason() == "service_not_allowed"
    assert other.is_reset(address, 80)
    assert other.reached_nobody()
    assert tool.heard == []
    assert echoes(one, "tool.belljar.internal", 80)
    assert echoes(one, "db.belljar.internal", 5432)
    assert echoes(other, "db.belljar.internal", 5432)
    assert [seen.port for seen in one.universe.gateway.witness.of_kind("connection")] == [5432, 7]


BEFORE = "db: {port: 5432}, six: {address: 'v4.test:7'}"


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ("other: {port: 5432}", "service_not_allowed"),
        ("db: {port: 5432, at: 5433}", "service_not_allowed"),
        ("db: {port: 7, at: 5432}", "service_not_allowed"),
        ("db: {address: '203.0.113.10:5432'}", "service_not_allowed"),
    ],
)
def test_a_changed_entry_cuts_what_is_open(enter, after, reason):
    agent = enter(f"{CONTROL}services: {{{BEFORE}, kept: {{port: 7}}}}")
    with agent.dial("db.belljar.internal", 5432) as client, agent.dial("kept.belljar.internal", 7) as control:
        for talk in (client, control):
            talk.sendall(b"\0")
            assert talk.recv(1) == b"\0"
        changed = f"{CONTROL}services: {{kept: {{port: 7}}, {after}}}"
        assert agent.serving.change_policy(agent.jar, changed) == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert agent.reason() == reason
        control.sendall(b"\0")
        assert control.recv(1) == b"\0"


@pytest.mark.parametrize("name", ["db", "six"])
@pytest.mark.parametrize(
    "after",
    [
        f"mode: block-all\nservices: {{{BEFORE}}}",
        f"mode: allow-all\nservices: {{web: {{port: 80}}, {BEFORE}}}",
        f"mode: block-all\nhost_ports: [22]\nservices: {{{BEFORE}}}",
    ],
)
def test_an_entry_that_stays_as_it_is_cuts_nothing(enter, name, after):
    agent = enter(f"{CONTROL}services: {{{BEFORE}}}")
    with agent.dial(f"{name}.belljar.internal", {"db": 5432, "six": 7}[name]) as client:
        client.sendall(b"\0")
        assert client.recv(1) == b"\0"
        assert agent.serving.change_policy(agent.jar, after) == 0
        client.sendall(b"\0")
        assert client.recv(1) == b"\0"


def test_an_address_that_is_denied_by_now_is_cut(enter):
    agent = enter(f"{CONTROL}services: {{{BEFORE}}}")
    with agent.dial("six.belljar.internal", 7) as client:
        client.sendall(b"\0")
        assert client.recv(1) == b"\0"
        denied = f"rules: [{{action: deny, cidrs: [{addresses.PUBLIC}]}}]"
        assert agent.serving.change_policy(agent.jar, f"{CONTROL}{denied}\nservices: {{{BEFORE}}}") == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_the_audit_log_names_the_entry(enter, tool):
    agent = enter(f"{CONTROL}services: {{tool: {{socket: {tool.path}}}}}")
    assert echoes(agent, "tool.belljar.internal", 80)
    agent.settle()
    [allowed] = [line for line in agent.audit() if line["event"] == "flow.allowed"]
    assert (allowed["reason"], allowed["rule"]) == ("allowed_service", "services.tool")
    assert (allowed["name"], allowed["port"]) == ("tool.belljar.internal", 80)
    assert str(tool.path) not in str(agent.audit())


@pytest.mark.parametrize("kind", ["MX", "TXT", "SRV"])
def test_no_resolver_outside_hears_of_services(enter, kind):
    agent = enter("mode: allow-all\nhost_ports: [80]\nservices: {web: {port: 80}}")
    for name in (
        "web.belljar.internal",
        "_http._tcp.web.belljar.internal",
        "x.belljar.internal",
        "host.docker.internal",
    ):
        agent.sandbox.call(dns.query.udp, dns.message.make_query(name, kind), "127.0.0.1", 10)
    assert agent.questions() == []
    agent.sandbox.call(dns.query.udp, dns.message.make_query("text.test", kind), "127.0.0.1", 10)
    assert agent.questions() == ["text.test"]
