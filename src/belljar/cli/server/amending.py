"""What to change in a policy so that a destination is allowed, or denied.

To deny is to add a rule, which counts in either mode and before every grant; to allow takes such a rule away again, and
adds a grant where one is needed. Entries that say the opposite are removed, so that a policy does not grow by being
changed to and fro.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from belljar.errors import BelljarError
from belljar.names import SpellingError, parse_address
from belljar.policy.language.entries import EntryError, read_cidr, read_domain

if TYPE_CHECKING:
    from belljar.client import NetworkPolicy

Kind = Literal["domains", "cidrs"]


@dataclass(frozen=True, slots=True)
class Amendment:
    """Entries to add to a policy and to take away, in the shape of a document."""

    add: dict[str, Any] = field(default_factory=dict)
    remove: dict[str, Any] = field(default_factory=dict)


def allowing(policy: "NetworkPolicy", entries: Iterable[str]) -> Amendment:
    """Return what allows these. Raises BelljarError."""
    added: defaultdict[str, list[str]] = defaultdict(list)
    removed: defaultdict[str, list[str]] = defaultdict(list)
    rules: list[dict[str, Any]] = []
    existing = [rule.to_data() for rule in policy.rules]
    for text in entries:
        kind, entry = _read(text, grants=True)
        if _denying(kind, entry) in existing:
            rules.append(_denying(kind, entry))
        if entry in getattr(policy.egress, f"denied_{kind}"):
            removed[f"denied_{kind}"].append(entry)
        if policy.mode == "block-all" and entry not in getattr(policy.egress, f"allowed_{kind}"):
            added[f"allowed_{kind}"].append(entry)
    return Amendment(_document(added, []), _document(removed, rules))


def denying(policy: "NetworkPolicy", entries: Iterable[str]) -> Amendment:
    """Return what denies these, and everything below the domains among them. Raises BelljarError."""
    removed: defaultdict[str, list[str]] = defaultdict(list)
    rules: list[dict[str, Any]] = []
    existing = [rule.to_data() for rule in policy.rules]
    for text in entries:
        kind, entry = _read(text, grants=False)
        if _denying(kind, entry) not in existing:
            rules.append(_denying(kind, entry))
        if entry in getattr(policy.egress, f"allowed_{kind}"):
            removed[f"allowed_{kind}"].append(entry)
    return Amendment(_document({}, rules), _document(removed, []))


def _read(text: str, *, grants: bool) -> tuple[Kind, str]:
    """Return a destination in its one spelling: an address or a range, or else a domain."""
    try:
        if is_address(text.partition("/")[0]):
            return "cidrs", str(read_cidr(text))
        return "domains", str(read_domain(text, grants=grants))
    except EntryError as error:
        raise BelljarError(f'"{text}" {error}') from None


def is_address(text: str) -> bool:
    """Tell whether this is an IP address."""
    try:
        parse_address(text)
    except SpellingError:
        return False
    return True


def _denying(kind: Kind, entry: str) -> dict[str, Any]:
    return {"action": "deny", kind: [entry]}


def _document(egress: dict[str, list[str]], rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: part for name, part in (("egress", dict(egress)), ("rules", rules)) if part}
