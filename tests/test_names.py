"""One spelling for every name, address and port: what is read, and above all what is not."""

import re
import socket
import unicodedata
from ipaddress import IPv4Address, IPv6Address

import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.names import (
    MAX_NAME,
    SpellingError,
    canonical_name,
    older_spelling,
    parse_address,
    parse_authority,
    parse_host,
    parse_ipv4,
    parse_port,
)
from tests.policy.strategies import addresses, canonical_names, unhurried

LABEL_63 = "a" * 63
NAME_253 = ".".join([LABEL_63, LABEL_63, LABEL_63, "b" * 61])


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("api.example.org", "api.example.org"),
        ("API.Example.ORG", "api.example.org"),
        ("api.example.org.", "api.example.org"),
        ("localhost", "localhost"),
        ("a", "a"),
        ("1password.com", "1password.com"),
        ("3.example", "3.example"),
        ("0x7f.example", "0x7f.example"),
        ("127.0.0.1.nip.example", "127.0.0.1.nip.example"),
        ("a--b.example", "a--b.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.Example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("bücher.example.", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("ΝΕΟΣ-ΚΟΣΜΟΣ.example", "xn----6lbqibncb5adc.example"),
        ("νεοσ-κοσμοσ.example", "xn----6lbqibncb5adc.example"),
        ("νεος.example", "xn--qxaphm.example"),
        ("пример.example", "xn--e1afmkfd.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        (f"{LABEL_63}.example", f"{LABEL_63}.example"),
        (NAME_253, NAME_253),
        (f"{NAME_253}.", NAME_253),
    ],
)
def test_canonical_spelling(written, canonical):
    assert canonical_name(written) == canonical
    assert parse_host(written) == canonical
    assert parse_authority(f"{written}:443") == (canonical, 443)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "is empty"),
        (".", "is empty"),
        ("..", "empty label"),
        ("a..example", "empty label"),
        (".example", "empty label"),
        ("example..", "empty label"),
        ("-a.example", "hyphen"),
        ("a-.example", "hyphen"),
        ("a.-", "hyphen"),
        (f"{LABEL_63}a.example", "label of 64"),
        (f"{NAME_253}c", "254 characters"),
        ("a" * 100_000, "100000 characters"),
        ("evil\0.ok.example", "U+0000"),
        ("ok.example\r\nX: y", "U+000D"),
        ("ok.example\n", "U+000A"),
        ("\tok.example", "U+0009"),
        ("ok\x7f.example", "U+007F"),
        (" ok.example", "a space"),
        ("ok.example ", "a space"),
        ("evil%00.ok.example", "'%'"),
        ("%65xample.org", "'%'"),
        ("ok.example:443@evil.example", "':'"),
        ("user@ok.example", "'@'"),
        ("[ok.example]", "'['"),
        ("ok.example/path", "'/'"),
        ("ok.example\\@evil.example", "contains"),
        ("_dmarc.ok.example", "'_'"),
        ("*.ok.example", "'*'"),
        ("ok.example,evil.example", "','"),
        ("1.2.3.4", "ends in a number"),
        ("1.2.3.4.", "ends in a number"),
        ("evil.1", "ends in a number"),
        ("evil.0x1", "ends in a number"),
        ("evil.0X", "ends in a number"),
        ("2130706433", "ends in a number"),
        ("ok。example", "not a valid international name"),
        ("ok．example", "not a valid international name"),
        ("ok｡example", "not a valid international name"),
        ("ok\u00ad.example", "not a valid international name"),
        ("ok\u200b.example", "not a valid international name"),
        ("ok\u200d.example", "not a valid international name"),
        ("\ufeffok.example", "not a valid international name"),
        ("ｏk.example", "not a valid international name"),
        ("ⓞk.example", "not a valid international name"),
        ("\U0001d428k.example", "not a valid international name"),
        ("ok\ud800.example", "not a valid international name"),
        ("xn--ü.example", "not a valid international name"),
        ("xn--.example", "hyphen"),
        ("xn--a.example", "not a valid international name"),
        ("xn--ok-.example", "hyphen"),
        ("xn--a-.example", "hyphen"),
        ("xn--99999999.example", "not a valid international name"),
        (f"{'ü' * 60}.example", "not a valid international name"),
        ("ü." * 60 + "example", "characters long"),
    ],
)
def test_what_is_not_a_name(written, problem):
    with pytest.raises(SpellingError, match=re.escape(problem)):
        canonical_name(written)


LDH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")


@pytest.mark.parametrize("place", ["{}ok.example", "o{}k.example", "ok{}.example", "ok.exa{}mple", "ok.example{}"])
def test_no_ascii_character_but_letters_digits_hyphens_and_dots_is_read(place):
    for character in set(map(chr, range(128))) - LDH:
        with pytest.raises(SpellingError):
            canonical_name(place.format(character))


