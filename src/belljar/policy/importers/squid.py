"""Squid: a list of dstdomain patterns, or a squid.conf with ``acl`` and ``http_access`` lines.

The lines ``http_access allow|deny acl ...`` are tried in order; a line fits if all its lists fit, and the first that
fits decides. Those that speak of destinations become rules, in the same order, up to ``deny all``, which is the mode
of the policy whether it stands there or not. Allow lines that no denial follows become the lists of the policy.
`squid_access` reads these lines, `squid_acls` the lists that they refer to.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from belljar.policy.importers.findings import WHOLE, Findings, Imported, shown
from belljar.policy.importers.squid_access import DIALECT, AccessLines
from belljar.policy.importers.squid_acls import Directive, read_acls, read_directives
from belljar.policy.importers.translate import (
    EntryReader,
    note_dialled_addresses,
    note_private_addresses,
    note_web_ports,
)
from belljar.policy.model import Action, Egress, Mode, Policy, Rule

_FILTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "adaptation_access": (),
    "adapted_http_access": ("deny",),
    "http_reply_access": ("deny",),
    "if": (),
    "include": (),
    "miss_access": ("deny",),
    "ssl_bump": ("terminate",),
    "url_rewrite_program": (),
}
"""What else can deny a request, by the first words with which it does (none: with any)."""


def is_squid(text: str) -> bool:
    """Tell whether a text is a squid.conf, or a list of patterns: one word a line, and one with a dot among them."""
    directives = read_directives(text)
    if any(directive.name in ("acl", "http_access") and directive.words for directive in directives):
        return True
    is_list = all(not (directive.words or _is_syntax(directive.name)) for directive in directives)
    return is_list and any("." in directive.name for directive in directives)


def _is_syntax(word: str) -> bool:
    return word.endswith(":") or any(mark in word for mark in "{}=,\"'")


def import_squid(text: str) -> Imported:
    """Import a configuration of Squid, or a list of patterns. Raises InvalidPolicyError."""
    findings = Findings("squid")
    directives = read_directives(text)
    if any(directive.words for directive in directives):
        return findings.imported(_configuration(directives, findings))
    entries = [(directive.place, directive.name) for directive in directives]
    names = EntryReader(DIALECT, findings, Action.ALLOW).destinations(entries)
    if not any(names):
        findings.refuse(WHOLE, "would be empty: no line is a domain that can be granted")
    findings.note(WHOLE, "GRANTS what the list names; if the list was for a deny line, do not use the policy")
    note_web_ports(findings)
    note_private_addresses(findings)
    return findings.imported(Policy(Mode.BLOCK_ALL, names.granted()))


def _configuration(directives: list[Directive], findings: Findings) -> Policy:
    left_out: dict[str, None] = {}
    for place, name, words in directives:
        if name in _FILTERS:
            if not _FILTERS[name] or set(words[:1]) & set(_FILTERS[name]):
                findings.refuse(place, f"{shown(name)} might deny what http_access allows; delete it if it does not")
        elif name not in ("acl", "http_access"):
            left_out[shown(name)] = None
    if left_out:
        findings.note(WHOLE, f"leaves out what is not about destinations: {', '.join(left_out)}")
    rules = AccessLines(read_acls(directives), findings).rules(directives)
    granted = [rule for rule in rules if rule.action is Action.ALLOW]
    if any(rule.domains for rule in granted):
        note_private_addresses(findings)
    if any(rule.cidrs for rule in granted):
        note_dialled_addresses(findings)
    if not granted:
        findings.note(WHOLE, "grants nothing: no http_access line allows a list of destinations alone")
    return _policy(rules)


def _policy(rules: Sequence[Rule]) -> Policy:
    """Return the policy of ordered rules, with the allow rules at their end as lists if they agree on the ports."""
    end = max((index + 1 for index, rule in enumerate(rules) if rule.action is Action.DENY), default=0)
    granted = rules[end:]
    if len({rule.ports for rule in granted}) != 1:
        return Policy(Mode.BLOCK_ALL, rules=tuple(rules))
    domains = tuple(dict.fromkeys(pattern for rule in granted for pattern in rule.domains))
    cidrs = tuple(dict.fromkeys(network for rule in granted for network in rule.cidrs))
    return Policy(Mode.BLOCK_ALL, Egress(domains, cidrs, granted[0].ports), tuple(rules[:end]))
