"""Through a proxy, end to end: who is asked for what, who is called, and who hears nothing."""

import base64
import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from belljar.gateway.audit.log import AuditLog, open_log
from belljar.gateway.settings import Settings, read_settings
from belljar.gateway.upstream.proxy import UnenforceableError, Upstream
from belljar.gateway.upstream.proxyurl import UpstreamProxy
from belljar.gateway.upstream.resolver import Resolver
from belljar.linux.programs import run
from belljar.policy import to_name
from tests.gateway.driving import Driver, nothing_left_behind
from tests.gateway.serving import Serving, policy
from tests.universe import Sandbox, Universe, addresses
from tests.universe.clients import fetch
from tests.universe.zone import at

PROXY = "198.51.100.80"
LATE = "203.0.113.77"
OPEN = f"http://{PROXY}:{addresses.PROXY}"
NAMES_ONLY = f"http://{PROXY}:{addresses.PROXY_FOR_NAMES}"
WITH_PASSWORD = f"http://%s@{PROXY}:{addresses.PROXY_WITH_PASSWORD}"
PASSWORD = addresses.PROXY_CREDENTIALS[1]

GRANTS = "mode: block-all\negress: {allowed_domains: [%s]}"
PLAIN = GRANTS % "v4.test, other.test"
OPENED = "HTTP/1.1 200 OK v4.test /\n"
THROUGH_PROXY = {(PROXY, addresses.PROXY)}


@pytest.fixture
def log(tmp_path):
    """The path of the audit log."""
    return tmp_path / "audit.ndjson"


@pytest.fixture
def behind(universe, log):
    """Start a gateway with settings, and a sandbox behind it with a policy."""

    @contextmanager
    def start(text=PLAIN, *, dial_seconds=15.0, **settings):
        audit = AuditLog(open_log(str(log)))
        environment = {f"BELLJAR_{name.upper()}": value for name, value in settings.items()}
        serving = Serving(universe, read_settings(environment), audit)
        try:
            with serving.sandbox(text, dial_seconds=dial_seconds) as (sandbox, _):
                yield sandbox
        finally:
            serving.close()
            audit.close()

    return start


def page(sandbox: Sandbox, host: str = "v4.test", port: int = addresses.HTTP) -> str:
    """Return the status line and the body that a client in the sandbox gets."""
    with sandbox.connect(host, port) as client:
        head, body = fetch(client, "/", host)
    return head.partition("\r\n")[0] + " " + body.decode()


def tunnels(universe: Universe) -> list[str]:
    """Return what proxies were asked for, and what they said."""
    return [seen.what for seen in universe.internet.witness.of_kind("tunnel")]


def called(universe: Universe) -> set[tuple[str, int]]:
    """Return whom the gateway has called over TCP."""
    return {(address, port) for protocol, address, port in universe.wire.contacts() if protocol == "tcp"}


def questions(universe: Universe) -> list[str]:
    """Return what the name server was asked."""
    return [seen.what for seen in universe.internet.witness.of_kind("question")]


def told(log: Path, event: str) -> list[dict[str, Any]]:
    """Return the events of a kind that the audit log tells."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [record for record in records if record["event"] == event]


@contextmanager
def late_address(universe: Universe) -> Iterator[None]:
    """Give the gateway's host another address, for the length of a block."""
    universe.gateway.call(run, "ip", "address", "add", f"{LATE}/32", "dev", "wire")
    try:
        yield
    finally:
        universe.gateway.call(run, "ip", "address", "delete", f"{LATE}/32", "dev", "wire")


