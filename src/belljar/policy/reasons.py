"""The closed set of answers to "why": one id per reason, the same in every protocol, log line and report.

docs/policy.md explains each of them; a test fails when one is missing there.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Reason(StrEnum):
    """Why a flow was allowed or denied."""

    # Allowed.
    ALLOWED_DOMAIN = "allowed_domain"
    ALLOWED_CIDR = "allowed_cidr"
    ALLOWED_BY_RULE = "allowed_by_rule"
    ALLOWED_BY_DEFAULT = "allowed_by_default"
    ALLOWED_HOST_PORT = "allowed_host_port"
    ALLOWED_SERVICE = "allowed_service"

    # Denied.
    NOT_ALLOWED_DOMAIN = "not_allowed_domain"
    NOT_ALLOWED_ADDRESS = "not_allowed_address"
    PORT_NOT_ALLOWED = "port_not_allowed"
    DENIED_DOMAIN = "denied_domain"
    DENIED_CIDR = "denied_cidr"
    DENIED_PORT = "denied_port"
    DENIED_BY_RULE = "denied_by_rule"
    RESERVED_ADDRESS = "reserved_address"
    RESERVED_NAME = "reserved_name"
    HOST_PORT_NOT_ALLOWED = "host_port_not_allowed"
    SERVICE_NOT_ALLOWED = "service_not_allowed"
    NAME_MISMATCH = "name_mismatch"
    PROTOCOL_REFUSED = "protocol_refused"
    UDP_BLOCKED = "udp_blocked"
    POLICY_MISSING = "policy_missing"


BEYOND_POLICY: Final = frozenset({Reason.RESERVED_NAME, Reason.NAME_MISMATCH, Reason.PROTOCOL_REFUSED})
"""Denials that no change of a policy lifts."""

BEYOND_POLICY_WITHOUT_RULE: Final = frozenset({Reason.RESERVED_ADDRESS})
"""The same, unless the verdict names a rule: a private range can be granted, the host's own addresses cannot."""

SENTENCES: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.ALLOWED_DOMAIN: "{flow} is allowed by {rule}.",
        Reason.ALLOWED_CIDR: "{flow} is allowed by {rule}.",
        Reason.ALLOWED_BY_RULE: "{flow} is allowed by {rule}.",
        Reason.ALLOWED_BY_DEFAULT: "{flow} is allowed: the mode is allow-all and nothing denies it.",
        Reason.ALLOWED_HOST_PORT: "{flow} is a service of the host that host_ports opens.",
        Reason.ALLOWED_SERVICE: "{flow} is a service that {rule} opens.",
        Reason.NOT_ALLOWED_DOMAIN: "{flow} is not among the allowed domains.",
        Reason.NOT_ALLOWED_ADDRESS: "{flow} was dialled by address and is in no allowed range.",
        Reason.PORT_NOT_ALLOWED: "{rule} grants the destination of {flow}, but not this port.",
        Reason.DENIED_DOMAIN: "{flow} is denied by {rule}.",
        Reason.DENIED_CIDR: "{flow} is denied by {rule}.",
        Reason.DENIED_PORT: "{flow} is denied by {rule}.",
        Reason.DENIED_BY_RULE: "{flow} is denied by {rule}.",
        Reason.RESERVED_ADDRESS: "{flow} leads to {culprit}.",
        Reason.RESERVED_NAME: "{flow} means {culprit}.",
        Reason.HOST_PORT_NOT_ALLOWED: "{flow} is a service of the host that host_ports does not open.",
        Reason.SERVICE_NOT_ALLOWED: "{flow} is no service of this sandbox: {culprit}.",
        Reason.NAME_MISMATCH: "{flow} was dialled, but the first bytes of the connection name {culprit}.",
        Reason.PROTOCOL_REFUSED: "{flow} is denied: what the client said first cannot be checked: {culprit}.",
        Reason.UDP_BLOCKED: "{flow} is UDP, and in block-all none leaves the sandbox; DNS is answered by the gateway.",
        Reason.POLICY_MISSING: "{flow} is denied: there is no policy, so nothing may be reached.",
    }
)
"""The same for a person. `flow` is what was asked for, `rule` the place in the document that decided."""
