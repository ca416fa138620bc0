"""The ``http_access`` lines of a squid.conf, as rules.

Two denials are taken for limits to the ports of all that follows: ``deny !Safe_ports`` and ``deny CONNECT
!SSL_ports``. The second leaves the other ports to plain HTTP. Of those only 80 is carried over, because here an open
port is open to whatever is spoken there.
"""

from typing import Any, Final, NamedTuple

from belljar.policy.importers.findings import WHOLE, Findings, SourcePlace, shown
from belljar.policy.importers.ranges import intersect
from belljar.policy.importers.squid_acls import Acl, AclKind, Directive
from belljar.policy.importers.translate import WEB_PORTS, Dialect, EntryReader, note_web_ports
from belljar.policy.model import Action, PortRange, Rule, Scope

DIALECT: Final = Dialect({Scope.EXACT: Scope.EXACT, Scope.WITHIN: Scope.WITHIN})

_DESTINATIONS: Final = {AclKind.NAMES, AclKind.RANGES}
_CARRIED: Final = _DESTINATIONS | {AclKind.PORTS}
_EVERY_PORT: Final[tuple[PortRange, ...]] = (PortRange(1, 65535),)
_PLAIN_HTTP: Final[tuple[PortRange, ...]] = (PortRange(80, 80),)


class _Test(NamedTuple):
    """A list in a line, as it is or (``!``) the contrary."""

    word: str
    negated: bool
    acl: Acl


class AccessLines:
    """Turns lines into rules, in their order."""

    def __init__(self, acls: dict[str, Acl], findings: Findings) -> None:
        self._acls = acls
        self._findings = findings
        self._readers = {action: EntryReader(DIALECT, findings, action) for action in Action}
        self._rules: list[Rule] = []
        self._ports = _EVERY_PORT
        self._tunnel_ports = _EVERY_PORT

    def rules(self, directives: list[Directive]) -> list[Rule]:
        """Return the rules up to the line that denies everything."""
        for place, _, words in (directive for directive in directives if directive.name == "http_access"):
            action, tests = words[:1], [self._test(word) for word in words[1:] if word != "all"]
            if action == ("allow",):
                self._allow(place, tests)
            elif action != ("deny",):
                self._findings.refuse(place, "is neither http_access allow nor http_access deny")
            elif tests:
                self._deny(place, tests)
            else:
                break
        return self._rules

    def _test(self, word: str) -> _Test:
        return _Test(word, word.startswith("!"), self._acls.get(word.removeprefix("!"), Acl(AclKind.OTHER)))

    def _deny(self, place: SourcePlace, tests: list[_Test]) -> None:
        if any(test.acl.kind is AclKind.CLOSED and not test.negated for test in tests) or self._limits(tests):
            return
        carried = [test for test in tests if not test.negated and test.acl.kind in _CARRIED]
        if not carried:
            why = f"has conditions that a policy cannot have ({_words(tests)}); delete it if it is not about sandboxes"
            self._findings.lost(place, Action.DENY, "the line", why)
            return
        kinds = {test.acl.kind for test in carried}
        if len(kinds) < len(tests) or kinds >= _DESTINATIONS:
            self._findings.note(place, f"denies more than in Squid, where all its conditions count ({_words(tests)})")
        rule = self._rule(Action.DENY, carried)
        if rule.domains or rule.cidrs or rule.ports:
            self._rules.append(rule)

    def _limits(self, tests: list[_Test]) -> bool:
        """Tell whether a denial is a limit to the ports, and if so, set it."""
        ports = [test for test in tests if test.negated and test.acl.kind is AclKind.PORTS]
        others = [test for test in tests if test not in ports]
        if len(ports) != 1 or any(test.negated or test.acl.kind is not AclKind.TUNNELS for test in others):
            return False
        limit = self._readers[Action.ALLOW].ports(self._values(Action.ALLOW, ports, AclKind.PORTS))
        if others:
            self._tunnel_ports = intersect(self._tunnel_ports, limit)
        else:
            self._ports = intersect(self._ports, limit)
        return True

    def _allow(self, place: SourcePlace, tests: list[_Test]) -> None:
        kinds = [test.acl.kind for test in tests]
        if not tests:
            why = 'opens every destination; write "mode: allow-all" in the policy if that is meant'
        elif any(test.negated for test in tests) or not _CARRIED | {AclKind.TUNNELS} >= set(kinds):
            why = f"has conditions that a policy cannot have ({_words(tests)}); delete those that fit every sandbox"
        elif sum(kind in _DESTINATIONS for kind in kinds) != 1 or kinds.count(AclKind.PORTS) > 1:
            why = f"does not name its destinations in one list and its ports in another ({_words(tests)})"
        else:
            rule = self._rule(Action.ALLOW, tests)
            listed = rule.ports if AclKind.PORTS in kinds else _EVERY_PORT
            rule = rule._replace(ports=self._open_ports(listed, () if AclKind.TUNNELS in kinds else _PLAIN_HTTP))
            if rule.ports and (rule.domains or rule.cidrs):
                self._rules.append(rule)
                return
            why = "has no destination left, or no port"
        self._findings.lost(place, Action.ALLOW, "the line", why)

    def _open_ports(self, listed: tuple[PortRange, ...], plain: tuple[PortRange, ...]) -> tuple[PortRange, ...]:
        ports = intersect(self._ports, listed)
        if self._tunnel_ports != _EVERY_PORT:
            limited = intersect(ports, plain + self._tunnel_ports)
            if limited != ports:
                self._findings.note(WHOLE, "closes the ports, except 80, to which Squid lets plain HTTP pass alone")
            return limited
        if ports == _EVERY_PORT:
            note_web_ports(self._findings)
            return WEB_PORTS
        return ports

    def _rule(self, action: Action, tests: list[_Test]) -> Rule:
        reader = self._readers[action]
        names = reader.destinations(self._values(action, tests, AclKind.NAMES))
        cidrs = reader.networks(self._values(action, tests, AclKind.RANGES))
        ports = reader.ports(self._values(action, tests, AclKind.PORTS))
        return Rule(action, None, names.domains, names.addresses + cidrs, ports)

    def _values(self, action: Action, tests: list[_Test], kind: AclKind) -> list[tuple[SourcePlace, Any]]:
        values = []
        for place, value in (value for test in tests if test.acl.kind is kind for value in test.acl.values):
            if value.startswith(('"', "'", "parameters(")):
                self._findings.lost(place, action, shown(value.strip("\"'")), "is a file; write its lines in its place")
            else:
                values.append((place, value))
        return values


def _words(tests: list[_Test]) -> str:
    return ", ".join(shown(test.word) for test in tests)
