"""Read what the files of tools say: JSON, TOML, XML and plain lines of bounded size, or NoAnswerError."""

import json
import tomllib
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from belljar.discovery.running import NoAnswerError


def parse_json(text: str | bytes, source: str) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        return table_of(json.loads(text))
    except (ValueError, RecursionError):
        raise NoAnswerError(f"{source} is not the JSON it should be") from None


def parse_toml(data: bytes, source: str) -> dict[str, Any]:
    """Read a TOML document."""
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        raise NoAnswerError(f"{source} is not valid TOML") from None


def parse_xml(data: bytes, source: str) -> Element:
    """Read an XML document that declares no entities, so that none can be fetched or multiplied."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(data, True)  # noqa: FBT003 - expat takes no keywords
    except (expat.ExpatError, ValueError, LookupError):
        raise NoAnswerError(f"{source} is not valid XML") from None
    return builder.close()


def parse_lines(text: str) -> dict[str, str]:
    """Read ``name = value`` lines. Comments, and what is no such line, say nothing."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def table_of(value: object) -> dict[str, Any]:
    """Return a table as it is, and an empty one in the place of anything else."""
    return value if isinstance(value, dict) else {}


def strings_of(value: object) -> list[str]:
    """Return the string, or the strings of a list."""
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]


def _refuse_doctype(*_: object) -> NoReturn:
    raise ValueError("a document type declaration")
