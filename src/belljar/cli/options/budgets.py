"""The options that bound how much of a broker may be used, for every command that starts one."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from belljar.cli.options.amounts import Count, Number
from belljar.errors import BelljarError

if TYPE_CHECKING:
    from belljar.policy.services import Budget

_BOUNDS: Final = {
    "requests": "How many requests a broker may be sent, in all.",
    "input_tokens": "How many input tokens, in all.",
    "output_tokens": "How many output tokens, in all.",
    "dollars": "How many dollars, by your file of prices.",
    "at_once": "How many requests at the same time.",
}


def budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options."""
    for name, text in reversed(_BOUNDS.items()):
        amount = Number(least=0.0001) if name == "dollars" else Count()
        command = click.option(_flag(name), type=amount, metavar="N", help=text)(command)
    return command


def given_bounds(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the bounds that are set, by their keys in a policy."""
    return {name: amount for name in _BOUNDS if (amount := options[f"max_{name}"]) is not None}


def flags_of(bounds: Mapping[str, float]) -> str:
    """Return the options that set bounds, as a message names them."""
    return " and ".join(map(_flag, bounds))


def bounded(budget: "Budget", bounds: Mapping[str, float]) -> "Budget":
    """Return a budget in which the smaller of two bounds holds. Raises BelljarError if an amount is none."""
    if not bounds:
        return budget
    from belljar.policy.language.entries import EntryError  # noqa: PLC0415 - not every run has a broker
    from belljar.policy.language.services import read_budget  # noqa: PLC0415

    try:
        added = read_budget(bounds)
    except EntryError as error:
        raise BelljarError(f"{flags_of(bounds)}: {error}") from None
    # A bound that only one of them sets holds; of two, the smaller one.
    both = {name: bound for name, bound in added._asdict().items() if bound is not None}
    for name, bound in budget._asdict().items():
        if bound is not None:
            both[name] = min(bound, both.get(name, bound))
    return type(budget)(**both)


def _flag(name: str) -> str:
    return f"--max-{name.replace('_', '-')}"