class TestThroughTheProxy:
    def test_it_is_asked_for_the_checked_address_and_nobody_else_is_called(self, universe, behind):
        with behind(upstream_proxy=OPEN) as sandbox:
            assert page(sandbox) == OPENED
        assert tunnels(universe) == [f"{addresses.PUBLIC}:80 200"]
        assert called(universe) == THROUGH_PROXY

    def test_it_may_have_a_name(self, universe, behind):
        universe.zone["proxy.corp.test"] = at(addresses.REFUSING, PROXY)
        with behind(upstream_proxy=f"http://proxy.corp.test:{addresses.PROXY}") as sandbox:
            assert page(sandbox) == OPENED
        assert called(universe) == THROUGH_PROXY | {(addresses.REFUSING, addresses.PROXY)}

    def test_it_may_run_on_the_gateways_own_host(self, universe, behind):
        with behind(upstream_proxy=f"http://127.0.0.1:{addresses.PROXY}") as sandbox:
            assert page(sandbox) == OPENED
        assert [seen.what for seen in universe.gateway.witness.of_kind("tunnel")] == [f"{addresses.PUBLIC}:80 200"]

    def test_a_server_that_speaks_first_is_heard(self, behind):
        with (
            behind(GRANTS % '"v4.test:22"', upstream_proxy=OPEN) as sandbox,
            sandbox.connect("v4.test", addresses.SSH) as client,
            client.makefile("rb") as lines,
        ):
            assert lines.readline() == b"SSH-2.0-stand_in\r\n"
            client.sendall(b"hello\n")
            assert lines.readline() == b"hello\n"
            client.shutdown(socket.SHUT_WR)
            assert lines.read() == b""

    def test_tls_works(self, universe, behind):
        context = universe.certificates.client_context()
        with (
            behind(upstream_proxy=OPEN) as sandbox,
            sandbox.connect("v4.test", addresses.HTTPS) as client,
            context.wrap_socket(client, server_hostname="v4.test") as secure,
        ):
            assert fetch(secure, "/", "v4.test")[1] == b"v4.test /\n"
        assert called(universe) == THROUGH_PROXY

    def test_addresses_are_tried_in_turn(self, universe, behind):
        with behind(GRANTS % "dead-first.test", upstream_proxy=OPEN) as sandbox:
            assert page(sandbox, "dead-first.test") == "HTTP/1.1 200 OK dead-first.test /\n"
        assert tunnels(universe) == [f"{addresses.BLACK_HOLE}:80 502", f"{addresses.PUBLIC}:80 200"]

    def test_ipv6(self, universe, behind):
        with behind(GRANTS % "v6.test", upstream_proxy=f"http://[2001:db8:80::1]:{addresses.PROXY}") as sandbox:
            assert page(sandbox, "v6.test") == "HTTP/1.1 200 OK v6.test /\n"
        assert tunnels(universe) == [f"[{addresses.PUBLIC_V6}]:80 200"]
        assert called(universe) == {("2001:db8:80::1", addresses.PROXY)}

    def test_an_address_that_the_policy_grants(self, universe, behind):
        text = f"mode: block-all\negress: {{allowed_cidrs: [{addresses.PRIVATE}]}}"
        with behind(text, upstream_proxy=OPEN) as sandbox:
            assert page(sandbox, addresses.PRIVATE) == f"HTTP/1.1 200 OK {addresses.PRIVATE} /\n"
        assert tunnels(universe) == [f"{addresses.PRIVATE}:80 200"]
        assert called(universe) == THROUGH_PROXY


