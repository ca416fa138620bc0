"""Questions that Belljar has no answer for are asked outside, in the gateway's own words.

This is for allow-all, and for names that the policy does not deny: whoever asks is certain of that. A new question is
made of the sandbox's: another identifier, none of its EDNS options (a client's subnet, a cookie), and the answer is
written anew, too (`belljar.wire.dns.forwarded`). Nothing is remembered, so that a sandbox can learn nothing about
others from how quickly it is answered.
"""

from typing import Final

from belljar.gateway.upstream.resolver import Resolver
from belljar.wire.dns.answer import DnsAnswer, no_data_answer
from belljar.wire.dns.format import Rcode
from belljar.wire.dns.forwarded import ForwardedRecords
from belljar.wire.dns.question import Query
from belljar.wire.dns.response import NoData

MAX_NEGATIVE_SECONDS: Final = 300
"""How long a sandbox is told to remember that there are no such records."""


async def forward(resolver: Resolver, query: Query) -> DnsAnswer:
    """Return what the configured resolver says. Raises OSError if it says nothing."""
    found = await resolver.find_records(query.qname.lower(), query.qtype)
    if isinstance(found, ForwardedRecords):
        return DnsAnswer(query, records=found.records)
    if isinstance(found, NoData):
        return no_data_answer(query, min(found.ttl, MAX_NEGATIVE_SECONDS))
    return DnsAnswer(query, Rcode.NXDOMAIN)
