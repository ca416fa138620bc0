"""The one decision: may this flow go where it wants to?

Everything that can open a door asks here: transparent connections, DNS questions, explicit proxies, UDP, host
services and the re-check of live connections when a policy changes. There is no second copy of a rule.

The order of the questions is the order of the code: what no policy can open comes first, then the clauses of the
policy, then its mode, and at the end the guard on names and addresses that need an explicit opening.
"""

from typing import TYPE_CHECKING, NamedTuple

from belljar.names import Address
from belljar.policy.addresses import AddressClass, classify, unwrap
from belljar.policy.clauses import Clause
from belljar.policy.flow import Flow
from belljar.policy.model import Action, Mode, Protocol
from belljar.policy.reasons import SENTENCES, Reason
from belljar.policy.reserved import HOST_NAMES, is_closed_name, is_never_name, is_service_name

if TYPE_CHECKING:
    from belljar.policy.compiled import CompiledPolicy


class Verdict(NamedTuple):
    """A decision and its grounds."""

    action: Action
    reason: Reason
    rule: str | None
    """The place in the document that decided, such as ``egress.allowed_domains[2]``; None where no policy could."""

    flow: Flow
    culprit: str = ""
    """What about the flow is to blame, where the reason does not say it all."""

    @property
    def allowed(self) -> bool:
        """Tell whether the flow may go on."""
        return self.action is Action.ALLOW

    @property
    def sentence(self) -> str:
        """The same for a person."""
        return SENTENCES[self.reason].format(flow=self.flow, rule=self.rule, culprit=self.culprit)


def without_policy(flow: Flow) -> Verdict:
    """Decide a flow for which there is no policy: everything is denied."""
    return Verdict(Action.DENY, Reason.POLICY_MISSING, None, flow)


def decide(policy: "CompiledPolicy", flow: Flow) -> Verdict:
    """Decide a flow; `CompiledPolicy.decide` for everybody else."""
    classes = list(map(classify, flow.addresses))
    return _closed_to_all(policy, flow, classes) or _by_the_policy(policy, flow, classes)


def _closed_to_all(policy: "CompiledPolicy", flow: Flow, classes: list[AddressClass]) -> Verdict | None:
    """Deny what no entry of a policy can open."""
    name, claimed = flow.name, flow.claimed
    if name is None and not flow.addresses:
        return Verdict(Action.DENY, Reason.NOT_ALLOWED_ADDRESS, None, flow)
    if claimed is not None and name is not None and claimed != name:
        return Verdict(Action.DENY, Reason.NAME_MISMATCH, None, flow, claimed)
    if flow.protocol is Protocol.UDP and policy.mode is Mode.BLOCK_ALL:
        return Verdict(Action.DENY, Reason.UDP_BLOCKED, "mode", flow)
    named = name or claimed
    if named is not None and is_never_name(named):
        culprit = "this machine or a metadata service, which no policy opens"
        return Verdict(Action.DENY, Reason.RESERVED_NAME, None, flow, culprit)
    if not flow.addresses or name in HOST_NAMES:
        return None
    for address, found in zip(flow.addresses, classes, strict=True):
        if found is AddressClass.NEVER:
            culprit = f"{unwrap(address)}, which is loopback, link-local, metadata or reserved and stays closed"
        elif address in flow.own or (policy.host_addresses and unwrap(address) in policy.host_addresses):
            culprit = f"{unwrap(address)}, an address of the host, whose services are opened by host_ports alone"
        else:
            continue
        return Verdict(Action.DENY, Reason.RESERVED_ADDRESS, None, flow, culprit)
    return None


def _by_the_policy(policy: "CompiledPolicy", flow: Flow, classes: list[AddressClass]) -> Verdict:
    winner, naming, near_miss = _first_clauses(policy, flow)
    if winner is not None and winner.action is Action.DENY:
        return Verdict(Action.DENY, winner.reason, f"{winner.place}[{winner.entry}]", flow)
    if flow.name in HOST_NAMES:
        return _host_service(policy, flow)
    if is_service_name(flow.name):
        return _named_service(policy, flow)
    if winner is None and policy.mode is Mode.BLOCK_ALL:
        return _not_granted(flow, near_miss)
    if flow.name is not None and is_closed_name(flow.name) and not (naming and naming.action is Action.ALLOW):
        culprit = "something inside a cloud or a cluster, which only an entry that names it opens"
        return Verdict(Action.DENY, Reason.RESERVED_NAME, "mode", flow, culprit)
    if AddressClass.PRIVATE in classes and (closed := _closed_private_address(policy, flow, classes)):
        opener = "its range in allowed_cidrs" if policy.mode is Mode.BLOCK_ALL else "an allow rule with its range"
        culprit = f"{unwrap(closed)}, a private address; {opener} opens it, or allow_private"
        return Verdict(Action.DENY, Reason.RESERVED_ADDRESS, "allow_private", flow, culprit)
    if winner is None:
        return Verdict(Action.ALLOW, Reason.ALLOWED_BY_DEFAULT, "mode", flow)
    return Verdict(Action.ALLOW, winner.reason, f"{winner.place}[{winner.entry}]", flow)


