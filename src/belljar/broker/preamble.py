"""The line that begins each connection to the broker: whose it is, and which service it may use.

The gateway writes it. What follows is the sandbox's own HTTP, and none of that can say who is asking.
"""

import json
from typing import Any, Final, NamedTuple

from belljar.policy.services import DEFAULT_PORT, Budget, Service, ServiceKind, SharedBudget

MOST_BYTES: Final = 64 << 10
"""How long the line may be, with its end."""


class PreambleError(ValueError):
    """The line is not one that `write` makes."""


class Preamble(NamedTuple):
    """What the gateway says of a connection."""

    sandbox: str
    service: Service
    refuse_tools: bool
    """Whether the provider may not be asked to reach for the network itself, unless the service says so."""


def write(sandbox: str, service: Service, *, refuse_tools: bool) -> bytes:
    """Return the line that says whose a connection is. Raises PreambleError if it would be too long."""
    data = {"sandbox": sandbox, "service": _to_data(service), "refuse_tools": refuse_tools}
    line = json.dumps(data, separators=(",", ":")).encode() + b"\n"
    if len(line) > MOST_BYTES:
        raise PreambleError(f"the service {service.name} takes more than {MOST_BYTES} bytes to describe")
    return line


def read(line: bytes) -> Preamble:
    """Read what `write` has written. Raises PreambleError."""
    try:
        data = json.loads(line)
        return Preamble(str(data["sandbox"]), _from_data(data["service"]), data["refuse_tools"] is not False)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise PreambleError("a connection did not begin with a proper line") from None


def _to_data(service: Service) -> dict[str, Any]:
    data = {**service._asdict(), "kind": service.kind.value, "budget": limits(service.budget)}
    del data["shared"]
    if service.shared is not None:
        data["shared"] = {"group": service.shared.group, "budget": limits(service.shared.budget)}
    return data


def limits(budget: Budget) -> dict[str, int | float]:
    """Return the bounds that a budget sets."""
    return {name: bound for name, bound in budget._asdict().items() if bound is not None}


def _from_data(data: dict[str, Any]) -> Service:
    shared = data.get("shared")
    return Service(
        name=str(data["name"]),
        kind=ServiceKind(data["kind"]),
        target=str(data["target"]),
        at=int(data.get("at", DEFAULT_PORT)),
        header=tuple((str(name), str(value)) for name, value in data.get("header", ())),
        paths=tuple(map(str, data.get("paths", ()))),
        server_tools=data.get("server_tools") is True,
        budget=Budget(**data.get("budget", {})),
        shared=SharedBudget(str(shared["group"]), Budget(**shared["budget"])) if shared else None,
    )
