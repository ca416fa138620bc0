"""The policy of a run: a file's, with what the command line adds."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from belljar.cli.options.budgets import bounded, flags_of
from belljar.cli.policyfiles import load_policy
from belljar.discovery import discover
from belljar.errors import BelljarError
from belljar.linux.interfaces import own_addresses
from belljar.policy import CompiledPolicy, InvalidPolicyError, Mode, Policy, Problem, policy_from
from belljar.policy.compiled import compile_document
from belljar.policy.language.reading import Reading
from belljar.policy.language.render import flatten, to_data
from belljar.policy.model import Egress
from belljar.policy.presets import Expansion, expand

if TYPE_CHECKING:
    from belljar.policy.services import Service

_OPTIONS: Final = {
    "egress.allowed_domains": "--allow",
    "egress.allowed_cidrs": "--allow-cidr",
    "egress.allowed_ports": "--allow-port",
    "presets": "--preset",
    "host_ports": "--host-port",
    "services": "--broker",
    "rules[0].domains": "--deny",
    "rules[0].cidrs": "--deny-cidr",
    "rules[0].ports": "--deny-port",
}
"""Where an option's values stand in the document that the options make together."""

_IN_OPTIONS: Final = {
    "addresses belong in allowed_cidrs, denied_cidrs or a rule's cidrs": "write it with --allow-cidr or --deny-cidr",
    'use "mode: allow-all"': "write --enable-internet",
    'use "mode: block-all"': "write --disable-internet",
    r"list (\d+) in host_ports": r"write --host-port \1",
    "list it(s port)? in host_ports": "write --host-port PORT",
}
"""What documents call something (a pattern), and how it is written here."""

_PLACE: Final = re.compile(r"(.+)\[\d+\]")


class OptionError(BelljarError):
    """An option has a value that cannot be used; the text says which, and what to write instead."""


class PolicyOptions(NamedTuple):
    """What the command line says about the network."""

    file: str | None = None
    mode: Mode | None = None
    allow: tuple[str, ...] = ()
    allow_cidr: tuple[str, ...] = ()
    allow_port: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    deny_cidr: tuple[str, ...] = ()
    deny_port: tuple[str, ...] = ()
    preset: tuple[str, ...] = ()
    host_port: tuple[str, ...] = ()
    broker: tuple[str, ...] = ()
    bounds: Mapping[str, float] = MappingProxyType({})
    """How much of each broker may be used, by the keys of a budget."""


class RunPolicy(NamedTuple):
    """A policy, what its presets mean on this machine, and what is odd about it."""

    policy: Policy
    expansion: Expansion
    warnings: tuple[str, ...]

    def flat(self) -> Policy:
        """Return it without presets."""
        return flatten(self.policy, self.expansion)

    def compile(self) -> CompiledPolicy:
        """Return what answers questions."""
        return compile_document(
            to_data(self.policy), self.policy, self.expansion, generation=1, host_addresses=own_addresses()
        )


def policy_of(options: PolicyOptions, exposed: Sequence[Path]) -> RunPolicy:
    """Return the policy of a run that can write to what is exposed. Without a file or a mode, it is to block all.

    Raises OptionError, or what `load_policy` raises.
    """
    loaded = load_policy(options.file, exposed) if options.file is not None else None
    of_file = loaded.document.policy if loaded is not None else Policy(Mode.BLOCK_ALL)
    mode = options.mode or of_file.mode
    try:
        added = policy_from(Reading(_document(options, mode, of_file)))
        together = _joined(of_file._replace(mode=mode), added.policy)
        together = together._replace(services=_services(of_file, added.policy, options))
        expansion = expand(together.presets, partial(discover, exposed=exposed))
    except InvalidPolicyError as error:
        raise OptionError("\n".join(_as_option(problem) for problem in error.problems)) from None
    of_options = (_as_option(problem) for problem in (*added.warnings, *expansion.warnings))
    return RunPolicy(together, expansion, (*(loaded.warnings("") if loaded is not None else ()), *of_options))


def _document(options: PolicyOptions, mode: Mode, of_file: Policy) -> dict[str, Any]:
    document: dict[str, Any] = {
        "mode": mode.value,
        "egress": {
            "allowed_domains": list(options.allow),
            "allowed_cidrs": list(options.allow_cidr),
            "allowed_ports": _ports(options.allow_port),
        },
        "presets": list(options.preset),
        "host_ports": _ports(options.host_port),
    }
    if options.broker:
        document["services"] = _brokers(options.broker, of_file)
    # What is denied here is denied in either mode, and before anything that a file grants.
    denied = [
        {"action": "deny", **matcher}
        for matcher in (
            {"domains": list(options.deny)},
            {"cidrs": list(options.deny_cidr)},
            {"ports": _ports(options.deny_port)},
        )
        if any(matcher.values())
    ]
    return document | {"rules": denied}