class TestExceptions:
    @pytest.mark.parametrize("exceptions", ["v4.test", ".test", f"{addresses.PUBLIC}/32", "*"])
    def test_they_are_dialled_directly(self, universe, behind, exceptions):
        with behind(upstream_proxy=OPEN, no_proxy=exceptions) as sandbox:
            assert page(sandbox) == OPENED
        assert called(universe) == {(addresses.PUBLIC, addresses.HTTP)}
        assert tunnels(universe) == []

    def test_others_are_not(self, universe, behind):
        with behind(upstream_proxy=OPEN, no_proxy="v4.test") as sandbox:
            assert page(sandbox, "other.test") == "HTTP/1.1 200 OK other.test /\n"
        assert called(universe) == THROUGH_PROXY

    def test_they_grant_nothing(self, universe, behind):
        with behind(GRANTS % "v4.test, private.test", upstream_proxy=OPEN, no_proxy="*") as sandbox:
            with pytest.raises(socket.gaierror):
                sandbox.connect("evil.test", addresses.HTTP)
            assert page(sandbox, "private.test").startswith("HTTP/1.1 403 ")
            assert called(universe) == set()
            assert page(sandbox) == OPENED

    def test_a_service_of_the_host_never_goes_through_the_proxy(self, universe, behind):
        text = f"mode: block-all\nhost_ports: [{addresses.HTTP}]"
        with behind(text, upstream_proxy=OPEN) as sandbox:
            assert page(sandbox, "host.belljar.internal").startswith("HTTP/1.1 200 OK ")
        assert universe.gateway.witness.of_kind("request") != []
        assert universe.wire.contacts() == set()

    def test_nor_does_one_at_a_unix_socket_but_one_at_an_address_does(self, universe, behind, tmp_path):
        text = f"mode: block-all\nservices: {{tool: {{socket: {tmp_path}/s}}, db: {{address: 'private.test:80'}}}}"
        with behind(text, upstream_proxy=OPEN) as sandbox:
            assert page(sandbox, "tool.belljar.internal").startswith("HTTP/1.1 502 ")
            assert universe.wire.contacts() == set()
            assert page(sandbox, "db.belljar.internal").startswith("HTTP/1.1 200 ")
        assert tunnels(universe) == [f"{addresses.PRIVATE}:80 200"]
        assert called(universe) == THROUGH_PROXY

    def test_names_of_services_that_the_proxy_resolves(self, universe, behind):
        text = "mode: block-all\nservices: {db: {address: 'v4.test:80', at: 81}}"
        with behind(text, upstream_proxy=NAMES_ONLY, proxy_resolves="yes") as sandbox:
            assert page(sandbox, "db.belljar.internal", 81).startswith("HTTP/1.1 200 ")
        assert tunnels(universe) == ["v4.test:80 200"]
        assert questions(universe) == []


AIMED_AT_THE_PROXY = {
    "its address": (PROXY, "mode: allow-all"),
    "its address in IPv6": (f"::ffff:{PROXY}", "mode: allow-all"),
    "its address, granted": (
        PROXY,
        f"mode: block-all\negress: {{allowed_domains: [v4.test], allowed_cidrs: [{PROXY}]}}",
    ),
    "its name": ("proxy.corp.test", GRANTS % 'v4.test, "proxy.corp.test:3128"'),
    "another name of it": ("alias.corp.test", GRANTS % 'v4.test, "*.corp.test:3128"'),
}


