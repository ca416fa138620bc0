"""Names with a meaning of their own: the host's services, metadata services, a cluster's inner names."""

from typing import Final

from belljar.policy.match import DomainIndex
from belljar.policy.model import DomainPattern, Scope

SERVICE_SUFFIX: Final = "belljar.internal"
"""What the names of services end in: they mean something by the policy's own table, and nothing to any resolver."""

SERVICE_HOST: Final = f"host.{SERVICE_SUFFIX}"
HOST_NAMES: Final = frozenset({SERVICE_HOST, "host.docker.internal"})
"""The host itself, of which only `host_ports` can be reached."""

_NEVER: Final = DomainIndex(
    [
        (DomainPattern("localhost", Scope.WITHIN), True),
        (DomainPattern("metadata"), True),
        (DomainPattern("metadata.google.internal"), True),
        (DomainPattern("instance-data"), True),
        (DomainPattern("instance-data.ec2.internal"), True),
        (DomainPattern("host.containers.internal"), True),
        (DomainPattern("gateway.docker.internal"), True),
    ]
)

_CLOSED: Final = DomainIndex(
    [
        (DomainPattern("internal", Scope.WITHIN), True),
        (DomainPattern("kubernetes.default", Scope.WITHIN), True),
        (DomainPattern("kubernetes.default.svc", Scope.WITHIN), True),
        (DomainPattern("kubernetes.default.svc.cluster.local", Scope.WITHIN), True),
    ]
)


_LAST_LABELS: Final = frozenset({"localhost", "metadata", "instance-data", "internal", "default", "svc", "local"})
"""A quick way to tell that a name is none of these: almost every name ends otherwise."""


def is_service_name(name: str | None) -> bool:
    """Tell whether a name is led by the table of services, and by nothing else."""
    return name is not None and name.endswith(SERVICE_SUFFIX) and (name[: -len(SERVICE_SUFFIX)] or ".").endswith(".")


def is_loopback_name(name: str) -> bool:
    """Tell whether a name means the machine on which it is asked for."""
    return name == "localhost" or name.endswith(".localhost")


def is_never_name(name: str) -> bool:
    """Tell whether no policy opens a name: it means this machine, or a cloud's metadata service."""
    return name.rpartition(".")[2] in _LAST_LABELS and bool(_NEVER.covering(name))


def is_closed_name(name: str) -> bool:
    """Tell whether a name stays closed until an entry names it: it means something inside a cloud or a cluster."""
    return name.rpartition(".")[2] in _LAST_LABELS and bool(_CLOSED.covering(name))
