"""What an agent is told about its sandbox, in a file that a model understands."""

import json
from typing import Any, Final

from belljar.policy import Mode, Policy
from belljar.policy.language.render import to_data

_ABOUT_NO_ISOLATION: Final = {
    "summary": "This is a sandbox. It has the network of its host; most of the host's files are out of reach."
}


def notice(policy: Policy | None) -> bytes:
    """Return the contents of the file that tells an agent what it may reach. No preset is left in the policy."""
    told = _about(policy) if policy is not None else _ABOUT_NO_ISOLATION
    return json.dumps(told, indent=2).encode() + b"\n"


def _about(policy: Policy) -> dict[str, Any]:
    return {
        "summary": _summary(policy),
        "advice": (
            "A destination that is not allowed is denied by policy, not by an outage: do not retry, and do not look "
            "for a way around. Go on without it, or tell the user which host you need and why; the user can allow it."
        ),
        "denials": (
            "HTTP answers 403 with a JSON body whose 'reason' says why; TLS ends with the alert access_denied; "
            "DNS says that there is no such name, or REFUSED; other connections are reset."
        ),
        "policy": to_data(policy),
    }


def _summary(policy: Policy) -> str:
    if policy.mode is Mode.ALLOW_ALL:
        return "This is a sandbox. The public internet can be reached, but for what the policy below denies."
    reachable = [str(pattern) for pattern in policy.egress.allowed_domains]
    reachable += [str(network) for network in policy.egress.allowed_cidrs]
    reachable += [f"host.belljar.internal:{port}" for port in policy.host_ports]
    reachable += [f"{service.host}:{service.at}" for service in policy.services]
    if not reachable and not policy.rules:
        return "This is a sandbox without a network: nothing outside of it can be reached."
    return f"This is a sandbox. Only these can be reached, and only as the policy below says: {', '.join(reachable)}"
