"""Settings of srt, the sandbox runtime: ``{network: {allowedDomains, deniedDomains, ...}, filesystem: ...}``.

Everything is denied but the allowed domains; the denied ones come first. An entry may have a port, and without one
it means every port; ``*`` denies everything, ``*:22`` a port of everything. Only the part about the network has a
counterpart in a policy.
"""

from collections.abc import Mapping
from typing import Any, Final

from belljar.policy.importers.document import Section
from belljar.policy.importers.findings import WHOLE, Findings, Imported, SourcePlace, shown
from belljar.policy.importers.translate import Dialect, EntryReader, note_private_addresses, note_web_ports
from belljar.policy.language.entries import EntryError, read_port
from belljar.policy.model import Action, Mode, Policy, PortRange, Rule, Scope

_DIALECT: Final = Dialect({Scope.EXACT: Scope.EXACT, Scope.BELOW: Scope.BELOW}, ports=True)

_LEFT_OUT: Final = {
    "allow_unix_sockets": "a policy is about the network, not about sockets of the file system",
    "allow_all_unix_sockets": "a policy is about the network, not about sockets of the file system",
    "allow_mach_lookup": "a policy is about the network, not about services of the system",
    "allow_local_binding": "a sandbox has a loopback interface of its own and can listen there",
    "http_proxy_port": "there is no proxy of your own to be had in place of the gateway",
    "socks_proxy_port": "there is no proxy of your own to be had in place of the gateway",
    "mitm_proxy": "the next proxy on the way is no part of a policy",
    "parent_proxy": "the next proxy on the way is no part of a policy",
    "tls_terminate": "the gateway does not open TLS",
    "denied_domain_reasons": "a denial has a reason of its own here",
}


def import_srt(document: Mapping[str, Any]) -> Imported:
    """Import the settings of srt. Raises InvalidPolicyError."""
    findings = Findings("srt")
    top = Section(WHOLE, document, findings)
    network = top.section("network")
    network.get("strict_allowlist")  # nobody is asked here either
    for key, why in _LEFT_OUT.items():
        network.leave(key, why)
    policy = _policy(network, findings)
    network.close()
    for key in top.unread():
        findings.note(SourcePlace(key), "was left out: a policy is about the network alone")
    return findings.imported(policy)


def _policy(network: Section, findings: Findings) -> Policy:
    allowed = EntryReader(_DIALECT, findings, Action.ALLOW).destinations(network.items("allowed_domains"))
    everything, ports, entries = _split_stars(network.items("denied_domains"), findings)
    domains, addresses = EntryReader(_DIALECT, findings, Action.DENY).destinations(entries)
    if everything:
        findings.note(network.at("denied_domains"), "denies everything, so nothing is granted")
        return Policy(Mode.BLOCK_ALL)
    rules = []
    if domains or addresses:
        rules.append(Rule(Action.DENY, "denied domains", domains, addresses))
    if ports:
        rules.append(Rule(Action.DENY, "denied ports", ports=ports))
    if any(allowed):
        note_web_ports(findings)
    if allowed.domains:
        note_private_addresses(findings)
    return Policy(Mode.BLOCK_ALL, allowed.granted(), tuple(rules))


def _split_stars(
    items: list[tuple[SourcePlace, Any]], findings: Findings
) -> tuple[bool, tuple[PortRange, ...], list[tuple[SourcePlace, Any]]]:
    """Tell whether everything is denied, and return the ports denied everywhere and the entries that name a host."""
    everything, ports, entries = False, [], []
    for place, entry in items:
        star, _, port = entry.strip().partition(":") if isinstance(entry, str) else ("", "", "")
        if star != "*":
            entries.append((place, entry))
        elif not port:
            everything = True
        else:
            try:
                ports.append(read_port(port))
            except EntryError as error:
                findings.lost(place, Action.DENY, shown(entry), str(error))
    return everything, tuple(ports), entries
