"""Addresses that the host has although no list of its addresses has told so."""

from functools import partial

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, network
from belljar.verify.probes.network.clients import ask, ask_proxy, ask_socks, bracketed, refused, request


@network(
    63, "names", "granted names that lead to addresses that became the host's own later",
    targets=tuple(places.LATE.values()),
)  # fmt: skip
def names(mark: Mark) -> Finding:
    name = mark.leading_to("late")
    asked = request(name, f"/{mark.token}")
    return refused(
        lambda: ask(name, places.HTTP, asked, family=mark.family),
        lambda: ask_socks(mark, name, places.HTTP, asked),
        lambda: ask_proxy(mark, f"{name}:{places.HTTP}", asked),
    )


@network(63, "by-source", "granted addresses that are the host's own once a connection is there", beside="address")
def by_source(mark: Mark) -> Finding:
    asked, address, port = request("host", f"/{mark.token}"), places.BY_SOURCE[mark.family], places.HOST_PORT
    found = refused(
        partial(ask, address, port, asked),
        lambda: ask_socks(mark, address, port, asked),
        lambda: ask_proxy(mark, f"{bracketed(address)}:{port}", asked),
    )
    if "no answer" in found.evidence:
        raise RuntimeError("no connection was made, so nobody had to find out whose the address is")
    return found