class TestWhatIsDenied:
    """Beside what is allowed, and the proxy hears of that alone."""

    @pytest.mark.parametrize("by", ["address", "name"])
    def test_an_address_of_the_host_that_came_later(self, universe, behind, by):
        """A proxy on the same host would get there."""
        universe.zone["late.test"] = at(LATE)
        text = f"mode: block-all\negress: {{allowed_domains: [v4.test, late.test], allowed_cidrs: [{LATE}]}}"
        with behind(text, upstream_proxy=f"http://127.0.0.1:{addresses.PROXY}") as sandbox, late_address(universe):
            assert page(sandbox, LATE if by == "address" else "late.test").startswith("HTTP/1.1 403 ")
            assert universe.gateway.seen == []
            assert page(sandbox) == OPENED
        assert [seen.what for seen in universe.gateway.witness.of_kind("tunnel")] == [f"{addresses.PUBLIC}:80 200"]

    def test_the_proxy_itself_at_an_address_of_the_host_that_came_later(self, universe, behind):
        text = f"mode: block-all\nhost_ports: [{addresses.PROXY}]\negress: {{allowed_domains: [v4.test]}}"
        with behind(text, upstream_proxy=f"http://{LATE}:{addresses.PROXY}") as sandbox, late_address(universe):
            assert page(sandbox, "host.belljar.internal", addresses.PROXY).startswith("HTTP/1.1 403 ")
            assert universe.gateway.seen == []
            assert page(sandbox) == OPENED

    @pytest.mark.parametrize(
        "denied", ["private.test", "loopback.test", "metadata.test", "mixed.test", "nat64.test", "gateway.test"]
    )
    def test_the_guard_stays_ours(self, universe, behind, denied):
        with behind(GRANTS % f"v4.test, {denied}", upstream_proxy=OPEN) as sandbox:
            assert page(sandbox, denied).startswith("HTTP/1.1 403 ")
            assert called(universe) == set()
            assert page(sandbox) == OPENED
        assert tunnels(universe) == [f"{addresses.PUBLIC}:80 200"]

    def test_a_name_that_is_not_granted(self, universe, behind):
        with behind(upstream_proxy=OPEN) as sandbox:
            with pytest.raises(socket.gaierror):
                sandbox.connect("evil.test", addresses.HTTP)
            assert page(sandbox, addresses.EVIL).startswith("HTTP/1.1 403 ")
            assert called(universe) == set()
            assert page(sandbox) == OPENED
        assert tunnels(universe) == [f"{addresses.PUBLIC}:80 200"]

    @pytest.mark.parametrize("exceptions", ["none.test", "*"])
    @pytest.mark.parametrize(("host", "text"), AIMED_AT_THE_PROXY.values(), ids=AIMED_AT_THE_PROXY)
    def test_the_proxy_itself_is_not_for_sandboxes(self, universe, behind, log, host, text, exceptions):
        universe.zone |= {"proxy.corp.test": at(PROXY), "alias.corp.test": at(PROXY)}
        with behind(text, upstream_proxy=f"http://proxy.corp.test:{addresses.PROXY}", no_proxy=exceptions) as sandbox:
            with suppress(ConnectionResetError), sandbox.connect(host, addresses.PROXY) as client:
                client.sendall(b"CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n\r\n")
                assert not client.recv(999).startswith(b"HTTP/1.1 200")
            assert called(universe) == set()
            [denial] = told(log, "flow.denied")
            assert denial["reason"] == "reserved_address"
            assert "leads to the upstream proxy" in denial["sentence"]
            assert page(sandbox) == OPENED

    def test_nor_through_the_hosts_ports(self, universe, behind):
        text = f"mode: block-all\nhost_ports: [{addresses.HTTP}, {addresses.PROXY}]"
        for own in ("127.0.0.1", "[::1]", addresses.GATEWAY):
            with behind(text, upstream_proxy=f"http://{own}:{addresses.PROXY}") as sandbox:
                assert page(sandbox, "host.belljar.internal", addresses.PROXY).startswith("HTTP/1.1 403 ")
                assert universe.gateway.witness.of_kind("tunnel") == []
                assert page(sandbox, "host.belljar.internal").startswith("HTTP/1.1 200 ")

    @pytest.mark.parametrize("own", ["127.0.0.1", "[::1]", addresses.GATEWAY])
    def test_nor_as_a_service_at_a_port(self, universe, behind, log, own):
        text = f"mode: block-all\nservices: {{p: {{port: {addresses.PROXY}, at: 80}}, ok: {{port: {addresses.HTTP}}}}}"
        with behind(text, upstream_proxy=f"http://{own}:{addresses.PROXY}") as sandbox:
            assert page(sandbox, "p.belljar.internal").startswith("HTTP/1.1 403 ")
            assert "leads to the upstream proxy" in told(log, "flow.denied")[0]["sentence"]
            assert universe.gateway.seen == []
            assert page(sandbox, "ok.belljar.internal").startswith("HTTP/1.1 200 ")

    @pytest.mark.parametrize(
        ("target", "settings"),
        [
            ("proxy.corp.test", {}),
            ("proxy.corp.test", {"proxy_resolves": "yes"}),
            ("alias.corp.test", {}),
            ("alias.corp.test", {"no_proxy": "*"}),
            (PROXY, {}),
            (PROXY, {"no_proxy": "*"}),
            (PROXY, {"proxy_resolves": "yes"}),
            (f"[::ffff:{PROXY}]", {}),
        ],
        ids=str,
    )
    def test_nor_as_a_service_at_its_address(self, universe, behind, log, target, settings):
        universe.zone |= {"proxy.corp.test": at(PROXY), "alias.corp.test": at(PROXY)}
        text = f"mode: block-all\nservices: {{p: {{address: '{target}:3128'}}, ok: {{address: 'v4.test:80'}}}}"
        with behind(text, upstream_proxy=f"http://proxy.corp.test:{addresses.PROXY}", **settings) as sandbox:
            with suppress(ConnectionResetError), sandbox.connect("p.belljar.internal", addresses.PROXY) as client:
                client.sendall(b"CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n\r\n")
                assert not client.recv(999).startswith(b"HTTP/1.1 200")
            assert "leads to the upstream proxy" in told(log, "flow.denied")[0]["sentence"]
            assert called(universe) == set()
            assert page(sandbox, "ok.belljar.internal").startswith("HTTP/1.1 200 ")


