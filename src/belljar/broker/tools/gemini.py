"""Requests to Gemini, whose names may be written with humps or with underscores."""

from collections.abc import Iterable
from typing import Any

from belljar.broker.tools.facts import GEMINI_FIELDS, GEMINI_PARTS, GEMINI_TOOLS
from belljar.broker.tools.reading import items, mapping, only, refuse, shown


def judge(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises Refused."""
    fields = _plain(request)
    only(fields, GEMINI_FIELDS, "the field")
    for tool in _listed(fields.get("tools"), "tools"):
        only(_plain(tool), GEMINI_TOOLS, "the tool")
    for name in ("contents", "content", "systeminstruction"):
        for content in _listed(fields.get(name), name):
            for part in _listed(_plain(content).get("parts"), "parts"):
                _part(_plain(part))
    if (within := fields.get("generatecontentrequest")) is not None:
        judge(mapping(within, "generateContentRequest"))


def _part(part: dict[str, Any]) -> None:
    only(part, GEMINI_PARTS, "a part with")
    answer = part.get("functionresponse")
    if isinstance(answer, dict):
        for inner in _listed(_plain(answer).get("parts"), "parts"):
            _part(_plain(inner))


def _listed(value: Any, where: str) -> Iterable[dict[str, Any]]:
    """Return the objects of an array, or the one that stands for it: some fields may be written so."""
    return items([value] if isinstance(value, dict) else value, where)


def _plain(names: dict[str, Any]) -> dict[str, Any]:
    """Return an object by names without humps and underscores, of which no two may be the same then."""
    found = dict[str, Any]()
    for name, value in names.items():
        plain = name.replace("_", "").casefold()
        if plain in found:
            raise refuse(f"the field {shown(name)} twice, in two spellings")
        found[plain] = value
    return found
