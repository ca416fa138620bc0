"""The first thing that is done inside, before any time has passed."""

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, network
from belljar.verify.probes.network.clients import ask, refused, request, send


@network(43, "first-moment", "a connection and a datagram as the very first thing")
def first_moment(mark: Mark) -> Finding:
    return refused(
        lambda: ask(mark.address, places.HTTP, request(mark.name)),
        lambda: send(mark.address, 9999, mark.token.encode()),
    )
