"""Events and denials as lines, for people and for programs."""

import json
from typing import TYPE_CHECKING

import click

from belljar.errors import printable

if TYPE_CHECKING:
    from belljar.client import Denial, Event

_COLOURS = {"flow.denied": "red", "dns.denied": "red", "flow.allowed": "green", "policy.changed": "yellow"}


def event_line(event: "Event") -> str:
    """Return an event for a person: when, what, and what it says, the sentence at the end."""
    told = {name: value for name, value in event.fields.items() if name != "digest" and value not in (None, [], "")}
    sentence = told.pop("sentence", "")
    words = [f"{name}={_value(value)}" for name, value in told.items()]
    kind = click.style(f"{event.event:<14}", fg=_COLOURS.get(event.event))
    return " ".join(
        filter(
            None, (f"{event.time.astimezone():%H:%M:%S.%f}"[:-3], kind, printable(" ".join(words)), printable(sentence))
        )
    )


def event_json(event: "Event") -> str:
    """Return an event for a program."""
    told = {"id": event.id, "time": event.time.isoformat(), "event": event.event, "sandbox": event.sandbox}
    return json.dumps(told | dict(event.fields))


def denial_line(denial: "Denial") -> str:
    """Return a denial for a person: when, of which sandbox, what and why."""
    where = click.style(printable(f"{denial.protocol} {denial.destination}"), fg="red")
    return f"{denial.time.astimezone():%H:%M:%S} {denial.sandbox} {where}  {printable(why(denial))}"


def why(denial: "Denial") -> str:
    """Return the reason of a denial, in words and as the policy has it."""
    return f"{denial.sentence} ({', '.join(filter(None, (denial.reason, denial.rule)))})"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
