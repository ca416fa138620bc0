"""What is told and counted about a sandbox."""

import json
import os
import re
from ipaddress import ip_address
from typing import Any, get_args

import pytest

from belljar.gateway.audit.events import COMMON_FIELDS, EVENTS, DnsResult, Ending, Limit, LossCause, ServiceUsed
from belljar.gateway.audit.log import AuditLog
from belljar.gateway.audit.metrics import FLOWS_LIVE, METRICS, Metrics
from belljar.gateway.audit.observing import KEPT_DENIALS, Denial, Observer
from belljar.policy import Protocol, Reason, question, to_address, to_name
from tests.gateway.driving import Clock
from tests.gateway.test_metrics import read_exposition
from tests.policy.documents import compiled

POLICY = compiled("mode: block-all\negress: {allowed_domains: [api.example.org]}")
ALLOWED = POLICY.decide(to_name("api.example.org", 443, addresses=(ip_address("203.0.113.7"),)))
DENIED = POLICY.decide(to_name("evil.example", 443))
DENIED_ADDRESS = POLICY.decide(to_address(ip_address("2001:db8::1"), 22))
DENIED_QUESTION = POLICY.decide(question("evil.example"))

LABEL_VALUES = {
    "sandbox": {"jar"},
    "protocol": {"tcp", "udp"},
    "result": {"allowed", "denied", "refused", "limited", "answered", "failed", *get_args(DnsResult)},
    "service": {"models"},
    "reason": set(Reason),
    "how": set(get_args(Ending)),
    "direction": {"up", "down", "input", "output"},
    "step": {"decide", "resolve", "dial"},
    "transport": {"udp", "tcp"},
    "limit": set(get_args(Limit)),
    "cause": set(get_args(LossCause)),
}