def test_no_other_character_is_taken_for_an_ascii_one():
    """Folding (K for the Kelvin sign, full-width and mathematical letters) is how one name passes for another."""

    def looks_ascii(character):
        folded = unicodedata.normalize("NFKC", character)
        return any(form.isascii() for form in (folded, folded.lower(), folded.casefold(), character.lower()))

    for character in filter(looks_ascii, map(chr, range(128, 0x110000))):
        try:
            read = canonical_name(f"o{character}k.example")
        except SpellingError:
            continue
        assert read.startswith("xn--"), f"U+{ord(character):04X} was read as {read}"


@unhurried
@given(st.text(max_size=80) | st.text(alphabet="aB-.ü\u0308ßσΣ0x1\0\u3002n", max_size=20))
def test_any_text_is_refused_or_becomes_its_one_spelling(text):
    try:
        name = canonical_name(text)
    except SpellingError as error:
        assert str(error)
        return
    assert re.fullmatch(r"(?=.{1,253}\Z)(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", name, re.ASCII)
    assert canonical_name(name) == name
    assert canonical_name(f"{name}.") == name
    assert canonical_name(name.upper()) == name
    with pytest.raises(OSError, match="illegal"):
        socket.inet_aton(name)


@unhurried
@given(canonical_names())
def test_canonical_names_stay_as_they_are(name):
    assert canonical_name(name) == name
    assert parse_authority(name) == (name, None)


@unhurried
@given(st.lists(st.text(alphabet="aäbcdöeéñо例え", min_size=1, max_size=9), min_size=1, max_size=4).map(".".join))
def test_international_names_agree_with_the_standard_library(name):
    """For these letters IDNA 2003, which the standard library has, and IDNA 2008 say the same."""
    assert canonical_name(f"{name}.example") == f"{name}.example".encode("idna").decode("ascii")


@unhurried
@given(st.text(alphabet=[*map(chr, range(128))], max_size=20) | st.from_regex(r"[A-Za-z0-9.-]{1,30}", fullmatch=True))
def test_ascii_names_are_lower_case_and_nothing_else(text):
    try:
        name = canonical_name(text)
    except SpellingError:
        return
    assert name == text.lower().removesuffix(".")


INTERNATIONAL = "aZ-.üÜßẞςσΣάΆıİǅﬁＡａ。\u0308\u00ad\u200c\u200d\u212aдДאا例え"


@unhurried
@given(st.text(max_size=20) | st.text(alphabet=INTERNATIONAL, max_size=12))
def test_an_international_name_is_the_one_that_clients_dial(text):
    try:
        name = canonical_name(text)
    except SpellingError:
        return
    assert name == idna.encode(text, uts46=True).decode().removesuffix(".")


@pytest.mark.parametrize(
    ("text", "older"),
    [
        ("faß.example", "fass.example"),
        ("ΝΕΟΣ.νεος.example", "xn--qxaphq.xn--qxaphq.example"),
        ("fass.example", None),
        ("bücher.example", None),
        (f"{'ü' * 30}ß.example", f"{'ü' * 30}ss.example"),
        (f"{'ß' * 32}.example", None),
    ],
)
def test_the_spelling_of_older_clients(text, older):
    expected = older if older is None else canonical_name(older)
    assert older_spelling(canonical_name(text)) == expected
    if older is not None:
        assert text.encode("idna").decode() == expected


def test_long_names_are_refused_by_their_encoded_length():
    name = ".".join(["ü" * 20] * 11)
    assert len(name) <= MAX_NAME
    with pytest.raises(SpellingError, match="characters long"):
        canonical_name(name)


OTHER_SPELLINGS_OF_ADDRESSES = [
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0X7F000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "127.0.0.01",
    "127.0.0.0x1",
    "2852039166",
    "0xA9FEA9FE",
    "0251.0376.0251.0376",
    "169.254.43518",
    "1.2.3.4 ",
    " 1.2.3.4",
    "1.2.3.4\n",
    "1.2.3.4.",
    "1.2.3.4%eth0",
    "1.2.3.4/32",
    "256.0.0.1",
    "-1.0.0.1",
    "+1.0.0.1",
    "1.2.3",
    "1.2.3.4.5",
    "1..2.3",
    "١.٢.٣.٤",
    "１２７.0.0.1",
    "1.2.3.４",
    "",
]


@pytest.mark.parametrize("text", OTHER_SPELLINGS_OF_ADDRESSES)
@pytest.mark.parametrize("read", [canonical_name, parse_ipv4, parse_address, parse_host, parse_authority])
def test_no_reader_takes_another_spelling_of_an_address(read, text):
    with pytest.raises(SpellingError):
        read(text)


