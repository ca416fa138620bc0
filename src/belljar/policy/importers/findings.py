"""What an import has to report, and the rule that every importer keeps.

An imported policy is never more open than its source. So what *grants* and cannot be said here is left out, with a
note; what *denies* and cannot be said here is said more broadly, with a note, or else the import is refused.
"""

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from belljar.policy.language.problems import InvalidPolicyError, Problem
from belljar.policy.model import Action, Policy

_MAX_SHOWN: Final = 100


class SourcePlace(NamedTuple):
    """Where in the source something stands."""

    where: str
    line: int | None = None


WHOLE: Final = SourcePlace("")
"""The source, or the policy made of it, as a whole."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A policy, the format it came from, and what was left out or changed on the way."""

    source: str
    policy: Policy
    notes: tuple[Problem, ...]


class Findings:
    """Collects what is to be reported, so that everything is reported at once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._notes: dict[Problem, None] = {}
        self._refusals: dict[Problem, None] = {}

    def note(self, place: SourcePlace, message: str) -> None:
        """Report what was left out or changed."""
        self._notes[Problem(place.where, message, place.line)] = None

    def refuse(self, place: SourcePlace, message: str) -> None:
        """Report a reason to make no policy at all."""
        self._refusals[Problem(place.where, message, place.line)] = None

    def lost(self, place: SourcePlace, action: Action, what: str, why: str) -> None:
        """Report what cannot be carried over; whether that is a note or a refusal follows from its action."""
        if action is Action.ALLOW:
            self.note(place, f"{what} was left out: it {why}")
        else:
            self.refuse(place, f"{what} denies what could not be denied here: it {why}")

    def imported(self, policy: Policy) -> Imported:
        """Return the result. Raises InvalidPolicyError if there is a reason to refuse."""
        if self._refusals:
            raise InvalidPolicyError(self._refusals)
        return Imported(self.source, policy, tuple(self._notes))


def shown(value: object) -> str:
    """Show something of the source in ASCII on one line, whatever it holds."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
