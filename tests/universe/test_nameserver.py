"""The nameserver says what the zone says, in the manner the zone says."""

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest

from tests.universe import Seen, addresses
from tests.universe.clients import ask, records
from tests.universe.nameserver import Nameserver
from tests.universe.witness import Witness
from tests.universe.zone import ZONE, Entry, at

ANSWERS = {
    ("plain.test", "A"): [addresses.PUBLIC],
    ("plain.test", "AAAA"): [addresses.PUBLIC_V6],
    ("PLAIN.test", "A"): [addresses.PUBLIC],
    ("many.test", "A"): ["203.0.113.10", "203.0.113.11", "203.0.113.12", "203.0.113.13"],
    ("v6.test", "A"): [],
    ("nothing.test", "A"): [],
    ("secret.wild.test", "A"): [addresses.PUBLIC],
    ("long-alias.test", "A"): ["alias.test.", "plain.test.", addresses.PUBLIC],
    ("alias-to-evil.test", "A"): ["evil.test.", addresses.EVIL],
    ("loop.test", "A"): ["pool.test.", "loop.test."],
    ("mapped.test", "AAAA"): ["::ffff:10.9.0.1"],
    ("text.test", "TXT"): ['"some text"'],
}


class TestNameserver:
    @pytest.mark.parametrize(("name", "kind"), ANSWERS)
    def test_names_lead_where_the_zone_says(self, universe, name, kind):
        answer = ask(universe.gateway, name, kind)
        assert answer.rcode() == dns.rcode.NOERROR
        assert records(answer) == ANSWERS[name, kind]

    @pytest.mark.parametrize(
        ("name", "rcode"),
        [
            ("nowhere.test", dns.rcode.NXDOMAIN),
            ("alias-to-nowhere.test", dns.rcode.NXDOMAIN),
            ("failing.test", dns.rcode.SERVFAIL),
        ],
    )
    def test_names_that_lead_nowhere(self, universe, name, rcode):
        assert ask(universe.gateway, name).rcode() == rcode

    @pytest.mark.parametrize("server", [addresses.RESOLVER, addresses.RESOLVER_V6, "8.8.8.8"])
    @pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
    def test_every_question_is_seen(self, universe, server, tcp):
        ask(universe.gateway, "plain.test", "AAAA", server=server, tcp=tcp)
        [question] = universe.internet.witness.of_kind("question")
        assert question == Seen("question", server, 53, f"plain.test AAAA {'tcp' if tcp else 'udp'}")

    def test_a_truncated_answer_is_whole_over_tcp(self, universe):
        assert ask(universe.gateway, "truncated.test").flags & dns.flags.TC
        assert records(ask(universe.gateway, "truncated.test", tcp=True)) == [addresses.PUBLIC]

    def test_a_name_that_changes_with_every_question(self, universe):
        answers = [records(ask(universe.gateway, "rebinding.test")) for _ in range(4)]
        assert sorted(answers[:2]) == [[addresses.PRIVATE], [addresses.PUBLIC]]
        assert answers[:2] == answers[2:]

    @pytest.mark.parametrize(("name", "ttl"), [("zero-ttl.test", 0), ("huge-ttl.test", 2**31 - 1)])
    def test_ttls(self, universe, name, ttl):
        assert ask(universe.gateway, name).answer[0].ttl == ttl

    def test_answers_that_are_none(self):
        nameserver = Nameserver(ZONE, Witness())

        def answers(name: str) -> list[bytes]:
            return nameserver.datagram(dns.message.make_query(name, "A").to_wire(), addresses.RESOLVER, 53)

        assert answers("silent.test") == []
        forgery, genuine = map(dns.message.from_wire, answers("forged.test"))
        assert (records(forgery), records(genuine)) == ([addresses.EVIL], [addresses.PUBLIC])
        assert forgery.id != genuine.id
        with pytest.raises(dns.exception.DNSException):
            dns.message.from_wire(answers("garbled.test")[0])

    def test_a_test_may_have_names_of_its_own(self, universe):
        universe.zone["own.test"] = at("203.0.113.77")
        universe.zone["plain.test"] = Entry(alias="own.test")
        assert records(ask(universe.gateway, "plain.test")) == ["own.test.", "203.0.113.77"]
        universe.forget()
        assert universe.zone == ZONE
