"""A universe to test in: a network namespace that is the internet, another that the gateway lives in, and sandboxes.

    sandbox ──(doors only)──▶ gateway ──(the wire, a veth pair)──▶ internet

Nothing in it can reach the machine's real network, and that is checked when it starts. In the internet every address
there is (except `addresses.BLACK_HOLE`) is a host that offers every service of `hosts.SERVICES`, so that a leak arrives
somewhere, whatever its destination; on one of them real servers can take their place (`machines`). The gateway's own
namespace offers them too, on its own addresses. Both are witnesses: what reached a service is in `seen`, and what
reached the internet at all is in `wire.contacts()`. Names are in `zone.ZONE`, and the nameserver at
`addresses.RESOLVER` knows them.
"""

from tests.universe.places import Place
from tests.universe.sandboxes import Sandbox
from tests.universe.universe import Universe
from tests.universe.wire import Contact
from tests.universe.witness import Seen

__all__ = ["Contact", "Place", "Sandbox", "Seen", "Universe"]
