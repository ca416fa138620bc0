#!/bin/sh
cat >roman.py <<'END'
"""Roman numerals from 1 to 3999."""

STEPS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]


def to_roman(number: int) -> str:
    """Return a number in Roman numerals. Raises ValueError outside of 1 to 3999."""
    if not 1 <= number <= 3999:
        raise ValueError(f"{number} has no Roman numeral")
    text = ""
    for value, numeral in STEPS:
        text += numeral * (number // value)
        number %= value
    return text


def from_roman(text: str) -> int:
    """Return the number that Roman numerals mean. Raises ValueError for what `to_roman` would not write."""
    number, rest = 0, text
    for value, numeral in STEPS:
        while rest.startswith(numeral):
            number += value
            rest = rest.removeprefix(numeral)
    if rest or to_roman(number) != text:
        raise ValueError(f"{text!r} is no Roman numeral")
    return number
END
