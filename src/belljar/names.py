"""One spelling for every name, address and port.

Sandboxes of this kind have been broken by two components that read the same host differently: one matches
``evil\\0.ok.com`` by its end, the other dials what stands before the NUL. So there is exactly one reader. What it
returns is what is matched, resolved, dialled, compared with a server name and logged; what it does not
understand, it refuses.

It accepts letters, digits and hyphens (IDNA 2008 names become their A-labels), IPv4 as four plain decimal
numbers, IPv6 without a zone. It guesses nothing: ``127.1``, ``0x7f000001`` and ``2130706433`` are neither
addresses nor names here, although the C library would dial 127.0.0.1 for each of them.
"""

import re
import unicodedata
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Host: TypeAlias = str | Address
"""A canonical name, or an address."""

MAX_NAME = 253
MAX_LABEL = 63

_REMEMBERED_NAMES = 1024  # the same few are read again and again, for every question and every connection

_LABEL = r"(?!-)[a-z0-9-]{1,63}+(?<!-)"
_PLAIN_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*+", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_DEVIATIONS = {0xDF: "ss", 0x3C2: "\u03c3"}  # sharp s; final sigma to sigma. Joiners are in no name that is read here.
_KELVIN_SIGN = "\u212a"  # the one character outside ASCII whose lower case is inside


class SpellingError(ValueError):
    """A name, address or port that is not spelled in the one way Belljar reads; the message says what is wrong."""


@lru_cache(_REMEMBERED_NAMES)
def canonical_name(text: str) -> str:
    """Return the one spelling of a host name: lower case, A-labels, no trailing dot.

    Raises SpellingError if the text is not a host name.
    """
    return read_name(text)


def read_name(text: str) -> str:
    """Do the same for one of many names, of which none is likely to be read again."""
    name = text.lower().removesuffix(".") if text.isascii() else _to_a_labels(text.removesuffix("."))
    if len(name) > MAX_NAME or not _PLAIN_NAME.fullmatch(name):
        raise SpellingError(_what_is_wrong(name))
    if _ends_in_number(name):
        raise SpellingError("ends in a number, so it would be taken for an IP address")
    if "xn--" in name:
        _check_a_labels(name)
    return name


def parse_address(text: str) -> Address:
    """Read an IP address, strictly: four decimal numbers, or IPv6 without a zone.

    Raises SpellingError for anything else.
    """
    if ":" not in text:
        return parse_ipv4(text)
    if "%" in text:
        raise SpellingError("has a zone id, which means something else on every machine")
    try:
        return IPv6Address(text)
    except ValueError:
        raise SpellingError("is not an IP address") from None


def parse_ipv4(text: str) -> IPv4Address:
    """Read four plain decimal numbers; no octal, hexadecimal, packed or short forms."""
    try:
        return IPv4Address(text)
    except ValueError:
        raise SpellingError("is not an IPv4 address of four plain decimal numbers") from None


def parse_port(text: str) -> int:
    """Read a port from 1 to 65535, in digits and without leading zeros."""
    if not _PORT.fullmatch(text) or (port := int(text)) > 65535:
        raise SpellingError(f"port {text!r} is not a number from 1 to 65535")
    return port


def parse_host(text: str) -> Host:
    """Read a name, an IPv4 address or an IPv6 address in brackets."""
    if text.startswith("["):
        inner = text[1:-1]
        if not text.endswith("]") or ":" not in inner:
            raise SpellingError("has brackets, which belong around a complete IPv6 address only")
        return parse_address(inner)
    if _ends_in_number(text):
        return parse_ipv4(text)
    return canonical_name(text)


def parse_authority(text: str) -> tuple[Host, int | None]:
    """Split ``host``, ``host:port``, ``address:port`` or ``[v6]:port``; the port is None where there is none."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return parse_host(text), None
    return parse_host(host), parse_port(port)


def _ends_in_number(text: str) -> bool:
    """Tell whether the C library could take a text for an IPv4 address."""
    last = text.rpartition(".")[2]
    return last[:1].isdigit() and _NUMBER.fullmatch(last) is not None


def older_spelling(name: str) -> str | None:
    """Return the A-labels by which clients of IDNA 2003 know the same text as a canonical name; None if the same ones.

    IDNA 2003 replaces some letters that IDNA 2008 has (UTS #46, 7): a policy that denies ``faß.example`` means what a
    browser dials and what Python dials, which is ``fass.example``.
    """
    if "xn--" not in name:
        return None
    labels = [label[4:].encode().decode("punycode") if label[:4] == "xn--" else label for label in name.split(".")]
    try:
        older = read_name(".".join(labels).translate(_DEVIATIONS))
    except SpellingError:
        return None
    return older if older != name else None


def _to_a_labels(text: str) -> str:
    # Imported here: the tables of idna cost 15 ms, and almost every name is ASCII.
    import idna  # noqa: PLC0415

    if _KELVIN_SIGN in text:
        raise SpellingError("contains the Kelvin sign, which is not the letter K")
    # Letter by letter, as clients do: `str.lower` makes another letter of a capital sigma at the end of a word.
    name = unicodedata.normalize("NFC", "".join(map(str.lower, text)))
    try:
        dialled = idna.uts46_remap(text, std3_rules=False)
        if dialled != name:
            raise SpellingError(f"is not a valid international name (clients take it for {dialled!r}; write that)")
        return ".".join(label if label.isascii() else idna.alabel(label).decode("ascii") for label in name.split("."))
    except (idna.IDNAError, UnicodeError) as error:
        raise SpellingError(f"is not a valid international name ({error})") from None


def _check_a_labels(name: str) -> None:
    """Refuse labels that pretend to be A-labels: those that no name could have been encoded to."""
    for label in name.split("."):
        if not label.startswith("xn--"):
            continue
        try:
            decoded = label[4:].encode("ascii").decode("punycode")
            genuine = (
                not decoded.isascii()
                and decoded.isprintable()
                and decoded == unicodedata.normalize("NFC", decoded.lower())
                and decoded.encode("punycode").decode("ascii") == label[4:]
            )
        except UnicodeError:
            genuine = False
        if not genuine:
            raise SpellingError(f"label {label!r} is not a valid international name")


def _what_is_wrong(name: str) -> str:
    """Say why a name that did not match is not one."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME:
        return f"is {len(name)} characters long, and a name has at most {MAX_NAME}"
    for character in name:
        if not (character.isascii() and (character.isalnum() or character in "-.")):
            return f"contains {_describe(character)}; a name has letters, digits, hyphens and dots only"
    for label in name.split("."):
        if not label:
            return "has an empty label (two dots in a row, or one in front)"
        if len(label) > MAX_LABEL:
            return f"has a label of {len(label)} characters, and a label has at most {MAX_LABEL}"
    return "has a label that begins or ends with a hyphen"


def _describe(character: str) -> str:
    if character == " ":
        return "a space"
    if not character.isprintable():
        return f"the control character U+{ord(character):04X}"
    return repr(character)
