"""Network policies, as docs/policy.md describes them, in the shape that they have in documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from belljar.client.errors import BugError

Port = int | str
"""`443`, `"8000-8100"`, `"123/udp"`."""


class _Lists:
    """What is made of lists. One text where several are wanted is a slip that would go unnoticed, letter by letter."""

    __slots__ = ()
    _lists: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for name in self._lists:
            entries = getattr(self, name)
            if isinstance(entries, str):
                raise TypeError(f"{name} is one text; write a list, as in [{entries!r}]")
            object.__setattr__(self, name, tuple(entries))


def _filled(part: "Egress | Rule") -> dict[str, Any]:
    values = ((each.name, getattr(part, each.name)) for each in fields(part))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values if value}


@dataclass(frozen=True, slots=True)
class Egress(_Lists):
    """Grants, which count in block-all, and denials, which count in allow-all."""

    allowed_domains: Sequence[str] = ()
    allowed_cidrs: Sequence[str] = ()
    allowed_ports: Sequence[Port] = ()
    denied_domains: Sequence[str] = ()
    denied_cidrs: Sequence[str] = ()
    denied_ports: Sequence[Port] = ()

    _lists = ("allowed_domains", "allowed_cidrs", "allowed_ports", "denied_domains", "denied_cidrs", "denied_ports")


@dataclass(frozen=True, slots=True)
class Rule(_Lists):
    """A rule; the first that matches wins, before the lists."""

    action: Literal["allow", "deny"]
    domains: Sequence[str] = ()
    cidrs: Sequence[str] = ()
    ports: Sequence[Port] = ()
    protocol: Literal["tcp", "udp"] | None = None
    name: str | None = None

    _lists = ("domains", "cidrs", "ports")

    def to_data(self) -> dict[str, Any]:
        """Return the rule as it stands in a document, without what is empty."""
        return _filled(self)


@dataclass(frozen=True, slots=True)
class NetworkPolicy(_Lists):
    """What a sandbox may reach. One that was got from a server knows its tag, and is only set in that one's place."""

    mode: Literal["allow-all", "block-all"]
    egress: Egress = field(default_factory=Egress)
    rules: Sequence[Rule] = ()
    presets: Sequence[str | Mapping[str, Any]] = ()
    host_ports: Sequence[Port] = ()
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    allow_private: bool = False
    etag: str | None = field(default=None, compare=False)

    _lists = ("rules", "presets", "host_ports")

    def to_data(self) -> dict[str, Any]:
        """Return the document, without what is empty."""
        document = {"mode": self.mode, "egress": _filled(self.egress), "rules": [rule.to_data() for rule in self.rules]}
        document |= {name: list(getattr(self, name)) for name in ("presets", "host_ports")}
        document |= {"services": {name: dict(entry) for name, entry in self.services.items()}}
        return {key: value for key, value in (document | {"allow_private": self.allow_private}).items() if value}

    @classmethod
    def of(cls, document: Mapping[str, Any], etag: str | None = None) -> "NetworkPolicy":
        """Return the policy that a document is. Raises BugError for what this version does not know.

        Nothing is skipped: a policy that is got, changed and set must not lose a denial on the way.
        """
        try:
            return cls(
                **{
                    **document,
                    "egress": Egress(**document.get("egress", {})),
                    "rules": [Rule(**rule) for rule in document.get("rules", ())],
                    "etag": etag,
                }
            )
        except TypeError as error:
            raise BugError(f"the policy has something that this client does not know ({error}); update it") from None
