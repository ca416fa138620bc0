"""The real thing: `belljar serve`, the local backend, and a network that can be seen."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from belljar.linux.programs import run
from tests.control.machines import PORT, Machine
from tests.control.servers import parse_events, until
from tests.universe import Universe, addresses
from tests.universe.zone import at

LATE, LATE_V6, LATE_RANGE = "203.0.113.77", "2001:db8:77::1", "203.0.113.128"

NOTHING = {"mode": "block-all"}
PLAIN = {"mode": "block-all", "egress": {"allowed_domains": ["plain.test"]}}


@contextmanager
def streaming(machine: Machine, jar: str, host: str = "plain.test"):
    """Have a long connection open inside; yields the event of its end."""
    ended = threading.Event()

    def run() -> None:
        machine.run(jar, "curl", "-sN", f"http://{host}/stall")
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: [flow for flow in machine.call("GET", f"/sandboxes/{jar}/flows")["flows"] if flow["bytes_down"]])
    yield ended
    machine.run(jar, "sh", "-c", "kill -9 -1")
    thread.join()


def test_connectivity_before_and_after_blocking(machine, universe):
    jar = machine.sandbox({"mode": "allow-all"})
    network = f"/sandboxes/{jar}/network"

    def code() -> str:
        return str(machine.fetch(jar, "http://plain.test/", "-o", "/dev/null", "-w", "%{http_code}"))

    assert machine.call("GET", network)["mode"] == "allow-all"
    assert code() == "200"
    machine.call("PUT", network, NOTHING)
    seen = len(universe.internet.seen)
    assert code() != "200"
    assert len(universe.internet.seen) == seen
    machine.call("PUT", network, {"mode": "block-all", "egress": {"allowed_domains": ["plain.test"]}})
    assert code() == "200"
    machine.call("PUT", network, {"mode": "allow-all", "egress": {"denied_domains": ["plain.test"]}})
    assert code() != "200"


def test_a_new_policy_ends_flows_and_a_dry_run_says_which(machine):
    jar = machine.sandbox(PLAIN)
    machine.fetch(jar, "http://evil.test/")
    with streaming(machine, jar) as ended:
        [flow] = machine.call("GET", f"/sandboxes/{jar}/flows")["flows"]
        assert (flow["name"], flow["port"], flow["protocol"]) == ("plain.test", addresses.HTTP, "tcp")
        preview = machine.call("PUT", f"/sandboxes/{jar}/network?dry_run=true", NOTHING)
        [change] = [change for change in preview["changes"] if change["live"]]
        assert (preview["flows_reset"], change["to"], change["reason"]) == (1, "deny", "not_allowed_domain")
        preview = machine.call("PUT", f"/sandboxes/{jar}/network?dry_run=true", {"mode": "allow-all"})
        assert preview["flows_reset"] == 0
        assert ("evil.test", "allow") in [(change["destination"], change["to"]) for change in preview["changes"]]
        assert not ended.is_set()
        change = machine.call("PUT", f"/sandboxes/{jar}/network", NOTHING)
        assert (change["generation"], change["flows_reset"]) == (2, 1)
        assert ended.wait(60)
        assert machine.call("GET", f"/sandboxes/{jar}/flows") == {"flows": []}


def test_a_service_that_changes_ends_flows_and_a_dry_run_says_so(machine):
    def policy(**services: object) -> dict[str, object]:
        return {"mode": "block-all", "services": services}

    plain = {"address": "plain.test:80"}
    jar = machine.sandbox(policy(web=plain))
    network = f"/sandboxes/{jar}/network"
    with streaming(machine, jar, "web.belljar.internal") as ended:
        for document in (policy(web=plain, more={"port": 1}), {**policy(web=plain), "mode": "allow-all"}):
            assert machine.call("PUT", f"{network}?dry_run=true", document)["flows_reset"] == 0
            assert machine.call("PUT", network, document)["flows_reset"] == 0
        for document in (policy(web={"address": "other.test:80"}), policy(more=plain)):
            assert machine.call("PUT", f"{network}?dry_run=true", document)["flows_reset"] == 1
        assert not ended.is_set()
        assert machine.call("PATCH", network, {"remove": {"services": ["web"]}})["flows_reset"] == 1
        assert ended.wait(60)


def test_a_service_at_a_unix_socket(machine, tmp_path):
    ask = ("bash", "-c", "exec 3<>/dev/tcp/tool.belljar.internal/80; echo hello >&3; head -1 <&3")
    with socket.socket(socket.AF_UNIX) as tool:
        tool.bind(str(tmp_path / "tool.sock"))
        tool.listen()
        jar = machine.sandbox({"mode": "block-all", "services": {"tool": {"socket": f"{tmp_path}/tool.sock"}}})
        other = machine.sandbox(NOTHING)

        def answer() -> bytes:
            with tool.accept()[0] as called:
                heard = called.recv(99)
                called.sendall(heard.upper())
                return heard

        with ThreadPoolExecutor(1) as threads:
            heard = threads.submit(answer)
            assert machine.run(other, *ask)["exit_code"] != 0
            assert not heard.done()
            assert machine.run(jar, *ask)["stdout"] == "HELLO\n"
            assert heard.result() == b"hello\n"


def test_a_grant_that_ends_takes_its_flows_along(machine):
    jar = machine.sandbox(NOTHING)
    machine.call("POST", f"/sandboxes/{jar}/network/grants", {"allow": "plain.test", "seconds": 3})
    with streaming(machine, jar) as ended:
        assert ended.wait(60)
    denied = machine.call("GET", f"/sandboxes/{jar}/denials")["denials"]
    assert ("flow.denied", "plain.test") in [(denial["event"], denial["name"]) for denial in denied]


def test_udp_is_refused_until_a_policy_allows_it(machine, universe):
    jar = machine.sandbox(NOTHING)
    send = ("bash", "-c", f"echo hello > /dev/udp/{addresses.PUBLIC}/{addresses.ECHO}")
    machine.run(jar, *send)
    until(lambda: machine.call("GET", f"/sandboxes/{jar}/denials")["denials"])
    assert not universe.wire.contacts()
    machine.call("PUT", f"/sandboxes/{jar}/network", {"mode": "allow-all"})
    assert machine.run(jar, *send)["exit_code"] == 0
    until(lambda: universe.internet.witness.of_kind("datagram"))


def test_denials_are_told_as_they_happen(machine):
    jar = machine.sandbox(NOTHING)
    with machine.client() as client, client.stream("GET", f"/sandboxes/{jar}/events") as answer:
        events = parse_events(answer.iter_lines())
        assert machine.fetch(jar, "http://evil.test/") == ""
        denial = next(event for event in events if event.event == "dns.denied").data
    assert (denial["name"], denial["reason"], denial["rule"]) == ("evil.test", "not_allowed_domain", "mode")
    [latest, *_] = machine.call("GET", f"/sandboxes/{jar}/denials?limit=1")["denials"]
    assert latest["event"] == "dns.denied"


@pytest.fixture
def exposed(universe, tmp_path):
    """A server that listens on every address of its machine."""
    machine = Machine(universe, tmp_path / "state", "--host", "0.0.0.0", "--expose", "anybody.test")
    try:
        machine.start()
        yield machine
        machine.clean_up()
    finally:
        machine.kill()


def test_nothing_inside_reaches_the_server_by_any_door(exposed, universe):
    """With everything granted that can be, and the server on every address."""
    everything = {
        "mode": "allow-all",
        "allow_private": True,
        "host_ports": [f"1-{PORT - 1}", f"{PORT + 1}-65535"],
        "rules": [{"action": "allow", "cidrs": ["0.0.0.0/0", "::/0"], "ports": ["1-65535"]}],
    }
    jar = exposed.sandbox(everything)
    health = universe.gateway.call(_fetch_health)
    assert '"status":"ok"' in health, "it is there"
    assert exposed.fetch(jar, "http://host.belljar.internal/") != "", "the host's other services are open"
    _give_addresses(universe, "add")
    try:
        assert '"status":"ok"' in universe.gateway.call(_fetch_health, LATE), "there, too"
        told = _try_everything(exposed, jar)
    finally:
        _give_addresses(universe, "delete")
    assert '"status":"ok"' not in told
    assert exposed.run(jar, "sh", "-c", f"ls {exposed.state} {exposed.state.parent}")["exit_code"] != 0
    allowed = [event for event in _all_events(exposed, jar) if event.event == "flow.allowed"]
    assert PORT not in [event.data["port"] for event in allowed]


def _give_addresses(universe: Universe, change: str) -> None:
    """Have the server's machine get addresses after the sandbox was made, as from DHCP or a VPN; or lose them."""
    universe.zone["late.test"] = at(LATE, ttl=0)
    for address in (f"{LATE}/32", f"{LATE_V6}/128"):
        universe.gateway.call(run, "ip", "address", change, address, "dev", "wire")
    universe.gateway.call(run, "ip", "route", change, "local", f"{LATE_RANGE}/29", "dev", "lo")


