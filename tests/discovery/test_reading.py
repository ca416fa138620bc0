"""Documents that people wrote, and documents that are not what they should be."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.discovery.reading import parse_json, parse_toml, parse_xml, strings_of, table_of
from belljar.discovery.running import NoAnswerError

BOMB = b"""<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>"""
EXTERNAL = b"""<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>"""


@pytest.mark.parametrize(
    "document",
    [BOMB, EXTERNAL, b"<!DOCTYPE x SYSTEM 'http://192.0.2.1/x'><x/>", b"<x>", b"", b"\x00", b"<x/><y/>", b"<x>&a;</x>",
     b"<?xml version='1.0' encoding='no-such'?><x/>"],
    ids=["bomb", "external entity", "external type", "open", "empty", "NUL", "two roots", "entity", "encoding"],
)  # fmt: skip
def test_xml_that_is_refused(document):
    with pytest.raises(NoAnswerError, match=r"^the file is not valid XML$"):
        parse_xml(document, "the file")


def test_xml_with_a_default_namespace_is_read_by_its_plain_names():
    tree = parse_xml(b'<s xmlns="urn:x"><!-- no --><a>1&amp;<![CDATA[<2>]]></a></s>', "the file")
    assert tree.findtext("a") == "1&<2>"


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, b"\xff"])
def test_json_that_is_refused(text):
    with pytest.raises(NoAnswerError, match=r"^the answer is not the JSON it should be$"):
        parse_json(text, "the answer")


@pytest.mark.parametrize("data", [b"= 1", b"\xff", b"a = 1\na = 2", b"a = " + b"[" * 100_000])
def test_toml_that_is_refused(data):
    with pytest.raises(NoAnswerError, match=r"^the file is not valid TOML$"):
        parse_toml(data, "the file")


@given(st.binary())
def test_arbitrary_bytes_are_read_or_refused(data):
    for parse in (parse_json, parse_toml, parse_xml):
        with suppress(NoAnswerError):
            parse(data, "it")


def test_values_of_unexpected_types_are_empty():
    assert table_of(["x"]) == {}
    assert parse_json("[1]", "it") == {}
    assert strings_of({"x": 1}) == []
    assert strings_of(["a", 1, None, "b"]) == ["a", "b"]
    assert strings_of("a") == ["a"]