def _ports(texts: tuple[str, ...]) -> list[int | str]:
    return [int(text) if text.isdecimal() and len(text) <= len("65535") else text for text in texts]


def _brokers(texts: tuple[str, ...], of_file: Policy) -> dict[str, Any]:
    brokers = [_broker(text, of_file) for text in texts]
    names = [name for name, _ in brokers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(f"--broker: two are called {twice}; give each its own name: NAME=URL")
    return dict(brokers)


def _broker(text: str, of_file: Policy) -> tuple[str, dict[str, Any]]:
    """Read NAME, NAME=URL or a URL, which needs no other name than this. Raises OptionError."""
    from belljar.policy.services import (  # noqa: PLC0415 - not every run has a broker
        PROVIDERS,
        key_variable,
        service_to_data,
    )

    name, named, url = text.partition("=") if not text.startswith(("https:", "http:")) else ("models", "=", text)
    if not named:
        if name not in PROVIDERS:
            for service in of_file.services:
                if service.name == name:
                    return name, service_to_data(service)
            raise OptionError(f'--broker: "{name}" is none of {", ".join(PROVIDERS)}; for another, write NAME=URL')
        return name, {}
    if name in PROVIDERS:
        return name, {"url": url}
    return name, {"url": url, "header": {"authorization": f"Bearer ${{{key_variable(name)}}}"}}


def _joined(policy: Policy, added: Policy) -> Policy:
    lists: Iterator[Any] = (ours + more for ours, more in zip(policy.egress, added.egress, strict=True))
    return policy._replace(
        egress=Egress(*lists),
        rules=added.rules + policy.rules,
        presets=policy.presets + added.presets,
        host_ports=policy.host_ports + added.host_ports,
    )


def _services(of_file: Policy, added: Policy, options: PolicyOptions) -> "tuple[Service, ...]":
    """Return the services of a file and of options. What a file says of a broker holds unless an option says it, too.

    Raises OptionError.
    """
    found = {service.name: service for service in of_file.services}
    for broker in added.services:
        ours = found.get(broker.name)
        found[broker.name] = broker if ours is None else _led_elsewhere(ours, broker, options)
    if not options.bounds:
        return tuple(found.values())
    if not any(service.is_broker for service in found.values()):
        raise OptionError(f"{flags_of(options.bounds)}: there is no broker to bound; add --broker, or leave it out")
    return tuple(
        service._replace(budget=bounded(service.budget, options.bounds)) if service.is_broker else service
        for service in found.values()
    )


def _led_elsewhere(ours: "Service", broker: "Service", options: PolicyOptions) -> "Service":
    """Return a service of a file that an option names as well: it leads where the option says. Raises OptionError."""
    from belljar.policy.services import service_from_data, service_to_data  # noqa: PLC0415

    place = f"services.{ours.name} of {options.file}"
    if not ours.is_broker:
        raise OptionError(
            f"--broker {ours.name}: {place} leads to {ours.kind.value} {ours.target}, which is no broker; "
            "give the broker another name, or leave --broker out"
        )
    if ours.name in options.broker:
        return ours
    if broker.header and not ours.header:
        raise OptionError(
            f"--broker {ours.name}: {place} has no header and sends no key, and this option would send one; write "
            f"header: {json.dumps(dict(broker.header))} there, or leave --broker out"
        )
    return service_from_data(ours.name, {**service_to_data(ours), "url": broker.target})


def _as_option(problem: Problem) -> str:
    place = _PLACE.fullmatch(re.sub(r"^rules\[\d\]", "rules[0]", problem.where))
    option = _OPTIONS.get(place[1] if place else problem.where.partition(".")[0])
    if option is None:
        return str(problem)
    message = problem.message
    for in_document, in_option in _IN_OPTIONS.items():
        message = re.sub(in_document, in_option, message)
    return f"{option}{_named(problem.where)}: {message}"


def _named(where: str) -> str:
    """Return which of several brokers it is about, if it is about one."""
    return f" {where.split('.')[1]}" if where.startswith("services.") else ""
