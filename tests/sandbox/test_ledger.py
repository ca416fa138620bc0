"""What a run is summed up to."""

from belljar.gateway.audit.events import DnsDenied, FlowAllowed, FlowClosed, FlowDenied, TrafficFolded
from belljar.sandbox.ledger import MOST_DESTINATIONS, Ledger, UsedDestination

ADDRESSES = ("203.0.113.10", "2001:db8::10")


def allowed(name: str | None, port: int = 443) -> FlowAllowed:
    return FlowAllowed("tcp", name, ADDRESSES, port, None, "allowed_domain", None)


def closed(name: str | None, up: int, down: int, port: int = 443) -> FlowClosed:
    return FlowClosed("tcp", name, ADDRESSES, port, "closed", None, up, down, 0.1)


def denied(name: str | None, port: int = 443) -> FlowDenied:
    return FlowDenied("tcp", name, ADDRESSES, port, None, "not_allowed_domain", None, "It is not allowed.")


def test_flows_to_one_destination_are_summed_up():
    ledger = Ledger()
    for event in (allowed("a.test"), allowed("a.test"), closed("a.test", 1, 10), closed("a.test", 2, 20)):
        assert ledger.write("s", event)
    [(where, sums)] = ledger.reached.items()
    assert (str(where), sums.flows, sums.bytes_up, sums.bytes_down) == ("a.test:443", 2, 3, 30)


def test_what_was_denied_after_it_was_connected_was_not_reached():
    ledger = Ledger()
    ledger.write("s", denied("a.test"))
    ledger.write("s", closed("a.test", 5, 5))
    assert not ledger.reached
    assert [why.times for why in ledger.denied.values()] == [1]


def test_what_a_log_elsewhere_has_summed_up_counts_as_well():
    ledger = Ledger()
    for host in ("a.test", "203.0.113.10", "2001:db8::10"):
        for of in ("flow.closed", "flow.allowed", "flow.closed", "dns.answered"):
            ledger.write("s", TrafficFolded(of, "tcp", host, 443, 5, 1, 10))
    sums = [(str(where), sums.flows, sums.bytes_up, sums.bytes_down) for where, sums in ledger.reached.items()]
    assert sums == [("a.test:443", 5, 1, 10), ("203.0.113.10:443", 5, 1, 10), ("[2001:db8::10]:443", 5, 1, 10)]


def test_destinations_as_people_write_them():
    written = [
        (UsedDestination("a.test", None, 80, "tcp"), "a.test:80"),
        (UsedDestination("a.test", None, 53, "udp"), "a.test:53/udp"),
        (UsedDestination("a.test", None, None, "dns"), "a.test"),
        (UsedDestination(None, "203.0.113.9", 22, "tcp"), "203.0.113.9:22"),
        (UsedDestination(None, "2001:db8::9", 22, "tcp"), "[2001:db8::9]:22"),
    ]
    assert [str(where) for where, _ in written] == [text for _, text in written]


def test_questions_are_denied_too():
    ledger = Ledger()
    ledger.write("s", DnsDenied("udp", "evil.test", "A", "not_allowed_domain", None, "No."))
    ledger.write("s", DnsDenied("udp", "evil.test", "AAAA", "not_allowed_domain", None, "No."))
    assert [(str(where), why.times) for where, why in ledger.denied.items()] == [("evil.test", 2)]


def test_an_agent_cannot_fill_the_memory_with_destinations():
    ledger = Ledger()
    for number in range(MOST_DESTINATIONS + 10):
        ledger.write("s", denied(f"h{number}.test"))
        ledger.write("s", allowed(f"g{number}.test"))
    assert len(ledger.denied) == len(ledger.reached) == MOST_DESTINATIONS
