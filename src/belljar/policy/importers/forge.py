"""The egress allowlist of Forge: ``{mode, profile, allowed_domains, tool_domains, all_domains, allow_private_ips}``.

Modes are ``deny-all``, ``allowlist`` and ``dev-open``. ``all_domains`` is the sum of the other lists. Private
addresses are closed unless ``allow_private_ips`` opens them, whatever name or address is listed.
"""

from collections.abc import Mapping
from typing import Any, Final

from belljar.policy.addresses import AddressClass, classify
from belljar.policy.importers.document import Section
from belljar.policy.importers.findings import WHOLE, Findings, Imported, SourcePlace, shown
from belljar.policy.importers.translate import Dialect, EntryReader, note_web_ports
from belljar.policy.model import Action, Mode, Policy, Scope

MODES: Final = ("deny-all", "allowlist", "dev-open")
KEYS: Final = ("profile", "allowed_domains", "tool_domains", "all_domains", "allow_private_ips")

_DIALECT: Final = Dialect({Scope.EXACT: Scope.EXACT, Scope.BELOW: Scope.BELOW})


def import_forge(document: Mapping[str, Any]) -> Imported:
    """Import an egress allowlist of Forge. Raises InvalidPolicyError."""
    findings = Findings("forge")
    top = Section(WHOLE, document, findings)
    top.get("profile")  # the mode says what the profile stands for
    domains = _domains(top)
    private = _allow_private(top, findings)
    mode = top.get("mode")
    top.close()
    if mode == "allowlist":
        return findings.imported(_allowlist(domains, findings, allow_private=private))
    if mode not in MODES:
        findings.refuse(top.at("mode"), f"is {shown(mode)}; Forge knows {', '.join(MODES)}")
    elif domains:
        findings.note(top.at("mode"), f"is {mode}, so the listed domains were left out: they have no effect")
    if mode == "dev-open":
        findings.note(
            top.at("mode"),
            "is dev-open, so the policy OPENS THE WHOLE INTERNET; list what you need in block-all instead",
        )
        return findings.imported(Policy(Mode.ALLOW_ALL, allow_private=private))
    return findings.imported(Policy(Mode.BLOCK_ALL))


def _domains(top: Section) -> list[tuple[SourcePlace, Any]]:
    parts = top.items("allowed_domains") + top.items("tool_domains")
    whole = top.items("all_domains")
    return parts if top.get("all_domains") is None else whole


def _allow_private(top: Section, findings: Findings) -> bool:
    value = top.get("allow_private_ips")
    if value is not None and not isinstance(value, bool):
        findings.note(top.at("allow_private_ips"), f"is {shown(value)}, which was taken for false")
    return value is True


def _allowlist(items: list[tuple[SourcePlace, Any]], findings: Findings, *, allow_private: bool) -> Policy:
    names = EntryReader(_DIALECT, findings, Action.ALLOW).destinations(items)
    if not allow_private:
        # Here an address that is listed is open, private or not; in Forge it is not.
        public = tuple(net for net in names.addresses if classify(net.network_address) is AddressClass.PUBLIC)
        if public != names.addresses:
            findings.note(WHOLE, "leaves out the private addresses of the list: allow_private_ips does not open them")
        names = names._replace(addresses=public)
    if any(names):
        note_web_ports(findings)
    return Policy(Mode.BLOCK_ALL, names.granted(), allow_private=allow_private)