class TestCredentials:
    def test_they_open_the_proxy(self, universe, behind):
        with behind(upstream_proxy=WITH_PASSWORD % f"cat:{quote(PASSWORD, safe='')}") as sandbox:
            assert page(sandbox) == OPENED
        assert tunnels(universe) == [f"{addresses.PUBLIC}:80 200"]

    @pytest.mark.parametrize("credentials", ["cat:dr0wssap", "dog:t0p"])
    def test_wrong_ones_are_tried_once_and_shown_to_nobody(self, universe, behind, log, credentials):
        with behind(GRANTS % "many.test", upstream_proxy=WITH_PASSWORD % credentials) as sandbox:
            answer = page(sandbox, "many.test")
        assert answer.startswith("HTTP/1.1 502 ")
        assert "does not accept the gateway's credentials" in answer
        [closed] = told(log, "flow.closed")
        assert closed["how"] == "failed"
        assert "does not accept the gateway's credentials" in closed["error"]
        assert len(tunnels(universe)) == 1
        for secret in (credentials.partition(":")[2], base64.b64encode(credentials.encode()).decode()):
            assert secret not in answer + log.read_text()


class TestFailures:
    def test_a_proxy_that_refuses_is_named_as_the_cause(self, universe, behind, log):
        with behind(upstream_proxy=NAMES_ONLY) as sandbox:
            answer = page(sandbox)
        assert answer.startswith("HTTP/1.1 502 ")
        assert "the upstream proxy refuses to connect to it (403 Forbidden)" in answer
        assert "(403 Forbidden)" in told(log, "flow.closed")[0]["error"]
        assert tunnels(universe) == [f"{addresses.PUBLIC}:80 403"]

    def test_a_destination_that_it_cannot_reach(self, behind):
        with behind(GRANTS % "dead.test", upstream_proxy=OPEN) as sandbox:
            assert "the upstream proxy cannot reach it (502 Bad Gateway)" in page(sandbox, "dead.test")

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            (f"http://{addresses.REFUSING}:3128", "the upstream proxy cannot be reached: Connection refused"),
            ("http://nowhere.test:3128", "the upstream proxy cannot be found: nowhere.test does not exist"),
            (f"http://{PROXY}:{addresses.SSH}", "the upstream proxy does not speak HTTP/1.1"),
            (f"http://{PROXY}:{addresses.RESET}", "the upstream proxy hung up without an answer"),
        ],
        ids=["down", "unknown", "no proxy at all", "hangs up"],
    )
    def test_without_the_proxy_nothing_is_reached(self, universe, behind, url, why):
        with behind(upstream_proxy=url) as sandbox:
            answer = page(sandbox)
            assert answer.startswith("HTTP/1.1 502 ")
            assert why in answer
        assert (addresses.PUBLIC, addresses.HTTP) not in called(universe)

    @pytest.mark.parametrize("names", ["no", "yes"])
    def test_a_proxy_that_says_nothing(self, universe, behind, names):
        url = f"http://{PROXY}:{addresses.SILENT}"
        with behind(upstream_proxy=url, proxy_resolves=names, dial_seconds=0.1) as sandbox:
            assert "no answer in time" in page(sandbox)
        assert called(universe) <= {(PROXY, addresses.SILENT)}

    @pytest.mark.parametrize("count", [1, 3], ids=["one address", "several"])
    def test_a_dial_that_is_given_up_leaves_nothing_behind(self, count):
        driver = Driver()
        with socket.create_server(("127.0.0.1", 0)) as proxy, nothing_left_behind(driver):
            settings = Settings(proxy=UpstreamProxy(ip_address("127.0.0.1"), proxy.getsockname()[1]))
            upstream = Upstream(driver.loop, Resolver(driver.loop), settings)
            flow = to_name("plain.test", 443, addresses=tuple(ip_address("203.0.113.10") + n for n in range(count)))
            dialling = driver.start(upstream.connect(flow, 443))
            driver.settle()
            with proxy.accept()[0] as accepted:
                driver.until(lambda: select.select([accepted], [], [], 0)[0])
                assert accepted.recv(999).startswith(b"CONNECT ")
                dialling.cancel()
                driver.until(lambda: dialling.done)
        driver.loop.close()


