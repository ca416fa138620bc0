"""The first thing that is done inside, before any time has passed."""

from belljar.verify.probes import places
from belljar.verify.probes.clients import ask, refused, request, send
from belljar.verify.probes.kit import Finding, Mark, network


@network(43, "first-moment", "a connection and a datagram as the very first thing")
def first_moment(mark: Mark) -> Finding:
    return refused(
        lambda: ask(mark.address, places.HTTP, request(mark.name)),
        lambda: send(mark.address, 9999, mark.token.encode()),
    )
