"""Amounts of memory as people write them."""

import pytest

from belljar.amounts import AmountError, parse_memory, written_memory


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8g", 8 << 30),
        ("512m", 512 << 20),
        ("1.5G", 3 << 29),
        ("4 MiB", 4 << 20),
        ("8192kb", 8 << 20),
        ("4194304", 4 << 20),
    ],
)
def test_an_amount_is_read(text, amount):
    assert parse_memory(text) == amount


@pytest.mark.parametrize(
    "text", ["", "g", "-1g", "1e3g", "８g", "8gg", "8", "1k", "9" * 400, "9" * 400 + "g", "99999999t"]
)
def test_what_is_no_amount_is_refused_with_an_example(text):
    with pytest.raises(AmountError, match=r"512m"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("amount", "text"), [(8 << 30, "8g"), (3 << 29, "1536m"), (5000001, "5000001"), (1 << 40, "1t")]
)
def test_an_amount_is_written_as_it_is_read(amount, text):
    assert written_memory(amount) == text
    assert parse_memory(text) == amount
