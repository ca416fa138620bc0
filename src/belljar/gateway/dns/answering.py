"""What a sandbox's question is answered with. Nothing is sent anywhere because of a question, but in allow-all.

Theory of operation
-------------------
A name that the policy grants gets its virtual addresses (`virtual`); its real ones are looked up when a connection is
made, and never told. Other types have no data, so there is neither ECH nor HTTP/3 to be found in an HTTPS record. In
allow-all, types that Belljar has no answer for can be forwarded, also for services (``_xmpp._tcp.example.org``), which
are decided by the name of their host.

How a denial looks depends on who asks. Those who speak EDNS are resolvers of some sophistication (dig, Go, c-ares,
a resolver in the sandbox): they are told the truth, REFUSED, with an Extended DNS Error that carries the reason. Those
who do not are the C libraries' stubs, and the truth would mislead them: to glibc, REFUSED is a "temporary failure" and
the end of the search list; musl takes it for no answer at all, waits five seconds for a better one, and ends the
search list, too. So they are told NXDOMAIN, which both understand as "not this one", at once, and go on with the
next candidate: ``api.example.org`` is reached although ``api.example.org.corp.lan`` was asked for first. Neither kind
comes with an SOA record, so no cache keeps it, and a denial of ``example.org`` hides nothing below it.

Questions for the names of addresses that Belljar did not hand out are no attempts to reach anything, and programs ask
them by the way: the answer is that there is no name. In allow-all, those about public addresses can be forwarded.
"""

from collections.abc import Callable
from typing import Final

from belljar.gateway.audit.events import DnsResult, Limit, Transport
from belljar.gateway.dns.virtual import TTL, NoAddressLeftError
from belljar.gateway.dns.wildcards import WildcardBudget
from belljar.gateway.io.tokenbucket import TokenBucket
from belljar.gateway.sandbox import SandboxState
from belljar.names import Address
from belljar.policy import AddressClass, Verdict, classify, question
from belljar.policy.reserved import HOST_NAMES, is_service_name
from belljar.wire.dns.answer import DnsAnswer, ExtendedError, address_answer, no_data_answer, pointer_answer
from belljar.wire.dns.format import InfoCode, Rcode, RecordType
from belljar.wire.dns.question import Query
from belljar.wire.dns.reverse import reverse_address
from belljar.wire.outcome import Fault

_SVCB: Final = 64
_HTTPS: Final = 65
_ANSWERED_HERE: Final = (RecordType.A, RecordType.AAAA, _SVCB, _HTTPS)
_TYPE_NAMES: Final = {
    1: "A",
    2: "NS",
    5: "CNAME",
    6: "SOA",
    12: "PTR",
    15: "MX",
    16: "TXT",
    28: "AAAA",
    33: "SRV",
    _SVCB: "SVCB",
    _HTTPS: "HTTPS",
    251: "IXFR",
    252: "AXFR",
    255: "ANY",
}


def type_name(qtype: int) -> str:
    """Return the name of a record type, as in RFC 3597 for those that are not common."""
    return _TYPE_NAMES.get(qtype) or f"TYPE{qtype}"