number = st.integers(0, 2**32 - 1)
part = st.one_of(*(number.map(form.format) for form in ("{:d}", "0{:o}", "0x{:x}", "0X{:X}", "00{:d}")))
tail = st.sampled_from(["", ".", " ", "\t", "\n", " x"])


@unhurried
@given(st.lists(part, min_size=1, max_size=5).map(".".join), tail)
def test_what_the_c_library_would_dial_is_an_address_in_plain_spelling_or_nothing(text, tail):
    try:
        dialled = IPv4Address(socket.inet_aton(text + tail))
    except OSError:
        dialled = None
    try:
        read = parse_host(text + tail)
    except SpellingError:
        return
    assert read == dialled
    assert str(read) == text + tail


@unhurried
@given(addresses())
def test_every_address_is_read_back(address):
    assert parse_address(str(address)) == address
    assert parse_address(str(address.exploded)) == address
    shown = f"[{address}]" if address.version == 6 else str(address)
    assert parse_host(shown) == address
    assert parse_authority(shown) == (address, None)
    assert parse_authority(f"{shown}:65535") == (address, 65535)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("::1", "::1"),
        ("2001:DB8::A", "2001:db8::a"),
        ("2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"),
        ("::ffff:127.0.0.1", "::ffff:7f00:1"),
        ("64:ff9b::8.8.8.8", "64:ff9b::808:808"),
    ],
)
def test_ipv6_in_all_its_spellings(text, address):
    assert parse_address(text) == IPv6Address(address)


@pytest.mark.parametrize(
    "text",
    [
        ":",
        ":::",
        "::1::",
        "fe80::1%eth0",
        "fe80::1%25eth0",
        "::1%",
        "[::1]",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "12345::",
        "::g",
        "::ffff:127.0.0.01",
        "::ffff:127.1",
        "::ffff:0x7f.0.0.1",
        "::1/128",
        "::1 ",
        "::１",
    ],
)
def test_what_is_not_an_ipv6_address(text):
    with pytest.raises(SpellingError):
        parse_address(text)
    with pytest.raises(SpellingError):
        parse_host(f"[{text}]")


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "]",
        "[]",
        "[ok.example]",
        "[1.2.3.4]",
        "[::1",
        "::1]",
        "::1",
        "[[::1]]",
        "[::1]x",
        "[fe80::1%eth0]",
        "[v1.fe80::a]",
    ],
)
def test_brackets_belong_around_ipv6_and_nothing_else(text):
    with pytest.raises(SpellingError):
        parse_host(text)


@pytest.mark.parametrize(("text", "port"), [("1", 1), ("80", 80), ("443", 443), ("65535", 65535)])
def test_ports(text, port):
    assert parse_port(text) == port


@pytest.mark.parametrize(
    "text",
    [
        *[
            "0",
            "65536",
            "99999",
            "100000",
            "080",
            "00",
            "-1",
            "+1",
            "8e1",
            "0x50",
            "http",
            "4_43",
            "４４３",
            "٤٤٣",
            "²",
        ],
        "",
        " 80",
        "80 ",
        "80\n",
        "9" * 5000,
    ],
)
def test_what_is_not_a_port(text):
    with pytest.raises(SpellingError, match="1 to 65535"):
        parse_port(text)
    with pytest.raises(SpellingError):
        parse_authority(f"ok.example:{text}")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("ok.example", "ok.example", None),
        ("OK.example.:443", "ok.example", 443),
        ("bücher.example:80", "xn--bcher-kva.example", 80),
        ("192.0.2.1", IPv4Address("192.0.2.1"), None),
        ("192.0.2.1:8080", IPv4Address("192.0.2.1"), 8080),
        ("[2001:db8::1]", IPv6Address("2001:db8::1"), None),
        ("[2001:db8::1]:22", IPv6Address("2001:db8::1"), 22),
    ],
)
def test_authorities(text, host, port):
    assert parse_authority(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        ":443",
        "ok.example:",
        "ok.example:443:443",
        "ok.example:443@evil.example",
        "evil.example@ok.example:443",
        "2001:db8::1",
        "2001:db8::1:443",
        "::1:443",
        "[::1]443",
        "[::1]:",
        "[::1]:0",
        "[::1]:443]",
        "127.1:443",
        "2130706433:80",
        "ok.example:443/",
        "ok.example :443",
        "ok.example: 443",
        "ok.example:443\r\nHost: evil.example",
    ],
)
def test_what_is_not_an_authority(text):
    with pytest.raises(SpellingError):
        parse_authority(text)


@unhurried
@given(st.text(max_size=40) | st.text(alphabet="a1.:[]%@0x-", max_size=15))
def test_readers_raise_nothing_but_spelling_errors(text):
    for read in (canonical_name, parse_ipv4, parse_address, parse_host, parse_authority, parse_port):
        try:
            read(text)
        except SpellingError as error:
            assert str(error).isprintable(), "a message reaches a terminal"
