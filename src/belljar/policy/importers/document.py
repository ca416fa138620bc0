"""Mappings of a source document, read in either spelling of their keys and accounted for to the last key.

A key that nobody reads might be a denial, so it is not passed over: `close` refuses it.
"""

from typing import Any

from belljar.policy.importers.findings import Findings, SourcePlace, shown
from belljar.policy.language.reading import snake_case


class Section:
    """One mapping, by the snake_case spelling of its keys."""

    def __init__(self, place: SourcePlace, value: object, findings: Findings) -> None:
        self.place = place
        self._findings = findings
        self._spelled: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._unread: dict[str, None] = {}
        if not isinstance(value, dict):
            findings.refuse(place, f"is {shown(value)}, not a mapping of keys")
            return
        for key, below in value.items():
            self._add(key, snake_case(key), below)

    def _add(self, key: str, snake: str, value: object) -> None:
        if snake in self._values:
            self._findings.refuse(
                self.place, f"has {shown(key)} twice, as {self._spelled[snake]} too; keep one of them"
            )
        self._spelled[snake], self._values[snake], self._unread[snake] = key, value, None

    def at(self, key: str) -> SourcePlace:
        """Return the place of a key, as the source spells it."""
        spelled = self._spelled.get(key, key)
        return SourcePlace(f"{self.place.where}.{spelled}" if self.place.where else spelled)

    def get(self, key: str) -> Any:
        """Return a value; None where there is none."""
        self._unread.pop(key, None)
        return self._values.get(key)

    def section(self, key: str) -> "Section":
        """Return the mapping under a key; an empty one where there is none."""
        value = self.get(key)
        return Section(self.at(key), {} if value is None else value, self._findings)

    def items(self, key: str) -> list[tuple[SourcePlace, Any]]:
        """Return the items of the list under a key, each with its place; none where there is no list."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._findings.refuse(self.at(key), f"is {shown(value)}; write a list")
            return []
        where = self.at(key).where
        return [(SourcePlace(f"{where}[{index}]"), item) for index, item in enumerate(value)]

    def leave(self, key: str, why: str) -> None:
        """Note that something is not carried over, if it is there and says anything."""
        if self.get(key):
            self._findings.note(self.at(key), f"was left out: {why}")

    def unread(self) -> list[str]:
        """Return the keys that nobody asked for, as the source spells them."""
        return [self._spelled[key] for key in self._unread]

    def close(self) -> None:
        """Refuse what nobody asked for."""
        for key in self.unread():
            self._findings.refuse(
                self.place,
                f"has the unknown key {shown(key)}, which might deny something; delete it if it does not",
            )