class Answering:
    """Answers the questions of one sandbox, and takes note of them."""

    def __init__(
        self, sandbox: SandboxState, wildcards: WildcardBudget, clock: Callable[[], float], *, can_forward: bool
    ) -> None:
        self._sandbox = sandbox
        self._wildcards = wildcards
        self._clock = clock
        self._can_forward = can_forward
        self._rate = TokenBucket(sandbox.limits.dns_per_second, sandbox.limits.dns_per_second)

    def answer(self, query: Query, transport: Transport) -> DnsAnswer | None:
        """Return the answer to a question; None if it is allowed, and to be forwarded."""
        sandbox, name = self._sandbox, query.name
        if not self._rate.admit(self._clock()):
            text = f"more than {sandbox.limits.dns_per_second} questions in a second"
            return self._limited(query, transport, "dns_per_second", Rcode.SERVFAIL, text)
        if _is_meta_type(query.qtype):
            return self._refused(query, transport, "asks for a transfer or for all types at once", Rcode.REFUSED)
        if name is None:
            return self._about_service(query, transport)
        if query.qtype == RecordType.PTR and (address := reverse_address(name)) is not None:
            named = self._name_of(query, transport, address)
            if named is not None:
                return named
        verdict = sandbox.decide(question(name))
        if not verdict.allowed or sandbox.policy is None:
            return self._denied(query, transport, verdict)
        if not self._wildcards.admits(sandbox.policy, verdict):
            text = f"more than {sandbox.limits.names_under_wildcard} different names under one wildcard"
            return self._limited(query, transport, "names_under_wildcard", _denial_code(query), text)
        return self._allowed(query, transport, name, verdict)

    def _about_service(self, query: Query, transport: Transport) -> DnsAnswer | None:
        """Return the answer to a question for what is not a host; None for a service of one, to be forwarded."""
        host = query.service_host if self._is_forwarded(query) else None
        if host is None:
            return self._refused(query, transport, "asks for what is not a host name", _denial_code(query))
        verdict = self._sandbox.decide(question(host))
        return None if verdict.allowed else self._denied(query, transport, verdict)

    def still_forwards(self, query: Query) -> bool:
        """Tell whether a question that was to be forwarded still is, by the policy of this moment."""
        host = query.name or query.service_host
        return host is not None and self._is_forwarded(query) and self._sandbox.decide(question(host)).allowed

    def answered(self, query: Query, transport: Transport, result: DnsResult, reason: str | None = None) -> None:
        """Take note of an answer."""
        self._sandbox.observer.dns_answered(transport, _shown(query), type_name(query.qtype), result, reason)

    def failed(self, query: Query, transport: Transport) -> DnsAnswer:
        """Return the answer to a question that was forwarded in vain."""
        self.answered(query, transport, "failed")
        error = ExtendedError(InfoCode.NETWORK_ERROR, "the resolver did not answer")
        return DnsAnswer(query, Rcode.SERVFAIL, error=error)

    def overloaded(self, query: Query, transport: Transport) -> DnsAnswer:
        """Return the answer to a question that cannot be forwarded now."""
        return self._limited(
            query, transport, "dns_forwards", Rcode.SERVFAIL, "too many questions wait for the resolver"
        )

    def _name_of(self, query: Query, transport: Transport, address: Address) -> DnsAnswer | None:
        """Return the answer to a question for the name of an address; None if that is not known here."""
        if (virtual := self._sandbox.names.name_of(address)) is not None:
            self.answered(query, transport, "pointer")
            return pointer_answer(query, virtual, TTL)
        if classify(address) is not AddressClass.PUBLIC or not self._may_forward():
            self.answered(query, transport, "no_name")
            return DnsAnswer(query, Rcode.NXDOMAIN)
        return None

    def _allowed(self, query: Query, transport: Transport, name: str, verdict: Verdict) -> DnsAnswer | None:
        if query.qtype in (RecordType.A, RecordType.AAAA):
            try:
                ipv4, ipv6 = self._sandbox.names.lookup(name, self._clock())
            except NoAddressLeftError:
                text = "no virtual address is left"
                return self._limited(query, transport, "virtual_names", Rcode.SERVFAIL, text)
            self.answered(query, transport, "address", verdict.reason)
            return address_answer(query, (ipv4 if query.qtype == RecordType.A else ipv6,), TTL)
        if self._is_forwarded(query):
            return None
        self.answered(query, transport, "no_data", verdict.reason)
        return no_data_answer(query, TTL)

    def _denied(self, query: Query, transport: Transport, verdict: Verdict) -> DnsAnswer:
        self._sandbox.observer.dns_denied(transport, type_name(query.qtype), verdict)
        error = ExtendedError(InfoCode.BLOCKED, f"{verdict.reason}: {verdict.sentence}") if query.edns else None
        return DnsAnswer(query, _denial_code(query), error=error)

    def _refused(self, query: Query, transport: Transport, detail: str, rcode: Rcode) -> DnsAnswer:
        fault = Fault.UNSUPPORTED_DNS
        self._sandbox.observer.dns_refused(transport, _shown(query), type_name(query.qtype), fault, detail)
        return DnsAnswer(query, rcode, error=ExtendedError(InfoCode.NOT_SUPPORTED, f"{fault}: {detail}"))

    def _limited(self, query: Query, transport: Transport, limit: Limit, rcode: Rcode, text: str) -> DnsAnswer:
        self._sandbox.observer.dns_limited(transport, limit)
        return DnsAnswer(query, rcode, error=ExtendedError(InfoCode.PROHIBITED, f"{limit}: {text}"))

    def _is_forwarded(self, query: Query) -> bool:
        if not self._can_forward or not self._may_forward() or query.qtype in _ANSWERED_HERE:
            return False
        host = query.name or query.service_host
        return not is_service_name(host) and host not in HOST_NAMES  # which mean nothing outside

    def _may_forward(self) -> bool:
        return self._sandbox.policy is not None and self._sandbox.policy.forwards_dns


def _denial_code(query: Query) -> Rcode:
    return Rcode.REFUSED if query.edns else Rcode.NXDOMAIN


def _is_meta_type(qtype: int) -> bool:
    """Tell whether a type is one of those that no record has: transfers, ANY and the like (RFC 6895, 3.1)."""
    return qtype in (0, RecordType.OPT) or 128 <= qtype <= 255


def _shown(query: Query) -> str:
    return query.name or query.qname
