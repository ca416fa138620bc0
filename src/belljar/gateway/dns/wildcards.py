"""How many different names a sandbox may use under each wildcard: a name under somebody's zone can carry data to them.

What counts is the wildcard, not the entry that wrote it: moving or renaming entries gives no fresh budget. Names that
are granted one by one are not counted, and neither is anything where every name is open anyway.
"""

from collections import Counter

from belljar.policy import CompiledPolicy, Verdict, question


class WildcardBudget:
    """The names that one sandbox has used under wildcards."""

    def __init__(self, names_per_wildcard: int) -> None:
        self._most = names_per_wildcard
        self._counted: set[str] = set()
        self._per_zone: Counter[str] = Counter()
        self._policy: CompiledPolicy | None = None
        self._uncounted: set[str] = set()
        """Names that the policy at hand grants one by one; there are no more of them than it has entries."""

    def admits(self, policy: CompiledPolicy, verdict: Verdict) -> bool:
        """Tell whether a name that the policy allows may be used, and remember it."""
        name = verdict.flow.name
        if name is None or not policy.counts_names:
            return True
        if policy is not self._policy:
            self._policy = policy
            self._uncounted.clear()
        if name in self._counted or name in self._uncounted:
            return True
        zone = _wildcard_zone(policy, name, verdict.rule)
        if zone is None:
            self._uncounted.add(name)
            return True
        return zone == "" or self._count(zone, name)

    def _count(self, zone: str, name: str) -> bool:
        if self._per_zone[zone] >= self._most:
            return False
        self._per_zone[zone] += 1
        self._counted.add(name)
        return True


def _wildcard_zone(policy: CompiledPolicy, name: str, rule: str | None) -> str | None:
    """Return the zone in which a rule grants every name, "" if it grants all there are, None if just this one.

    The policy itself is asked, for a name that nothing can have an entry of its own: an asterisk. From the top down,
    so that the cost depends on the zone, which the policy's author chose, and not on the depth of the name below it.
    """
    labels = name.split(".")
    for start in range(len(labels), 0, -1):
        anything = policy.decide(question(".".join(["*", *labels[start:]])))
        if anything.allowed and anything.rule == rule:
            return ".".join(labels[start:])
    return None
