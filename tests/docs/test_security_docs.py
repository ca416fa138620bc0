"""SECURITY.md names tests for every way out that is known, and these tests exist."""

import re

import pytest

from tests.docs.test_docs import ROOT, section

TESTS = re.findall(r"`(tests/[^`]+\.py)(?:::(\w+))?`", section("SECURITY.md", "Known ways out"))


def test_there_are_some():
    assert len(TESTS) > 30


@pytest.mark.parametrize(("path", "name"), TESTS, ids=[name or path for path, name in TESTS])
def test_what_is_named_exists(path, name):
    text = (ROOT / path).read_text()
    assert f"def {name or 'test_'}" in text
