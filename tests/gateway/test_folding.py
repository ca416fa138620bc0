"""What is allowed cannot fill a disk: beyond a rate it is summed up, and nothing that was denied is among it."""

import json
from typing import Any

from belljar.gateway.audit.events import DnsAnswered, FlowAllowed, FlowClosed, FlowDenied, SandboxClosed
from belljar.gateway.audit.folding import INTERVAL, LINES_AT_ONCE
from belljar.gateway.audit.log import AuditLog, open_log

WHERE = ("tcp", "api.example.org", ("192.0.2.1",), 443)
ALLOWED = FlowAllowed(*WHERE, None, "allowed_domain", "egress.allowed_domains[0]")
CLOSED = FlowClosed(*WHERE, "closed", None, 10, 100, 0.1)
ANSWERED = DnsAnswered("udp", "api.example.org", "A", "address", None)
DENIED = FlowDenied(*WHERE, None, "not_allowed_domain", "mode", "No.")
MANY = 5 * LINES_AT_ONCE


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def records(path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_line_up_to_the_rate_and_sums_beyond_it(tmp_path):
    path, clock = tmp_path / "audit.log", Clock()
    log = AuditLog(open_log(str(path)), clock=clock)
    for _ in range(MANY):
        for event in (ALLOWED, CLOSED, ANSWERED):
            assert log.write("a", event)
    log.write("a", DENIED)
    log.write("b", ALLOWED)
    told = [(record["sandbox"], record["event"]) for record in records(path)]
    assert len(told) == LINES_AT_ONCE + 2, "a neighbour has lines of its own, and denials are told"
    assert told[-2:] == [("a", "flow.denied"), ("b", "flow.allowed")]
    log.tell_sums()
    assert len(records(path)) == len(told), "not yet"
    clock.now += INTERVAL
    log.tell_sums()
    folded = {record["of"]: record for record in records(path) if record["event"] == "traffic.folded"}
    in_full = [record["event"] for record in records(path)]
    for of in ("flow.allowed", "flow.closed", "dns.answered"):
        mine = in_full.count(of) - (of == "flow.allowed")
        assert folded[of]["lines"] + mine == MANY, "nothing is missing"
        assert folded[of]["destination"] == "api.example.org"
    closed = folded["flow.closed"]
    assert (closed["bytes_up"], closed["bytes_down"]) == (10 * closed["lines"], 100 * closed["lines"])
    log.close()


def test_the_end_of_a_sandbox_or_of_the_log_leaves_nothing_untold(tmp_path):
    path = tmp_path / "audit.log"
    log = AuditLog(open_log(str(path)), clock=Clock())
    for sandbox in ("a", "b"):
        for _ in range(LINES_AT_ONCE + 7):
            log.write(sandbox, ALLOWED)
    log.write("a", SandboxClosed())
    assert [(one["event"], one.get("lines")) for one in records(path)[-2:]] == [
        ("traffic.folded", 7),
        ("sandbox.closed", None),
    ]
    log.close()
    assert (records(path)[-1]["sandbox"], records(path)[-1]["lines"]) == ("b", 7)


def test_many_destinations_are_not_many_lines(tmp_path):
    path, clock = tmp_path / "audit.log", Clock()
    log = AuditLog(open_log(str(path)), clock=clock)
    for number in range(MANY):
        log.write("a", ANSWERED._replace(name=f"n{number}.example.org"))
    log.close()
    folded = [record for record in records(path) if record["event"] == "traffic.folded"]
    assert len(folded) < 300
    assert sum(record["lines"] for record in folded) == MANY - LINES_AT_ONCE
    assert None in {record["destination"] for record in folded}, "the rest is told together"