class TestNamesLeftToTheProxy:
    def test_they_are_sent_unresolved(self, universe, behind):
        with behind(upstream_proxy=NAMES_ONLY, proxy_resolves="yes") as sandbox:
            assert page(sandbox) == OPENED
        assert tunnels(universe) == ["v4.test:80 200"]
        assert questions(universe) == []

    def test_exceptions_are_resolved_and_guarded_here(self, universe, behind):
        text = GRANTS % "v4.test, other.test, private.test"
        settings = {"upstream_proxy": NAMES_ONLY, "proxy_resolves": "yes", "no_proxy": "other.test, private.test"}
        with behind(text, **settings) as sandbox:
            assert page(sandbox, "other.test").startswith("HTTP/1.1 200 ")
            assert page(sandbox, "private.test").startswith("HTTP/1.1 403 ")
            assert called(universe) == {(addresses.OTHER_PUBLIC, addresses.HTTP)}
            assert page(sandbox) == OPENED
        assert tunnels(universe) == ["v4.test:80 200"]

    def test_what_is_not_granted_is_not_sent(self, universe, behind):
        with behind("mode: allow-all", upstream_proxy=OPEN, proxy_resolves="yes") as sandbox:
            for closed in ("metadata.google.internal", "localhost"):
                with pytest.raises(socket.gaierror):
                    sandbox.connect(closed, addresses.HTTP)
            assert called(universe) == set()
            assert page(sandbox) == OPENED
        assert tunnels(universe) == ["v4.test:80 200"]

    @pytest.mark.parametrize(
        "text",
        [
            "mode: allow-all\negress: {denied_cidrs: [203.0.113.99]}",
            "mode: block-all\nrules: [{action: deny, cidrs: [203.0.113.99]}]\negress: {allowed_domains: [v4.test]}",
        ],
        ids=["denied_cidrs", "a rule"],
    )
    def test_a_policy_that_denies_addresses_is_refused(self, universe, text):
        settings = read_settings({"BELLJAR_UPSTREAM_PROXY": OPEN, "BELLJAR_PROXY_RESOLVES": "yes"})
        serving = Serving(universe, settings)
        try:
            with serving.sandbox(PLAIN) as (sandbox, jar):
                before = jar.policy
                with pytest.raises(UnenforceableError, match="BELLJAR_PROXY_RESOLVES"):
                    serving.do(lambda: serving.gateway.change_policy(jar.id, policy(text, generation=2)))
                assert jar.policy is before
                assert page(sandbox) == OPENED
        finally:
            serving.close()


class TestResolver:
    def test_the_one_that_is_given_is_asked(self, universe, behind):
        with behind(resolver=f"[{addresses.RESOLVER_V6}]:53") as sandbox:
            assert page(sandbox) == OPENED
        assert {seen.address for seen in universe.internet.witness.of_kind("question")} == {addresses.RESOLVER_V6}

    def test_the_next_one_is_asked_if_the_first_is_of_no_help(self, universe, behind):
        with behind(resolver=f"{addresses.PUBLIC}:{addresses.CLOSED}, {addresses.RESOLVER}") as sandbox:
            assert page(sandbox) == OPENED
        assert {seen.address for seen in universe.internet.witness.of_kind("question")} == {addresses.RESOLVER}
