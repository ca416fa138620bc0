"""What a broker needs, asked before a sandbox is made: better no run than one whose first request fails."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from belljar.broker.secrets import resolve_all
from belljar.broker.secretsfile import UserFileError
from belljar.broker.spending.prices import Prices
from belljar.errors import BelljarError
from belljar.policy.services import Service

_MODULES = ("h11", "httpcore2")


class BrokerMissingError(BelljarError):
    """This installation has no broker."""


def check_brokers(services: Iterable[Service], environ: Mapping[str, str]) -> None:
    """Make sure that there is what those services need that are brokers. Raises BrokerMissingError, SecretError and
    UserFileError.
    """
    brokers = [service for service in services if service.is_broker]
    if not brokers:
        return
    if missing := [name for name in _MODULES if find_spec(name) is None]:
        raise BrokerMissingError(
            f"brokers need {' and '.join(missing)}, which this installation lacks; pip install 'belljar[broker]'"
        )
    for service in brokers:
        resolve_all(service, environ)
    _check_prices([service.name for service in brokers if _counts_dollars(service)], Prices(environ))


def _check_prices(counting: list[str], prices: Prices) -> None:
    if counting and prices.is_empty():
        raise UserFileError(
            f"{counting[0]} has a budget in dollars, and there is no price in {prices.place}; write there, in dollars "
            "for a million tokens of each model, MODEL: {input: 3, output: 15}"
        )


def _counts_dollars(service: Service) -> bool:
    budgets = (service.budget, *((service.shared.budget,) if service.shared is not None else ()))
    return any(budget.dollars is not None for budget in budgets)
