"""The clouds' metadata services, which hand out a machine's credentials, in every spelling."""

from functools import partial
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, network
from belljar.verify.probes.network.clients import ask, ask_proxy, ask_socks, bracketed, refused, request

_ADDRESSES: Final = {
    4: (places.METADATA, "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    6: ("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::a9fe:a9fe",
        "::ffff:169.254.169.254"),
}  # fmt: skip

_SPELLINGS: Final = (
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "metadata",
    "metadata.google.internal",
    "instance-data",
)

_TARGETS: Final = (*_ADDRESSES[4], *_ADDRESSES[6])


@network(23, "addresses", "metadata services, by address", targets=_TARGETS)
def addresses(mark: Mark) -> Finding:
    asked = request(places.METADATA, f"/latest/meta-data/{mark.token}")
    return refused(
        *(partial(ask, address, places.HTTP, asked) for address in _ADDRESSES[mark.family]),
        *(partial(ask_socks, mark, address, places.HTTP, asked) for address in _ADDRESSES[mark.family]),
        *(partial(ask_proxy, mark, f"{bracketed(address)}:80", asked) for address in _ADDRESSES[mark.family]),
    )


@network(23, "spellings", "metadata services, by name and in odd spellings of their address", targets=_TARGETS)
def spellings(mark: Mark) -> Finding:
    asked = request(places.METADATA, f"/latest/meta-data/{mark.token}")
    return refused(
        *(partial(ask, name, places.HTTP, asked) for name in _SPELLINGS),
        *(partial(ask_socks, mark, name, places.HTTP, asked) for name in _SPELLINGS),
        *(partial(ask_proxy, mark, f"{name}:80", asked) for name in _SPELLINGS),
    )


@network(23, "granted-names", "granted names that lead to a metadata service", targets=_TARGETS)
def granted_names(mark: Mark) -> Finding:
    names = [mark.leading_to(place) for place in ("metadata", "embedded")]
    return refused(*(partial(ask, name, places.HTTP, request(name), family=mark.family) for name in names))