class Watched:
    """An observer, with what it tells and what it counts."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.metrics = Metrics()
        self._reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._log = AuditLog(writer, clock=self.clock, **options)
        self.observer = Observer("jar", audit=self._log, metrics=self.metrics, clock=self.clock)

    def told(self) -> list[dict[str, Any]]:
        """Return the lines since the last time, without their common fields but the event."""
        received = b""
        while True:
            self._log.flush()
            try:
                received += os.read(self._reader, 1 << 20)
            except BlockingIOError:
                break
        records = [json.loads(line) for line in received.splitlines()]
        return [
            {key: value for key, value in record.items() if key not in ("v", "time", "sandbox")} for record in records
        ]

    def events(self) -> list[str]:
        return [record["event"] for record in self.told()]

    def count(self, name: str, **labels: str) -> float:
        return read_exposition(self.metrics.render()).get((name, frozenset({"sandbox": "jar", **labels}.items())), 0)

    def close(self) -> None:
        os.close(self._reader)
        self._log.close()


@pytest.fixture
def watched():
    watched = Watched()
    yield watched
    watched.close()


def test_a_flow_from_its_decision_to_its_end(watched):
    watched.observer.flow_allowed(ALLOWED)
    watched.observer.flow_closed(ALLOWED.flow, 1000, 2000, 1.23456789, "closed")
    destination = {"protocol": "tcp", "name": "api.example.org", "addresses": ["203.0.113.7"], "port": 443}
    assert watched.told() == [
        {
            "event": "flow.allowed",
            **destination,
            "claimed": None,
            "reason": "allowed_domain",
            "rule": "egress.allowed_domains[0]",
        },
        {
            "event": "flow.closed",
            **destination,
            "how": "closed",
            "error": None,
            "bytes_up": 1000,
            "bytes_down": 2000,
            "seconds": 1.234568,
        },
    ]
    assert watched.count("belljar_flows_total", protocol="tcp", result="allowed", reason="allowed_domain") == 1
    assert watched.count("belljar_flows_closed_total", how="closed") == 1
    assert watched.count("belljar_bytes_total", direction="up") == 1000
    assert watched.count("belljar_bytes_total", direction="down") == 2000


def test_a_flow_that_failed_says_why(watched):
    watched.observer.flow_failed(ALLOWED.flow, 1, 2, 0.5, "no answer in time")
    [told] = watched.told()
    assert (told["event"], told["how"], told["error"]) == ("flow.closed", "failed", "no answer in time")
    assert watched.count("belljar_flows_closed_total", how="failed") == 1
    assert watched.observer.denials() == []


def test_a_denied_flow(watched):
    watched.observer.flow_denied(DENIED_ADDRESS)
    sentence = "[2001:db8::1]:22 was dialled by address and is in no allowed range."
    assert watched.told() == [
        {
            "event": "flow.denied",
            "protocol": "tcp",
            "name": None,
            "addresses": ["2001:db8::1"],
            "port": 22,
            "claimed": None,
            "reason": "not_allowed_address",
            "rule": "mode",
            "sentence": sentence,
        }
    ]
    assert watched.count("belljar_flows_total", protocol="tcp", result="denied", reason="not_allowed_address") == 1
    assert watched.observer.denials() == [
        Denial(1000.0, "tcp", "[2001:db8::1]:22", "not_allowed_address", "mode", sentence)
    ]


def test_a_name_with_many_addresses_does_not_make_a_long_line(watched):
    flow = to_name("api.example.org", 443, addresses=tuple(ip_address(f"203.0.113.{n}") for n in range(100)))
    watched.observer.flow_allowed(POLICY.decide(flow))
    assert len(watched.told()[0]["addresses"]) == 8


def test_questions(watched):
    watched.observer.dns_answered("udp", "api.example.org", "A", "address", "allowed_domain")
    watched.observer.dns_denied("tcp", "AAAA", DENIED_QUESTION)
    watched.observer.dns_refused("udp", None, None, "malformed_dns", "ends within the header")
    answered, denied, refused = watched.told()
    assert answered == {
        "event": "dns.answered",
        "transport": "udp",
        "name": "api.example.org",
        "type": "A",
        "result": "address",
        "reason": "allowed_domain",
    }
    assert denied == {
        "event": "dns.denied",
        "transport": "tcp",
        "name": "evil.example",
        "type": "AAAA",
        "reason": "not_allowed_domain",
        "rule": "mode",
        "sentence": "evil.example is not among the allowed domains.",
    }
    assert refused["fault"] == "malformed_dns"
    assert watched.count("belljar_dns_queries_total", transport="udp", result="address") == 1
    assert watched.count("belljar_dns_queries_total", transport="tcp", result="denied") == 1
    assert watched.count("belljar_dns_queries_total", transport="udp", result="refused") == 1
    assert watched.count("belljar_dns_denied_total", reason="not_allowed_domain") == 1
    assert [denial.protocol for denial in watched.observer.denials()] == ["dns"]


def test_policies(watched):
    watched.observer.sandbox_opened(None)
    assert watched.count("belljar_policy_generation") == 0
    watched.observer.policy_changed(7, "abc", 3)
    watched.observer.sandbox_opened(POLICY)
    assert watched.told() == [
        {"event": "sandbox.opened", "generation": 0, "digest": None},
        {"event": "policy.changed", "generation": 7, "digest": "abc", "flows_cut": 3},
        {"event": "sandbox.opened", "generation": 1, "digest": POLICY.digest},
    ]
    assert watched.count("belljar_policy_generation") == 1
    assert watched.count("belljar_flows_cut_total") == 3


def test_the_ring_keeps_the_latest_denials_the_newest_first(watched):
    for port in range(1, KEPT_DENIALS + 11):
        watched.observer.flow_denied(POLICY.decide(to_name("evil.example", port)))
    denials = watched.observer.denials()
    assert len(denials) == KEPT_DENIALS
    assert [denial.destination for denial in denials[:2]] == ["evil.example:1010", "evil.example:1009"]
    assert denials[-1].destination == "evil.example:11"


def test_a_flood_of_denials_fills_no_disk_and_hides_nothing_else(watched):
    lines = 0
    for number in range(10_000):
        watched.observer.flow_denied(DENIED)
        watched.observer.dns_denied("udp", "A", DENIED_QUESTION)
        watched.observer.dns_refused("udp", "_x.evil.example", "SRV", "unsupported_dns", "no")
        if number % 100 == 0:
            lines += len(watched.told())
    assert lines == 1000
    watched.observer.flow_allowed(ALLOWED)
    assert watched.events() == ["flow.allowed"]
    assert watched.count("belljar_flows_total", protocol="tcp", result="denied", reason="not_allowed_domain") == 10_000
    assert watched.count("belljar_audit_lost_total", cause="flood") == 29_000

    watched.clock.now += 1
    watched.observer.flow_denied(DENIED)
    lost, denied = watched.told()
    assert lost == {"event": "audit.lost", "lines": 29_000, "cause": "flood"}
    assert denied["event"] == "flow.denied"


def test_a_flood_of_datagrams_does_not_hide_what_else_is_denied(watched):
    watched.observer.flow_denied(DENIED)
    for number in range(20_000):
        address = ip_address(0xC6336400 + number % 256)
        watched.observer.flow_denied(POLICY.decide(to_address(address, 1 + number, Protocol.UDP)))
    watched.observer.flow_denied(DENIED_ADDRESS)
    told = [record for record in watched.told() if record["event"] == "flow.denied"]
    assert [record["protocol"] for record in told] == ["tcp", *["udp"] * 500, "tcp"]
    newest, *_, oldest = watched.observer.denials()
    assert (newest.destination, oldest.destination) == ("[2001:db8::1]:22", "evil.example:443")
    assert watched.count("belljar_flows_total", protocol="udp", result="denied", reason="udp_blocked") == 20_000
    assert watched.count("belljar_audit_lost_total", cause="flood") == 19_500


def test_a_lasting_flood_is_told_of_now_and_then(watched):
    told = []
    for _ in range(300):  # tenths of a second
        watched.clock.now += 0.1
        for _ in range(200):
            watched.observer.flow_denied(DENIED)
        told += watched.told()
    reports = [record for record in told if record["event"] == "audit.lost"]
    assert 2 <= len(reports) <= 4
    assert len(told) <= 1000 + 30 * 100 + len(reports)
    watched.observer.sandbox_closed()
    told += watched.told()
    lost = sum(record["lines"] for record in told if record["event"] == "audit.lost")
    assert lost + sum(record["event"] == "flow.denied" for record in told) == 300 * 200


def test_a_limit_is_told_once_in_a_burst_with_how_often(watched):
    for _ in range(50):
        watched.observer.limit_reached("handshakes")
    watched.observer.limit_reached("connections")
    assert watched.told() == [
        {"event": "limit.reached", "limit": "handshakes", "times": 1},
        {"event": "limit.reached", "limit": "connections", "times": 1},
    ]
    watched.clock.now += 10
    watched.observer.limit_reached("handshakes")
    watched.observer.limit_reached("handshakes")
    assert watched.told() == [{"event": "limit.reached", "limit": "handshakes", "times": 50}]
    watched.observer.sandbox_closed()
    assert watched.told() == [
        {"event": "limit.reached", "limit": "handshakes", "times": 1},
        {"event": "sandbox.closed"},
    ]
    assert watched.count("belljar_limits_reached_total", limit="handshakes") == 52


def test_a_bug_is_told_without_quoting_anybody(watched, caplog):
    for _ in range(5000):
        watched.observer.bug_found(a_bug())
    assert watched.count("belljar_bugs_total") == 5000
    told = watched.told()
    assert told[0]["event"] == "bug.found"
    assert re.fullmatch(r"ValueError in test_observing.py:\d+", told[0]["error"])
    assert len(told) < 2000
    assert len(caplog.records) < 2000, "a sandbox that has found a bug cannot fill a disk with it"


def test_a_limit_for_questions(watched):
    watched.observer.dns_limited("udp", "dns_per_second")
    assert watched.events() == ["limit.reached"]
    assert watched.count("belljar_dns_queries_total", transport="udp", result="limited") == 1


def test_lines_that_the_log_lost_are_counted():
    watched = Watched(queue_lines=2)
    for _ in range(5000):
        watched.observer.policy_changed(2, "digest", 0)
    lost = watched.count("belljar_audit_lost_total", cause="full")
    assert lost > 0
    assert len(watched.told()) == 5000 - lost
    watched.close()


def test_gauges_are_read_from_where_they_are_known(watched):
    watched.observer.read_from(FLOWS_LIVE, lambda: 42)
    assert watched.count("belljar_flows_live") == 42


def test_without_a_log_everything_is_counted_all_the_same():
    metrics = Metrics()
    observer = Observer("jar", metrics=metrics)
    observer.flow_denied(DENIED)
    assert 'result="denied"' in metrics.render()
    assert len(observer.denials()) == 1


def a_bug() -> BaseException:
    try:
        return ValueError(int("a secret"))
    except ValueError as error:
        return error


def exercise(observer: Observer) -> None:
    """Have everything happen that can."""
    observer.sandbox_opened(POLICY)
    observer.flow_allowed(ALLOWED)
    observer.flow_denied(POLICY.decide(to_name("evil.example", 53, Protocol.UDP)))
    for how in get_args(Ending):
        observer.flow_closed(ALLOWED.flow, 1, 1, 1.0, how)
    observer.flow_failed(ALLOWED.flow, 1, 1, 1.0, "no answer in time")
    observer.bug_found(a_bug())
    observer.took("decide", 1e-6)
    observer.took("resolve", 0.01)
    observer.took("dial", 0.01)
    for result in get_args(DnsResult):
        observer.dns_answered("udp", "api.example.org", "A", result)
    observer.dns_denied("tcp", "A", DENIED_QUESTION)
    observer.dns_refused("tcp", None, None, "too_large", "no")
    for limit in get_args(Limit):
        observer.dns_limited("udp", limit)
    observer.policy_changed(2, "digest", 0)
    for status, refused in ((200, None), (500, None), (403, "path")):
        observer.service_used(ServiceUsed("models", status, refused, "m", 5, 7, 0.25, 1, 1, 1.0))
    for _ in range(1100):
        observer.flow_allowed(ALLOWED)
        observer.flow_denied(DENIED)
    observer.sandbox_closed()


def test_every_event_is_told_as_the_schema_says(watched):
    exercise(watched.observer)
    fields = {name: [*COMMON_FIELDS, *kind._fields] for kind, name in EVENTS.items()}
    seen = {}
    for record in watched.told():
        assert {"v", "time", "sandbox", *record} == set(fields[record["event"]])
        seen[record["event"]] = True
    supervisors = {"sandbox.interrupted", "sandbox.held"}
    assert set(seen) == set(EVENTS.values()) - supervisors


def test_what_was_made_of_a_service_is_summed_up(watched):
    exercise(watched.observer)
    samples = read_exposition(watched.metrics.render())

    def counted(name: str, **labels: str) -> float:
        shown = frozenset({"sandbox": "jar", "service": "models", **labels}.items())
        return samples[f"belljar_service_{name}_total", shown]

    assert [counted("requests", result=result) for result in ("answered", "failed", "refused")] == [1, 1, 1]
    assert (counted("tokens", direction="input"), counted("tokens", direction="output")) == (15, 21)
    assert counted("dollars") == 0.75


def test_requests_that_a_broker_refuses_fill_no_disk(watched):
    for _ in range(5000):
        watched.observer.service_used(ServiceUsed("models", 403, "path", None, 0, 0, None, 0, 0, 0.0))
    watched.observer.sandbox_closed()
    lines = watched.told()
    told = [record for record in lines if record["event"] == "service.used"]
    [lost] = [record for record in lines if record["event"] == "audit.lost"]
    assert 0 < len(told) <= 1001
    assert lost["lines"] == 5000 - len(told)


def test_labels_have_values_from_closed_sets_only(watched):
    exercise(watched.observer)
    samples = read_exposition(watched.metrics.render())
    for _name, labels in samples:
        for label, value in labels:
            assert label == "le" or value in LABEL_VALUES[label]
    shown = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name, _ in samples}
    assert {metric.name for metric in METRICS} - shown == {
        "belljar_flows_live",
        "belljar_virtual_names",
        "belljar_cpu_seconds_total",
        "belljar_buffered_bytes",
    }
