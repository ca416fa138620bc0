"""Forms of requests: which fields each object may have, and what each field may hold.

Theory of operation
-------------------
A form checks one value, and raises RefusedRequest for anything that it does not know. Forms are composed into one for
each API, so there is no place in a request that nothing looks at: in objects of which the fields are known, one that a
provider adds tomorrow is refused by its name, at any depth. Three forms accept names that are not known:

- `anything`: what the client's own tools have written. The provider passes it to the model as text.
- `schema`: a JSON schema, in which references lead to the schema itself only.
- `settings`: options without content. Names and texts by which something could be fetched or called are refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from re import Pattern
from typing import Any, Final

from belljar.broker.tools.reading import items, kind_of, mapping, refuse, shown

Form = Callable[[Any, str], None]
"""Checks a value. The text says where it is, for the message."""

Spelling = Callable[[dict[str, Any]], dict[str, Any]]
"""Brings the names of an object into the spelling that its form has."""

_FETCHES: Final = frozenset(
    (
        "url", "urls", "uri", "uris", "href", "file", "files", "server", "servers", "plugin", "plugins", "connector",
        "connectors", "mcp", "webhook", "webhooks", "fetch", "browser", "search",
    )
)  # fmt: skip
"""Words of a name. Names are as long as a sandbox likes, so they are split and not searched by a pattern."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REFERENCES: Final = frozenset({"$ref", "$dynamicref", "$recursiveref"})


def plain(value: Any, where: str) -> None:
    """Accept a text, a number, or an array of them."""
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, dict | list):
            raise refuse(f"more than a text or a number as {where}")


def nothing(value: Any, where: str) -> None:
    """Accept a field that is not used: clients return what they have received, with all of its fields."""
    if value is not None and value not in ([], {}):
        raise refuse(f"a value of {where}")


def anything(_value: Any, _where: str) -> None:
    """Accept whatever the client's own tools have written."""


def schema(value: Any, where: str) -> None:
    """Accept a JSON schema whose references lead nowhere else."""
    for each in _within(value):
        for name, inner in each.items() if isinstance(each, dict) else ():
            if isinstance(inner, str) and name.casefold() in _REFERENCES and not inner.startswith("#"):
                raise refuse(f"the reference {shown(inner)} in {where}, which leads out of the schema")


def settings(value: Any, where: str) -> None:
    """Accept options of any depth that name nothing to be fetched or called."""
    for each in _within(value):
        for name in each if isinstance(each, dict) else ():
            if not _FETCHES.isdisjoint(_HUMP.sub("_", name).replace("-", "_").casefold().split("_")):
                raise refuse(f"the field {shown(name)} in {where}")
        if isinstance(each, str) and "://" in each:
            raise refuse(f"the URL {shown(each)} in {where}")


def _within(value: Any) -> Iterator[Any]:
    """Yield a value and everything in it."""
    left = [value]
    while left:
        each = left.pop()
        yield each
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each.values()


def labels(value: Any, where: str) -> None:
    """Accept an object of any names, each with a text or a number."""
    for name, each in (mapping(value, where) if value is not None else {}).items():
        plain(each, f"{where}.{shown(name)}")


def object_of(fields: Mapping[str, Form], spelled: Spelling | None = None) -> Form:
    """Return the form of an object that has no other fields than these."""

    def check(value: Any, where: str) -> None:
        if value is None:
            return
        found = mapping(value, where or "the request")
        for name, each in (spelled(found) if spelled else found).items():
            form = fields.get(name)
            if form is None:
                raise refuse(f"the field {shown(name)}" + (f" in {where}" if where else ""))
            form(each, f"{where}.{name}" if where else name)

    return check


def array_of(form: Form) -> Form:
    """Return the form of an array of objects; there may be none."""

    def check(value: Any, where: str) -> None:
        for each in items(value, where):
            form(each, where)

    return check


def text_or(form: Form) -> Form:
    """Return the form of a text, or of something else in its place."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            form(value, where)

    return check


def typed(
    forms: Mapping[str, Form], *, usual: str | None = None, others: tuple[Pattern[str], Form] | None = None
) -> Form:
    """Return the form of an object that is one of several, by its type."""

    def check(value: Any, where: str) -> None:
        kind = kind_of(mapping(value, where), usual)
        form = forms.get(kind or "")
        if form is None and others is not None and others[0].fullmatch(kind or ""):
            form = others[1]
        if form is None:
            raise refuse(f"the type {shown(kind)} in {where}")
        form(value, where)

    return check


def each(names: str, form: Form) -> dict[str, Form]:
    """Return a form for each of several names."""
    return dict.fromkeys(names.split(), form)


def plain_fields(names: str) -> dict[str, Form]:
    """Return fields that hold a text, a number, or an array of them."""
    return each(names, plain)
