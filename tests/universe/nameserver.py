"""An authoritative nameserver for the universe's zone."""

from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset
from dns.exception import DNSException
from dns.rdatatype import RdataType

from tests.universe.addresses import EVIL
from tests.universe.services import Call
from tests.universe.witness import Seen, Witness
from tests.universe.zone import Entry, Manner

_MAX_ALIASES = 8


class Nameserver:
    """Answers questions, and has the witness note them."""

    def __init__(self, zone: Mapping[str, Entry], witness: Witness) -> None:
        self._zone = zone
        self._witness = witness
        self._turns: Counter[str] = Counter()

    def datagram(self, data: bytes, address: str, port: int) -> list[bytes]:
        """Return the answers to a question over UDP."""
        query, entry = self._read(data, address, port, "udp")
        if entry.manner is Manner.TRUNCATED:
            answer = dns.message.make_response(query)
            answer.flags |= dns.flags.TC
            return [answer.to_wire()]
        answers = self._answers(query, entry)
        if entry.manner is Manner.FORGED:
            return [self._forgery(query), *answers]
        return answers

    async def call(self, call: Call) -> None:
        """Answer the questions of a call, over TCP."""
        while True:
            size = int.from_bytes(await call.reader.readexactly(2), "big")
            data = await call.reader.readexactly(size)
            for answer in self._answers(*self._read(data, call.address, call.port, "tcp")):
                await call.send(len(answer).to_bytes(2, "big") + answer)

    def _read(self, data: bytes, address: str, port: int, transport: str) -> tuple[dns.message.Message, Entry]:
        try:
            query = dns.message.from_wire(data)
        except DNSException as error:
            raise ConnectionError("this is no question") from error
        name, kind = _question(query)
        self._witness.record(Seen("question", address, port, f"{name} {RdataType.to_text(kind)} {transport}"))
        return query, self._find(name) or Entry()

    def _find(self, name: str) -> Entry | None:
        _, _, parent = name.partition(".")
        return self._zone.get(name) or self._zone.get(f"*.{parent}")

    def _answers(self, query: dns.message.Message, entry: Entry) -> list[bytes]:
        if entry.manner is Manner.SILENT:
            return []
        if entry.manner is Manner.GARBLED:
            return [query.to_wire()[:2] + b"\xff" * 20]
        return [self._answer(query, entry).to_wire(max_size=65535)]

    def _answer(self, query: dns.message.Message, entry: Entry) -> dns.message.Message:
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.AA
        name, kind = _question(query)
        if entry.manner is Manner.FAILING:
            answer.set_rcode(dns.rcode.SERVFAIL)
            return answer
        for _ in range(_MAX_ALIASES):
            found = self._find(name)
            if found is None:
                answer.set_rcode(dns.rcode.NXDOMAIN)
                return answer
            if not found.alias:
                answer.answer.extend(self._records(name, kind, found))
                return answer
            answer.answer.append(dns.rrset.from_text(f"{name}.", found.ttl, "IN", "CNAME", f"{found.alias}."))
            name = found.alias
        return answer

    def _records(self, name: str, kind: RdataType, entry: Entry) -> Iterator[dns.rrset.RRset]:
        texts = [where for where in entry.addresses if kind == _kind_of(where)]
        if entry.manner is Manner.IN_TURN and texts:
            texts = [texts[self._turns[name] % len(texts)]]
            self._turns[name] += 1
        if entry.text and kind == RdataType.TXT:
            texts = [f'"{entry.text}"']
        for text in texts:  # one by one, because dnspython would shuffle a set of them
            yield dns.rrset.from_text(f"{name}.", entry.ttl, "IN", RdataType.to_text(kind), text)

    def _forgery(self, query: dns.message.Message) -> bytes:
        forgery = self._answer(query, Entry())
        name, _ = _question(query)
        forgery.answer = [dns.rrset.from_text(f"{name}.", 300, "IN", "A", EVIL)]
        forgery.id ^= 1
        return forgery.to_wire()


def _question(query: dns.message.Message) -> tuple[str, RdataType]:
    [question] = query.question
    return question.name.to_text(omit_final_dot=True).lower(), question.rdtype


def _kind_of(address: str) -> RdataType:
    return RdataType.A if ip_address(address).version == 4 else RdataType.AAAA