def _first_clauses(policy: "CompiledPolicy", flow: Flow) -> tuple[Clause | None, Clause | None, Clause | None]:
    """Return the first clause that fits, the first that names the destination, a grant that fits another port."""
    winner = near_miss = None
    for clause in _clauses(policy, flow):
        if clause.fits(flow.port, flow.protocol):
            if winner is None or clause.order < winner.order:
                winner = clause
        elif near_miss is None and clause.action is Action.ALLOW:
            near_miss = clause
    if flow.port is None or flow.protocol is None:
        everywhere = policy.everywhere_by_name
    else:
        everywhere = policy.everywhere.first(flow.port, flow.protocol)
    naming = winner
    if everywhere is not None and (winner is None or everywhere.order < winner.order):
        winner = everywhere
    return winner, naming, near_miss


def _clauses(policy: "CompiledPolicy", flow: Flow) -> list[Clause]:
    """Return the clauses that speak of a destination, whatever the port."""
    if flow.name is not None:
        found = policy.domains.covering(flow.name)
    elif flow.claimed is not None:
        # Dialled by address: what the client says of its name can deny it, but not grant it.
        found = [clause for clause in policy.domains.covering(flow.claimed) if clause.action is Action.DENY]
    else:
        found = []
    for address in flow.addresses:
        inner = unwrap(address)
        if containing := policy.cidrs.containing(inner):
            # Names grant, addresses do not: a grant by CIDR is for those who dial an address.
            grants = flow.name is None
            found += [c for c in containing if grants or c.action is Action.DENY]
        if inner is not address:
            found += [c for c in policy.cidrs.containing(address) if c.action is Action.DENY]
    return found


def _host_service(policy: "CompiledPolicy", flow: Flow) -> Verdict:
    if flow.port is None or flow.protocol is None:
        granted = bool(policy.host_ports.tcp)
    else:
        granted = policy.host_ports.has(flow.port, flow.protocol)
    if granted:
        return Verdict(Action.ALLOW, Reason.ALLOWED_HOST_PORT, "host_ports", flow)
    return Verdict(Action.DENY, Reason.HOST_PORT_NOT_ALLOWED, "host_ports", flow)


def _not_granted(flow: Flow, near_miss: Clause | None) -> Verdict:
    if near_miss is not None:
        return Verdict(Action.DENY, Reason.PORT_NOT_ALLOWED, f"{near_miss.place}[{near_miss.entry}]", flow)
    reason = Reason.NOT_ALLOWED_ADDRESS if flow.name is None else Reason.NOT_ALLOWED_DOMAIN
    return Verdict(Action.DENY, reason, "mode", flow)


def _named_service(policy: "CompiledPolicy", flow: Flow) -> Verdict:
    service = policy.services.get(flow.name or "")
    if service is None:
        return Verdict(Action.DENY, Reason.SERVICE_NOT_ALLOWED, "services", flow, "none has this name")
    is_asked_for = flow.port is None and flow.protocol is None
    if is_asked_for or (flow.port == service.at and flow.protocol is Protocol.TCP):
        return Verdict(Action.ALLOW, Reason.ALLOWED_SERVICE, f"services.{service.name}", flow)
    speaks = ", which speaks plain HTTP inside and TLS outside" if service.is_broker else " over TCP"
    culprit = f"{service.name} is at {service.where}{speaks}"
    return Verdict(Action.DENY, Reason.SERVICE_NOT_ALLOWED, f"services.{service.name}", flow, culprit)


def _closed_private_address(policy: "CompiledPolicy", flow: Flow, classes: list[AddressClass]) -> Address | None:
    if policy.policy.allow_private:
        return None
    for address, found in zip(flow.addresses, classes, strict=True):
        if found is not AddressClass.PRIVATE:
            continue
        opening = policy.opened.containing(unwrap(address))
        if not any(clause.opens(flow.port, flow.protocol) for clause in opening):
            return address
    return None
