"""The shapes of requests and answers, in JSON Schema. Requests are held against them (`validation`)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from belljar.backends.interface import FILE_LIMIT
from belljar.control.http.problems import KINDS
from belljar.policy import Action, Mode, Protocol
from belljar.runtime.sandbox import Status
from belljar.sandbox.layers import LayerName
from belljar.sandbox.spec import Isolation

Schema = dict[str, Any]

MOST_OUTPUT: Final = 16 << 20
DEFAULT_OUTPUT: Final = 1 << 20
_LONGEST: Final = 10 * 365 * 86400


def text(description: str, **more: Any) -> Schema:
    """Return the shape of a text."""
    return {"type": "string", "description": description, **more}


def number(description: str, low: float, high: float, *, whole: bool = False, **more: Any) -> Schema:
    """Return the shape of a number within bounds."""
    kind = "integer" if whole else "number"
    return {"type": kind, "description": description, "minimum": low, "maximum": high, **more}


def flag(description: str) -> Schema:
    """Return the shape of a yes or no."""
    return {"type": "boolean", "description": description}


def items(of: Schema, description: str, **more: Any) -> Schema:
    """Return the shape of a list."""
    return {"type": "array", "description": description, "items": of, **more}


def fields(properties: Mapping[str, Schema], required: Sequence[str] = (), **more: Any) -> Schema:
    """Return the shape of an object that has these fields and no others."""
    shape: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False, **more}
    return shape | {"required": list(required)} if required else shape


def answer(properties: Mapping[str, Schema], **more: Any) -> Schema:
    """Return the shape of an object that always has these fields."""
    return fields(properties, tuple(properties), **more)


def or_null(schema: Schema) -> Schema:
    """Return the same shape, or null."""
    return schema | {"type": [schema["type"], "null"]}


def named(name: str) -> Schema:
    """Return a reference to one of COMPONENTS."""
    return {"$ref": f"#/components/schemas/{name}"}


_ENTRY: Final = {"type": ["string", "integer"]}
_ENV: Final[Schema] = {
    "type": "object",
    "description": "Variables of its environment.",
    "propertyNames": text("a name has no equals sign and no NUL", pattern=r"^[^=\0]+$", maxLength=1024),
    "additionalProperties": text("a value has no NUL", pattern=r"^[^\0]*$", maxLength=1 << 17),
    "maxProperties": 1000,
}
_LABELS: Final[Schema] = {
    "type": "object",
    "description": "Names and values of your own, to find it by.",
    "propertyNames": text(
        "a label is up to 63 letters, digits and . _ / -", pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"
    ),
    "additionalProperties": text("", maxLength=256),
    "maxProperties": 64,
}
_TTL: Final = number("Seconds until it is paused; 0 for never.", 0, _LONGEST)
_HARD_TTL: Final = number("Seconds until it is deleted; 0 for never.", 0, _LONGEST)
_MOUNT: Final = fields(
    {
        "source": text("A file or directory of the host.", minLength=1, maxLength=4096),
        "target": text("Where it is seen inside; at its own place by default.", minLength=1, maxLength=4096),
        "writable": flag("Whether it can be written to; not by default."),
    },
    ["source"],
)
_LIMITS: Final = fields(
    {
        "cpus": number("Processors to use at most.", 0.01, 4096),
        "memory_bytes": number("Memory to use at most.", 1 << 20, 1 << 50, whole=True),
    },
    description="What it may use of the machine.",
)
_ENCODING: Final = text(
    "How stdin and the output are written in JSON: as UTF-8, with other bytes replaced (default), or as base64.",
    enum=["utf-8", "base64"],
)

_READ_ONLY: Final = flag("Whether the image's files cannot be changed; they can by default.")
_ISOLATION: Final = text(
    "What is between it and the network: its own, which has no way out (`sealed`, by default), or the host's filter.",
    enum=[Isolation.SEALED.value, Isolation.PERIMETER.value],
)

CREATE: Final = fields(
    {
        "backend": text("Where it runs; `local` by default.", minLength=1, maxLength=64),
        "image": text("The image it is made from, on backends that have images.", minLength=1, maxLength=1024),
        "read_only": _READ_ONLY,
        "isolation": _ISOLATION,
        "workdir": text("A directory of the host to work in; by default an empty one.", minLength=1, maxLength=4096),
        "env": _ENV,
        "mounts": items(_MOUNT, "What of the host is seen inside.", maxItems=256),
        "limits": _LIMITS,
        "ttl": _TTL,
        "hard_ttl": _HARD_TTL,
        "network": named("Policy"),
        "labels": _LABELS,
    }
)
REFRESH: Final = fields({"ttl": _TTL, "hard_ttl": _HARD_TTL})
EXEC: Final = fields(
    {
        "command": items(text("", maxLength=1 << 17), "A program and its arguments.", minItems=1, maxItems=4096),
        "env": _ENV,
        "workdir": text("A directory inside.", minLength=1, maxLength=4096),
        "stdin": text("What it can read; nothing by default."),
        "encoding": _ENCODING,
        "timeout": number("Seconds until it is killed.", 0.001, _LONGEST),
        "max_output_bytes": number(
            "Of each stream, how much is kept; of the rest it is told that it is missing.",
            0,
            MOST_OUTPUT,
            whole=True,
            default=DEFAULT_OUTPUT,
        ),
    },
    ["command"],
)
GRANT: Final = fields(
    {
        "allow": text(
            "A domain as in allowed_domains, or an address or range as in allowed_cidrs.", minLength=1, maxLength=300
        ),
        "seconds": number("How long it is open.", 0.001, 30 * 86400),
    },
    ["allow", "seconds"],
)
AMEND: Final = fields({"add": named("PolicyEntries"), "remove": named("RemovedEntries")})

_WARNING: Final = answer({"field": or_null(text("Where.")), "detail": text("What, and what to do.")})
_STATUS: Final = text("How it is.", enum=[status.value for status in Status])
_MOMENT: Final = {"type": "number", "description": "Seconds since 1970."}
_COUNT: Final = {"type": "integer", "minimum": 0}
_AMOUNTS: Final = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
_DOCUMENT_LISTS: Final = {
    "egress": fields(
        {
            "allowed_domains": items({"type": "string"}, "Counts in block-all."),
            "allowed_cidrs": items({"type": "string"}, "Counts in block-all."),
            "allowed_ports": items(_ENTRY, "Counts in block-all."),
            "denied_domains": items({"type": "string"}, "Counts in allow-all."),
            "denied_cidrs": items({"type": "string"}, "Counts in allow-all."),
            "denied_ports": items(_ENTRY, "Counts in allow-all."),
        }
    ),
    "rules": items(
        fields(
            {
                "name": text("A name of your own."),
                "action": text("", enum=[action.value for action in Action]),
                "domains": items({"type": "string"}, ""),
                "cidrs": items({"type": "string"}, ""),
                "ports": items(_ENTRY, ""),
                "protocol": text("", enum=[protocol.value for protocol in Protocol]),
            },
            ["action"],
        ),
        "Ordered; the first that matches wins, before the lists.",
    ),
    "presets": items({"type": ["string", "object"]}, "Named bundles of allowed domains."),
    "host_ports": items(_ENTRY, "Services of the host, at host.belljar.internal."),
}
_SERVICES: Final = {
    "type": "object",
    "description": "What names below belljar.internal lead to, by name.",
    "additionalProperties": {"type": "object"},
}

COMPONENTS: Final[dict[str, Schema]] = {
    "Policy": fields(
        {
            "mode": text("What happens to what no entry mentions.", enum=[mode.value for mode in Mode]),
            **_DOCUMENT_LISTS,
            "services": _SERVICES,
            "allow_private": flag("Whether allow-all includes private ranges."),
        },
        ["mode"],
        description="A network policy, as docs/policy.md describes it.",
    ),
    "PolicyEntries": fields(
        {**_DOCUMENT_LISTS, "services": _SERVICES}, description="Entries of a policy, in its own shape."
    ),
    "RemovedEntries": fields(
        {**_DOCUMENT_LISTS, "services": items({"type": "string"}, "The names of services.")},
        description="Entries of a policy, in its own shape; of services, the names.",
    ),
    "Sandbox": answer(
        {
            "id": text("Its name."),
            "status": _STATUS,
            "detail": or_null(text("Why it is so.")),
            "backend": text("Where it runs."),
            "image": or_null(text("")),
            "read_only": _READ_ONLY,
            "isolation": _ISOLATION,
            "workdir": or_null(text("")),
            "mounts": items(_MOUNT, ""),
            "limits": _LIMITS,
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "created_at": _MOMENT,
            "ttl": or_null(_TTL),
            "hard_ttl": or_null(_HARD_TTL),
            "expires_at": or_null(_MOMENT),
            "hard_expires_at": or_null(_MOMENT),
            "network": answer(
                {
                    "mode": text("", enum=[mode.value for mode in Mode]),
                    "revision": _COUNT | {"description": "Counts how often the policy was set."},
                    "generation": _COUNT | {"description": "Counts what the gateway was told."},
                    "grants": _COUNT | {"description": "How many are open."},
                    "in_force": flag("Whether the gateway decides by it. If not, nothing can be reached."),
                }
            ),
        }
    ),
    "Sandboxes": answer(
        {
            "sandboxes": items(named("Sandbox"), "The oldest first."),
            "next": or_null(text("The cursor of the next page; null on the last one.")),
        }
    ),
    "ExecResult": answer(
        {
            "exit_code": {"type": "integer", "description": "128+n if signal n ended it."},
            "stdout": text(""),
            "stderr": text(""),
            "truncated": flag("Whether some output is missing."),
            "timed_out": flag("Whether it was killed because of its timeout."),
            "out_of_memory": flag("Whether the sandbox ran out of memory meanwhile, and something in it was killed."),
            "seconds": {"type": "number", "description": "How long it ran."},
        }
    ),
    "Layers": answer(
        {
            "layers": items(
                answer(
                    {
                        "name": text("What it is called.", enum=[name.value for name in LayerName]),
                        "active": {
                            "type": ["boolean", "null"],
                            "description": "Whether it holds; null if that could not be found out.",
                        },
                        "evidence": text("What was seen."),
                        "remedy": or_null(text("What to do about one that is not active.")),
                    }
                ),
                "All of them, always in this order.",
            )
        }
    ),
    "Change": answer(
        {
            "generation": _COUNT | {"description": "No earlier one is in force."},
            "in_force": flag(
                "Whether the gateway decides by this policy now. If not, the sandbox can reach nothing until it does."
            ),
            "flows_reset": _COUNT | {"description": "How many live flows the policy has ended."},
            "warnings": items(_WARNING, "What is valid but probably not meant."),
            "policy": named("Policy"),
        }
    ),
    "Preview": answer(
        {
            "generation": _COUNT | {"description": "That in force; nothing was changed."},
            "flows_reset": _COUNT | {"description": "How many live flows would end."},
            "warnings": items(_WARNING, ""),
            "policy": named("Policy"),
            "changes": items(
                answer(
                    {
                        "destination": text("As it was tried."),
                        "live": flag("Whether it is open now."),
                        "from": text("", enum=[action.value for action in Action]),
                        "to": text("", enum=[action.value for action in Action]),
                        "reason": text("The reason of the decision then."),
                        "rule": or_null(text("The place in the policy that would decide.")),
                        "sentence": text("The same for a person."),
                    }
                ),
                "Live flows and recent destinations that would be decided otherwise.",
            ),
        }
    ),
    "Grant": answer(
        {
            "id": text("Its name."),
            "allow": text("What is open."),
            "seconds": {"type": "number", "description": "For how long."},
            "ends_at": _MOMENT,
        }
    ),
    "Explanation": answer(
        {
            "destination": text("As it was asked for."),
            "action": text("", enum=[action.value for action in Action]),
            "reason": text("The id of the reason."),
            "rule": or_null(text("The place in the policy that decided.")),
            "sentence": text("The same for a person."),
        }
    ),
    "Flow": answer(
        {
            "protocol": or_null(text("", enum=[protocol.value for protocol in Protocol])),
            "name": or_null(text("The name that was wanted.")),
            "addresses": items({"type": "string"}, ""),
            "port": or_null({"type": "integer"}),
            "bytes_up": _COUNT,
            "bytes_down": _COUNT,
            "seconds": {"type": "number", "description": "Since it was allowed."},
        }
    ),
    "ServiceUsage": answer(
        {
            "service": text("The name that it has in the policy."),
            "used": _AMOUNTS | {"description": "What was counted so far."},
            "budget": _AMOUNTS | {"description": "Up to where; what has no bound is left out."},
        }
    ),
    "Event": {
        "type": "object",
        "description": "A line of the audit log, or one of the server's own events.",
        "properties": {"id": _COUNT, "event": text(""), "time": text(""), "sandbox": or_null(text(""))},
        "required": ["id", "event", "time", "sandbox"],
    },
    "Health": answer(
        {"status": text("", enum=["ok", "degraded"]), "version": text(""), "problems": items({"type": "string"}, "")}
    ),
    "Problem": answer(
        {
            "type": text("A name of the kind of problem."),
            "title": text("The same for a person."),
            "status": {"type": "integer"},
            "code": text("Stable; one of a closed set.", enum=list(KINDS)),
            "detail": text("What is wrong."),
            "remedy": or_null(text("What to do.")),
            "field": or_null(text("Where in the request.")),
            "problems": items(
                answer({"field": or_null(text("")), "detail": text(""), "remedy": or_null(text(""))}),
                "Everything that is wrong with the request.",
            ),
        }
    ),
}
"""Shapes that have a name."""

FILE: Final = {"type": "string", "format": "binary", "maxLength": FILE_LIMIT}
