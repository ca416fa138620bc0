"""What a broker needs, asked before a sandbox is made: better no run than one whose first request fails."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from belljar.broker.secrets import resolve_all
from belljar.errors import BelljarError
from belljar.policy.services import Service

_MODULES = ("h11", "httpcore2")


class BrokerMissingError(BelljarError):
    """This installation has no broker."""


def check_brokers(services: Iterable[Service], environ: Mapping[str, str]) -> None:
    """Make sure that there is what those services need that are brokers. Raises BrokerMissingError, SecretError."""
    brokers = [service for service in services if service.is_broker]
    if not brokers:
        return
    if missing := [name for name in _MODULES if find_spec(name) is None]:
        raise BrokerMissingError(
            f"brokers need {' and '.join(missing)}, which this installation lacks; pip install 'belljar[broker]'"
        )
    for service in brokers:
        resolve_all(service, environ)
