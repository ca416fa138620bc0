"""Short ways from a document to what a user would see."""

from ipaddress import ip_address
from typing import Any

import pytest

from belljar.policy import (
    CompiledPolicy,
    Flow,
    InvalidPolicyError,
    Policy,
    Problem,
    Syntax,
    Verdict,
    compile_policy,
    explain,
    parse_destination,
    question,
    read_policy,
)


def read(text: str, syntax: Syntax = Syntax.YAML) -> Policy:
    """Return the policy that a document says."""
    return read_policy(text, syntax).policy


def compiled(text: str, **options: Any) -> CompiledPolicy:
    """Return a YAML document, ready to be asked."""
    return compile_policy(read(text), **options)


def problems(text: str, syntax: Syntax = Syntax.YAML) -> tuple[Problem, ...]:
    """Return what is wrong with a document that must be refused."""
    with pytest.raises(InvalidPolicyError) as caught:
        read_policy(text, syntax)
    assert caught.value.problems
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return caught.value.problems


def warnings(text: str) -> list[str]:
    """Return what is said about a document that is accepted."""
    return [str(warning) for warning in read_policy(text, Syntax.YAML).warnings]


def ask(policy: CompiledPolicy | None, destination: str) -> Verdict:
    """Decide a destination as a person writes it."""
    return explain(policy, destination).verdict


def outcome(verdict: Verdict) -> str:
    """Show a decision as ``allow allowed_domain egress.allowed_domains[0]``."""
    return f"{verdict.action} {verdict.reason} {verdict.rule or '-'}"


def flow(text: str) -> Flow:
    """Read a flow as the tables of the tests write it.

    ``a.example:443``, ``192.0.2.1:53/udp``   a connection
    ``a.example?``                            the question for a name
    ``a.example:443 = 192.0.2.1 10.0.0.1``    a connection whose name was resolved
    ``192.0.2.1:443 as a.example``            a connection whose first bytes name a host
    """
    text, _, claimed = text.partition(" as ")
    text, _, resolved = text.partition(" = ")
    read = question(text.removesuffix("?")) if text.endswith("?") else parse_destination(text)
    addresses = tuple(map(ip_address, resolved.split())) or read.addresses
    return read._replace(addresses=addresses, claimed=claimed or None)


def shown(value: object) -> str:
    """Name a test case by a value that may be long or unprintable."""
    return ascii(value)[:40]