def _try_everything(exposed: Machine, jar: str) -> str:
    """Return what a sandbox gets when it asks for the server under all its names."""
    hosts = (
        "127.0.0.1",
        "[::1]",
        "localhost",
        "0.0.0.0",
        "2130706433",
        "host.belljar.internal",
        "host.docker.internal",
        addresses.GATEWAY,
        f"[{addresses.GATEWAY_V6}]",
        f"[::ffff:{addresses.GATEWAY}]",
        "gateway.test",
        "loopback.test",
        LATE,
        f"[{LATE_V6}]",
        f"[::ffff:{LATE}]",
        LATE_RANGE,
        "late.test",
    )
    ways = (
        (),
        ("-x", "http://127.0.0.1:3128"),
        ("--socks5-hostname", "127.0.0.1:1080"),
        ("--socks5", "127.0.0.1:1080"),
    )
    tries = [[*way, f"http://{host}:{PORT}/healthz"] for host in hosts for way in ways]
    tries += [["--unix-socket", str(exposed.state / "belljar.sock"), "http://localhost/healthz"]]
    tries += [["--abstract-unix-socket", "belljar", "http://localhost/healthz"]]
    script = "\n".join("curl -s -g -m 5 " + " ".join(words) for words in tries)
    return str(exposed.run(jar, "sh", "-c", script)["stdout"])


def _fetch_health(address: str = addresses.GATEWAY) -> str:
    import urllib.request  # noqa: PLC0415

    with urllib.request.urlopen(f"http://{address}:{PORT}/healthz") as answer:
        return str(answer.read().decode())


def _all_events(machine: Machine, jar: str):
    machine.call("POST", f"/sandboxes/{jar}/pause")
    with machine.client() as client, client.stream("GET", f"/sandboxes/{jar}/events?after=0") as answer:
        for event in parse_events(answer.iter_lines()):
            yield event
            if event.event == "sandbox.paused":
                return
