"""Documents to policies: every key known, every entry checked, every problem reported at once.

Nothing is guessed and nothing is dropped: a document either becomes a Policy that says all of what it says, or an
InvalidPolicyError. There is no default that opens anything.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from belljar.policy.language.advice import advise
from belljar.policy.language.entries import (
    EntryError,
    did_you_mean,
    read_cidr,
    read_domain,
    read_host_port,
    read_port,
    read_rule_name,
)
from belljar.policy.language.problems import InvalidPolicyError, Problem
from belljar.policy.language.reading import Lines, Reading, UnreadableError, path_to, snake_case
from belljar.policy.language.syntax import Syntax, read_text
from belljar.policy.model import Action, DomainPattern, Egress, Mode, Policy, PresetUse, Protocol, Rule
from belljar.policy.presets import PRESETS

if TYPE_CHECKING:
    from belljar.policy.services import Service

T = TypeVar("T")

DOCUMENT_KEYS: Final = ("mode", "egress", "rules", "presets", "host_ports", "services", "allow_private")
EGRESS_KEYS: Final = Egress._fields
RULE_KEYS: Final = ("name", "action", "domains", "cidrs", "ports", "protocol")

_ENTRY_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "allowed_domains": partial(read_domain, grants=True),
    "allowed_cidrs": read_cidr,
    "allowed_ports": read_port,
    "denied_domains": partial(read_domain, grants=False),
    "denied_cidrs": read_cidr,
    "denied_ports": read_port,
}
_MAX_SHOWN: Final = 300
_MODES: Final = 'write "block-all" or "allow-all"'


class Document(NamedTuple):
    """A policy, what is odd about it, and where its parts stand in the text."""

    policy: Policy
    warnings: tuple[Problem, ...]
    lines: Lines


def read_policy(text: str, syntax: Syntax) -> Document:
    """Read a policy from text. Raises InvalidPolicyError with every problem of the document."""
    try:
        return policy_from(read_text(text, syntax))
    except UnreadableError as error:
        raise InvalidPolicyError([Problem("", str(error), error.line)]) from None


def policy_from(reading: Reading) -> Document:
    """Read a policy from plain data, as an API receives it. Raises InvalidPolicyError with every problem."""
    reader = _Reader(reading.lines)
    for path, line in reading.twice:
        reader.problems.append(Problem(path, "stands twice in the document; keep one of them", line))
    policy = reader.policy(reading.data)
    if policy is None or reader.problems:
        raise InvalidPolicyError(sorted(reader.problems, key=lambda problem: problem.line or 0))
    found = (*reader.warnings, *advise(policy))
    warnings = (Problem(w.where, w.message, reading.lines.of(w.where)) for w in found)
    return Document(policy, tuple(warnings), reading.lines)


class _Reader:
    """Walks the data once and collects problems; what it returns counts only if there are none."""

    def __init__(self, lines: Lines) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._lines = lines

    def fail(self, where: str, message: str, path: str = "") -> None:
        """Note a problem; `path` is for the line, where `where` is not spelled as the document has it."""
        self.problems.append(Problem(where, message, self._lines.of(path or where)))

    def warn(self, where: str, message: str) -> None:
        """Note something that is valid, and probably not meant."""
        self.warnings.append(Problem(where, message))

    def policy(self, data: object) -> Policy | None:
        if data is None or data == {}:
            self.fail("", 'is empty; write at least "mode: block-all"')
            return None
        if not isinstance(data, dict):
            self.fail("", f'is {_kind(data)}, not a mapping of keys; begin with "mode: block-all"')
            return None
        keys = self.keys("", data, DOCUMENT_KEYS)
        mode = self.mode(keys)
        allow_private = keys.get("allow_private", False)
        if not isinstance(allow_private, bool):
            self.fail("allow_private", f"{_quote(allow_private)} is neither true nor false; write one of them")
        policy = Policy(
            mode=mode or Mode.BLOCK_ALL,
            egress=self.egress(keys),
            rules=self.rules(keys),
            presets=self.entries("presets", keys, self.preset),
            host_ports=self.entries("host_ports", keys, read_host_port),
            services=self.services(keys),
            allow_private=allow_private is True,
        )
        return policy if mode else None

    def mode(self, keys: Mapping[str, object]) -> Mode | None:
        if "mode" not in keys:
            self.fail("mode", f"is missing, and nothing is assumed; {_MODES}")
            return None
        value = keys["mode"]
        if isinstance(value, str) and value in tuple(Mode):
            return Mode(value)
        self.fail("mode", f"{_quote(value)} is not a mode{did_you_mean(value, Mode)}; {_MODES}")
        return None

    def egress(self, keys: Mapping[str, object]) -> Egress:
        if "egress" not in keys:
            return Egress()
        lists = self.keys("egress", keys["egress"], EGRESS_KEYS)
        return Egress(
            **{key: self.entries(f"egress.{key}", lists, _ENTRY_READERS[key]) for key in EGRESS_KEYS if key in lists}
        )

    def services(self, keys: Mapping[str, object]) -> "tuple[Service, ...]":
        if "services" not in keys:
            return ()
        from belljar.policy.language.services import read_services  # noqa: PLC0415 - most policies have none

        return read_services(self, keys["services"])

    def rules(self, keys: Mapping[str, object]) -> tuple[Rule, ...]:
        taken: dict[str, str] = {}
        rules = []
        for index, value in self.items("rules", keys):
            where = f"rules[{index}]"
            rule = self.rule(where, value)
            rules.append(rule)
            if rule.name is not None and rule.name in taken:
                self.fail(
                    f"{where}.name",
                    f'"{rule.name}" is also the name of {taken[rule.name]}; give each its own',
                )
            elif rule.name is not None:
                taken[rule.name] = where
        return tuple(rules)

    def rule(self, where: str, value: object) -> Rule:
        if value == {}:
            self.fail(where, "is empty; write an action, and domains, cidrs, ports or protocol")
        keys = self.keys(where, value, RULE_KEYS)
        matchers = {key: keys[key] for key in ("domains", "cidrs", "ports", "protocol") if key in keys}
        if keys and not matchers:
            self.fail(where, "matches nothing in particular; add domains, cidrs, ports or protocol")
        for key in (key for key, value in matchers.items() if value == []):
            self.fail(f"{where}.{key}", "is empty, and would match everything; name what is meant or delete the key")
        action = self.choice(where, keys, "action", Action) or Action.DENY
        rule = Rule(
            action=action,
            name=self.rule_name(where, keys),
            domains=self.entries(f"{where}.domains", keys, partial(read_domain, grants=action is Action.ALLOW)),
            cidrs=self.entries(f"{where}.cidrs", keys, read_cidr),
            ports=self.entries(f"{where}.ports", keys, read_port),
            protocol=self.protocol(where, keys),
        )
        for index, ports in enumerate(rule.ports):
            if rule.protocol and ports.protocol and ports.protocol is not rule.protocol:
                self.fail(
                    f"{where}.ports[{index}]",
                    f'"{ports}" can never match, because the rule has protocol: {rule.protocol}; drop one of the two',
                )
        return rule

    def rule_name(self, where: str, keys: Mapping[str, object]) -> str | None:
        if "name" not in keys:
            return None
        try:
            return read_rule_name(keys["name"])
        except EntryError as error:
            self.fail(f"{where}.name", f"{_quote(keys['name'])} {error}")
            return None

    def protocol(self, where: str, keys: Mapping[str, object]) -> Protocol | None:
        return self.choice(where, keys, "protocol", Protocol) if "protocol" in keys else None

    def choice(self, where: str, keys: Mapping[str, object], key: str, choices: type[T]) -> T | None:
        words = [str(choice) for choice in choices]  # type: ignore[attr-defined]  # choices is a StrEnum
        value = keys.get(key)
        if isinstance(value, str) and value in words:
            return choices(value)  # type: ignore[call-arg]
        remedy = " or ".join(f'"{word}"' for word in words)
        if key in keys:
            self.fail(f"{where}.{key}", f"{_quote(value)} is not known{did_you_mean(value, words)}; write {remedy}")
        elif keys:  # else something has been said of the whole mapping
            self.fail(where, f"has no {key}; write {key}: {remedy}")
        return None

    def preset(self, entry: object) -> PresetUse:
        if isinstance(entry, str):
            return PresetUse(_preset_name(entry))
        if not isinstance(entry, dict) or len(entry) != 1:
            raise EntryError("is not a preset; write its name, or {name: host} to name the host it stands for")
        [(name, hosts)] = entry.items()
        if not PRESETS[_preset_name(name)].tool:
            raise EntryError(f"names a host, but the preset {name} has fixed hosts; write {name} alone")
        hosts = hosts if isinstance(hosts, list) else [hosts]
        if not hosts:
            raise EntryError(f"names no host; write {{{name}: registry.corp.example}} or {name} alone")
        return PresetUse(name, tuple(self.preset_host(host) for host in hosts))

    def preset_host(self, entry: object) -> DomainPattern:
        try:
            return read_domain(entry, grants=True)
        except EntryError as error:
            raise EntryError(f"names a host that cannot be read: {_quote(entry)} {error}") from None

    def keys(self, where: str, value: object, known: tuple[str, ...]) -> dict[str, Any]:
        """Return a mapping with its keys in snake_case, complaining about those that are not known."""
        if not isinstance(value, dict):
            self.fail(where, f"is {_kind(value)}; write a mapping with some of: {', '.join(known)}")
            return {}
        found: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for key, below in value.items():
            snake = snake_case(key) if isinstance(key, str) else key
            path = path_to(str(key), where)
            shown = key if str(key).isprintable() and len(str(key)) <= _MAX_SHOWN else _quote(key)
            place = f"{where}.{shown}" if where else str(shown)
            if snake not in known:
                self.fail(place, f"is not a known key{_where_it_belongs(snake, known)}", path)
            elif snake in found:
                self.fail(place, f"stands twice, as {spelled[snake]} too; keep one of them")
            else:
                found[snake] = below
                spelled[snake] = key
        return found

    def items(self, where: str, keys: Mapping[str, Any]) -> Iterable[tuple[int, object]]:
        """Yield the items of the list that the last part of `where` names, each with its number."""
        key = where.rpartition(".")[2]
        if key not in keys:
            return
        value = keys[key]
        if not isinstance(value, list):
            self.fail(where, f"is {_kind(value)}; write a list, such as [{'...' if value is None else _quote(value)}]")
            return
        yield from enumerate(value)

    def entries(self, where: str, keys: Mapping[str, Any], read: Callable[[object], T]) -> tuple[T, ...]:
        found = []
        for index, item in self.items(where, keys):
            try:
                found.append(read(item))
            except EntryError as error:
                self.fail(f"{where}[{index}]", f"{_quote(item)} {error}")
        return tuple(found)


def _preset_name(name: object) -> str:
    if isinstance(name, str) and name in PRESETS:
        return name
    raise EntryError(f"is not a preset{did_you_mean(name, PRESETS)}; `belljar policy presets` lists them")


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return "empty" if value is None else kinds.get(type(value), f"a {type(value).__name__}")


def _quote(entry: object) -> str:
    """Show an entry in ASCII on one line, whatever it holds."""
    shown = json.dumps(entry, default=str)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"


def _where_it_belongs(key: object, known: tuple[str, ...]) -> str:
    for title, keys in (
        ("egress", EGRESS_KEYS),
        ("the document itself", DOCUMENT_KEYS),
        ("a rule", RULE_KEYS),
    ):
        if key in keys and known is not keys:
            return f"; it belongs under {title}" if title != "the document itself" else "; it belongs at the top level"
    return did_you_mean(key, known) or f"; known here: {', '.join(known)}"
