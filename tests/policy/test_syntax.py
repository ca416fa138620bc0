"""YAML, JSON and TOML as plain data: the same strict reading of each, and no surprises."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belljar.policy import InvalidPolicyError, Mode, Policy, Syntax, guess_syntax, read_policy
from belljar.policy.language.reading import MAX_DEPTH, UnreadableError, snake_case
from belljar.policy.language.syntax import read_text
from belljar.policy.model import DomainPattern, Egress, PortRange
from tests.policy.documents import problems, read, shown
from tests.policy.strategies import unhurried

EXAMPLE = Policy(
    Mode.BLOCK_ALL,
    Egress(allowed_domains=(DomainPattern("a.example"),), allowed_ports=(PortRange(443, 443), PortRange(1, 2))),
    allow_private=True,
)
EXAMPLE_YAML = """\
mode: block-all
egress:
  allowed_domains: [a.example]
  allowed_ports:
    - 443
    - 1-2
allow_private: true
"""
EXAMPLE_JSON = """\
{"mode": "block-all",
 "egress": {"allowed_domains": ["a.example"], "allowed_ports": [443, "1-2"]},
 "allow_private": true}
"""
EXAMPLE_TOML = """\
mode = "block-all"
allow_private = true
[egress]
allowed_domains = ["a.example"]
allowed_ports = [443, "1-2"]
"""


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        (Syntax.YAML, EXAMPLE_YAML),
        (Syntax.YAML, EXAMPLE_JSON),
        (Syntax.JSON, EXAMPLE_JSON),
        (Syntax.TOML, EXAMPLE_TOML),
    ],
    ids=["yaml", "json as yaml", "json", "toml"],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "bom"])
def test_the_three_syntaxes_say_the_same(syntax, text, line_end, mark):
    assert read(mark + text.replace("\n", line_end), syntax) == EXAMPLE


@pytest.mark.parametrize(
    ("text", "file_name", "syntax"),
    [
        ("", "policy.yaml", Syntax.YAML),
        ("", "policy.yml", Syntax.YAML),
        ("", "POLICY.JSON", Syntax.JSON),
        ("mode: block-all", "policy.toml", Syntax.TOML),
        ("{}", "", Syntax.JSON),
        ('\n  {"mode": 1}', "policy", Syntax.JSON),
        ('mode = "block-all"', "", Syntax.TOML),
        ('mode = "block-all"', "policy.txt", Syntax.TOML),
        ("mode: block-all", "", Syntax.YAML),
        ("mode: block-all", "a.d/policy", Syntax.YAML),
        ("", "", Syntax.YAML),
        ("# a comment", "", Syntax.YAML),
        ("[]", "", Syntax.YAML),
        ("[" * 100_000, "", Syntax.YAML),
        ("a = " + "[" * 100_000, "", Syntax.YAML),
    ],
    ids=shown,
)
def test_the_syntax_is_told_by_name_then_by_content(text, file_name, syntax):
    assert guess_syntax(text, file_name) is syntax


@pytest.mark.parametrize(("text", "syntax"), [(EXAMPLE_JSON, Syntax.JSON), (EXAMPLE_TOML, Syntax.TOML)])
def test_a_byte_order_mark_does_not_hide_the_syntax(text, syntax):
    assert guess_syntax(f"\ufeff{text}") is syntax


@unhurried
@example("a = " + "9" * 5000)
@given(st.text())
def test_some_syntax_is_guessed_for_any_text(text):
    assert guess_syntax(text) in Syntax


REFUSED_YAML = {
    "several documents": ("mode: block-all\n---\nmode: allow-all\n", "several documents"),
    "a second document after an end": ("mode: block-all\n...\n---\nmode: allow-all\n", "several documents"),
    "an empty second document": ("mode: block-all\n---\n", "several documents"),
    "text after the end": ("mode: block-all\n...\nmode: allow-all\n", "is not valid YAML"),
    "no text": ("", 'is empty; write at least "mode: block-all"'),
    "blank": (" \n\n", "is empty"),
    "a comment": ("# mode: allow-all\n", "is empty"),
    "an empty document": ("---\n", "is empty"),
    "an empty mapping": ("{}", "is empty"),
    "null": ("null", "is empty"),
    "tilde": ("~", "is empty"),
    "a list": ("- mode: block-all\n", 'is a list, not a mapping of keys; begin with "mode: block-all"'),
    "an empty list": ("[]", "is a list"),
    "text": ("block-all", "is text"),
    "quoted text": ('"mode: block-all"', "is text"),
    "a number": ("1", "is a number"),
    "a boolean": ("true", "is true or false"),
    "an anchor on a value": ("mode: &m block-all\n", "anchor"),
    "an anchor on a mapping": ("&all\nmode: block-all\n", "anchor"),
    "an anchor on a key": ("&k mode: block-all\n", "anchor"),
    "an anchor on a list": ("mode: block-all\negress: {allowed_domains: &d [a.example]}\n", "anchor"),
    "an alias": ("mode: block-all\nrules: &r []\npresets: *r\n", "anchor"),
    "an alias of nothing": ("mode: *m\n", 'the alias "*m"'),
    "a merge": ("mode: block-all\n<<: {allow_private: true}\n", "<<: is not a known key"),
    "a tag on a value": ("mode: !!str block-all\n", "tag"),
    "a tag on a key": ("!!str mode: block-all\n", "tag"),
    "a tag on a document": ("!policy\nmode: block-all\n", "tag"),
    "a tag that runs code elsewhere": ("mode: !!python/object/apply:os.getpid []\n", "tag"),
    "a tag on a set": ("mode: block-all\negress: !!set {allowed_domains}\n", "tag"),
    "a bare star": (
        "mode: block-all\negress: {allowed_domains: [*.example.org]}\n",
        'write "*.example.org", in quotes',
    ),
    "a bare star in a block": (
        "mode: block-all\negress:\n  allowed_domains:\n    - *.example.org\n",
        'write "*.example.org", in quotes',
    ),
    "a star that is an alias": ("mode: block-all\negress: {allowed_domains: [*example]}\n", "in quotes"),
    "a single star": ("mode: block-all\negress: {allowed_domains: [*]}\n", "in quotes"),
    "a tab as indentation": ("mode: block-all\negress:\n\tallowed_domains: []\n", "is not valid YAML"),
    "a key that is a list": ("? [mode]\n: block-all\n", "a key that is not plain text"),
    "a key that is a mapping": ("{mode: block-all}: 1\n", "a key that is not plain text"),
    "an unclosed list": ("mode: block-all\negress: {allowed_domains: [a.example\n", "is not valid YAML"),
    "a stray bracket": ("mode: block-all ]\n", "is not a mode"),
    "NUL": ("mode: block-all\0\n", "is not valid YAML"),
    "a control character": ("mode: block-all\x1b\n", "is not valid YAML"),
    "a lone surrogate": ("mode: block-all\ud800\n", "is not valid YAML"),
    "a lone surrogate by escape": ('mode: "\\ud800"\n', "is not"),
    "deep nesting in flow style": ("mode: " + "[" * 100_000, "nested too deeply"),
    "deep mappings in flow style": ("mode: " + "{a: " * 5000, "nested too deeply"),
    "deep nesting in block style": ("\n".join("  " * depth + "a:" for depth in range(200)), "nested too deeply"),
    "an unterminated quote": ('mode: "block-all\n', "is not valid YAML"),
    "an unknown directive's version": ("%YAML 9.9\n---\nmode: block-all\n", "is not valid YAML"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED_YAML.values(), ids=REFUSED_YAML)
def test_yaml_that_is_refused(text, message):
    assert message in "\n".join(map(str, problems(text)))


REFUSED_JSON = {
    "no text": ("", "is empty"),
    "blank": (" ", "is empty"),
    "an empty mapping": ("{}", "is empty"),
    "null": ("null", "is empty"),
    "a list": ("[]", "is a list"),
    "text": ('"block-all"', "is text"),
    "a number": ("1", "is a number"),
    "a float": ("1.5", "is a float"),
    "true": ("true", "is true or false"),
    "NaN": ("NaN", "NaN, which is not JSON"),
    "NaN inside": ('{"mode": "block-all", "host_ports": [NaN]}', "NaN, which is not JSON"),
    "infinity": ('{"mode": "block-all", "host_ports": [-Infinity]}', "-Infinity, which is not JSON"),
    "a float as port": ('{"mode": "block-all", "host_ports": [443.0]}', "is not a port"),
    "an exponent as port": ('{"mode": "block-all", "host_ports": [1e2]}', "is not a port"),
    "a huge number": ('{"mode": "block-all", "host_ports": [%s]}' % ("9" * 5000), "more than 18 digits"),
    "a large number": ('{"mode": "block-all", "host_ports": [%s]}' % ("9" * 4000), "more than 18 digits"),
    "a comment": ('{"mode": "block-all"} // open', "is not valid JSON"),
    "two documents": ('{"mode": "block-all"}{"mode": "allow-all"}', "is not valid JSON: Extra data"),
    "a trailing comma": ('{"mode": "block-all",}', "is not valid JSON"),
    "single quotes": ("{'mode': 'block-all'}", "is not valid JSON"),
    "a bare control character": ('{"mode": "block-all\x01"}', "is not valid JSON"),
    "an escaped control character": ('{"mode": "block-all\\u0000"}', r'"block-all\u0000" is not a mode'),
    "a lone surrogate": ('{"mode": "\\ud800"}', r'"\ud800" is not a mode'),
    "a lone surrogate in a name": (
        '{"mode": "block-all", "egress": {"allowed_domains": ["\\udfff.example"]}}',
        r"egress.allowed_domains[0]: \"\udfff.example\"".replace('\\"', '"'),
    ),
    "deep lists": ("[" * 100_000, "nested too deeply"),
    "deep mappings": ('{"mode":' * 100_000, "nested too deeply"),
    "a second byte order mark": ('\ufeff\ufeff{"mode": "block-all"}', "is not valid JSON"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED_JSON.values(), ids=REFUSED_JSON)
def test_json_that_is_refused(text, message):
    assert message in "\n".join(map(str, problems(text, Syntax.JSON)))


REFUSED_TOML = {
    "no text": ("", "is empty"),
    "a comment": ("# nothing", "is empty"),
    "yaml": ("mode: block-all", "is not valid TOML"),
    "a key twice": ('mode = "block-all"\nmode = "allow-all"', "is not valid TOML"),
    "a table twice": ('mode = "block-all"\n[egress]\n[egress]\n', "is not valid TOML"),
    "both spellings of a key": (
        'mode = "block-all"\n[egress]\nallowedDomains = []\nallowed_domains = []',
        "stands twice",
    ),
    "a float": ('mode = "block-all"\nhost_ports = [443.0]', "is not a port"),
    "NaN": ('mode = "block-all"\nhost_ports = [nan]', "is not a port"),
    "a date": ('mode = "block-all"\nhost_ports = [1979-05-27]', "is not a port"),
    "a date as mode": ("mode = 1979-05-27T07:32:00Z", "is not a mode"),
    "a huge number": (f'mode = "block-all"\nhost_ports = [{"9" * 5000}]', "more than 18 digits"),
    "a huge hexadecimal number": (f'mode = "block-all"\nhost_ports = [0x{"f" * 5000}]', "more than 18 digits"),
    "a hexadecimal mode": (f"mode = 0x{'f' * 5000}", "more than 18 digits"),
    "deep lists": (f"mode = {'[' * 100_000}", "nested too deeply"),
    "deep keys": (f"mode = 'block-all'\n{'.'.join(['egress'] * 3000)} = 1", "nested too deeply"),
    "deep keys in place of a list": (
        f"mode = 'block-all'\negress.allowed_domains{'.a' * 3000} = 1",
        "nested too deeply",
    ),
    "NUL": ('mode = "block-all\0"', "is not valid TOML"),
    "a bare star": ('mode = "block-all"\n[egress]\nallowed_domains = [*.example.org]', "is not valid TOML"),
    "egress as array": ('mode = "block-all"\n[[egress]]\n', "egress: is a list"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED_TOML.values(), ids=REFUSED_TOML)
def test_toml_that_is_refused(text, message):
    assert message in "\n".join(map(str, problems(text, Syntax.TOML)))


def test_an_error_in_toml_has_its_line():
    [problem] = problems('mode = "block-all"\nmode = "allow-all"\n', Syntax.TOML)
    assert problem.line == 2


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        ("mode: block-all\nmode: block-all\n", "mode", 2),
        ("mode: block-all\nmode: allow-all\n", "mode", 2),
        ("mode: allow-all\n'mode': block-all\n", "mode", 2),
        ("mode: block-all\negress: {}\nrules: []\negress: {}\n", "egress", 4),
        (
            "mode: block-all\negress:\n  allowed_domains: []\n  allowed_domains: [a.example]\n",
            "egress.allowed_domains",
            4,
        ),
        ("mode: block-all\nrules:\n- action: deny\n  ports: [1]\n  action: allow\n", "rules[0].action", 5),
        ("{mode: block-all, mode: allow-all}", "mode", 1),
        ("mode: block-all\nunknown: 1\nunknown: 2\n", "unknown", 3),
    ],
    ids=shown,
)
def test_keys_that_stand_twice_in_yaml(text, where, line):
    [problem] = [problem for problem in problems(text) if "stands twice" in problem.message]
    assert (problem.where, problem.line) == (where, line)
    assert "keep one of them" in problem.message


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"mode": "block-all", "mode": "block-all"}', "mode"),
        ('{"mode": "allow-all", "mode": "block-all"}', "mode"),
        ('{"mode": "block-all", "egress": {"denied_ports": [], "denied_ports": [1]}}', "egress.denied_ports"),
        ('{"mode": "block-all", "rules": [{"action": "deny", "ports": [1], "action": "allow"}]}', "rules[0].action"),
        ('{"mode": "block-all", "presets": [{"python": "a.example", "python": "b.example"}]}', "presets[0].python"),
        ('{"mode": "block-all", "m\\u006fde": "allow-all"}', "mode"),
    ],
)
def test_keys_that_stand_twice_in_json(text, where):
    [problem] = [problem for problem in problems(text, Syntax.JSON) if "stands twice" in problem.message]
    assert problem.where == where


@pytest.mark.parametrize("syntax", [Syntax.YAML, Syntax.JSON])
@pytest.mark.parametrize(
    ("camel", "snake"),
    [("allowPrivate", "allow_private"), ("hostPorts", "host_ports"), ("Mode", "mode")],
)
def test_a_key_in_two_spellings_stands_twice(camel, snake, syntax):
    text = f'{{"mode": "block-all", "{camel}": [], "{snake}": []}}'
    assert any("stands twice" in problem.message for problem in problems(text, syntax))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("True", "True"),
        ("FALSE", "FALSE"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("Null", "Null"),
        ("'true'", "true"),
        ('"null"', "null"),
        ("''", ""),
        ("443", 443),
        ("-1", -1),
        ("'443'", "443"),
        ("0", 0),
        ("010", "010"),
        ("0o10", "0o10"),
        ("0x1F", "0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("22:22", "22:22"),
        ("190:20:30", "190:20:30"),
        ("1.5", "1.5"),
        ("1e3", "1e3"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("4" * 18, int("4" * 18)),
        ("4" * 30, "4" * 30),
        ("2001-12-14", "2001-12-14"),
        ("=", "="),
        ("<<", "<<"),
        ("|\n  text", "text\n"),
        (">-\n  two\n  lines", "two lines"),
    ],
    ids=shown,
)
def test_yaml_scalars(written, value):
    read = read_text(f"key: {written}\n", Syntax.YAML).data["key"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("allow_private: yes", "allow_private"),
        ("allow_private: on", "allow_private"),
        ("allow_private: True", "allow_private"),
        ("allow_private: 1", "allow_private"),
        ("allow_private: 'true'", "allow_private"),
        ("allow_private: ~", "allow_private"),
        ("allow_private:", "allow_private"),
        ("host_ports: [010]", "host_ports[0]"),
        ("host_ports: [0x1F]", "host_ports[0]"),
        ("host_ports: [1_000]", "host_ports[0]"),
        ("host_ports: [22:22]", "host_ports[0]"),
        ("host_ports: [1:30:00]", "host_ports[0]"),
        ("host_ports: [80.0]", "host_ports[0]"),
        ("host_ports: [8e1]", "host_ports[0]"),
        ("host_ports: [true]", "host_ports[0]"),
        ("host_ports: [~]", "host_ports[0]"),
        ("host_ports: [,]", ""),
        ("egress: {allowed_domains: [443]}", "egress.allowed_domains[0]"),
        ("egress: {allowed_domains: [true]}", "egress.allowed_domains[0]"),
        ("egress: {allowed_domains: [null]}", "egress.allowed_domains[0]"),
        ("egress: {allowed_domains: [a.example: 443]}", "egress.allowed_domains[0]"),
        ("egress: {allowed_cidrs: [10]}", "egress.allowed_cidrs[0]"),
        ("egress: {allowed_cidrs: [1.5]}", "egress.allowed_cidrs[0]"),
    ],
)
def test_yaml_surprises_are_errors_not_values(written, where):
    [problem] = problems(f"mode: block-all\n{written}\n")
    assert problem.where == where


def test_the_two_letter_domain_of_norway_is_a_domain():
    assert read("mode: block-all\negress: {allowed_domains: [no, a.no]}").egress.allowed_domains == (
        DomainPattern("no"),
        DomainPattern("a.no"),
    )


@pytest.mark.parametrize(
    ("key", "snake"),
    [
        ("mode", "mode"),
        ("allowedDomains", "allowed_domains"),
        ("allowed_domains", "allowed_domains"),
        ("allowedCidrs", "allowed_cidrs"),
        ("allowedCIDRs", "allowed_cidrs"),
        ("hostPorts", "host_ports"),
        ("allowPrivate", "allow_private"),
        ("AllowPrivate", "allow_private"),
    ],
)
def test_snake_case(key, snake):
    assert snake_case(key) == snake


def test_a_whole_document_in_camel_case():
    camel: dict[str, Any] = {
        "mode": "allow-all",
        "egress": {
            "allowedDomains": ["a.example"],
            "allowedCidrs": ["192.0.2.0/24"],
            "allowedPorts": [1],
            "deniedDomains": ["b.example"],
            "deniedCidrs": ["198.51.100.0/24"],
            "deniedPorts": [2],
        },
        "hostPorts": [3],
        "allowPrivate": True,
    }
    snake = {
        snake_case(key): {snake_case(inner): entries for inner, entries in value.items()} if key == "egress" else value
        for key, value in camel.items()
    }
    assert set(snake["egress"]) == set(Egress._fields)
    for syntax in (Syntax.JSON, Syntax.YAML):
        assert read(json.dumps(camel), syntax) == read(json.dumps(snake), syntax)


BLOCK_STYLE = """\
# line 1
mode: block-all

egress:
  allowed_domains:
    - a.example
    # a comment
    - "b.example"

    - c.example
  allowedCidrs: [192.0.2.0/24,
    198.51.100.0/24]
rules:
  - name: one
    action: deny
    domains:
      - d.example
  - {action: allow, ports: [1,
     2]}
host_ports:
- 5432
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mode", 2),
        ("egress", 4),
        ("egress.allowed_domains", 5),
        ("egress.allowed_domains[0]", 6),
        ("egress.allowed_domains[1]", 8),
        ("egress.allowed_domains[2]", 10),
        ("egress.allowed_domains[3]", None),
        ("egress.allowed_cidrs", 11),
        ("egress.allowed_cidrs[0]", 11),
        ("egress.allowed_cidrs[1]", 12),
        ("egress.allowedCidrs[1]", 12),
        ("rules", 13),
        ("rules[0]", 14),
        ("rules[0].name", 14),
        ("rules[0].action", 15),
        ("rules[0].domains", 16),
        ("rules[0].domains[0]", 17),
        ("rules[1]", 18),
        ("rules[1].ports[0]", 18),
        ("rules[1].ports[1]", 19),
        ("host_ports[0]", 21),
        ("presets", None),
        ("presets[0]", None),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_lines_of_entries(path, line, line_end):
    document = read_policy(BLOCK_STYLE.replace("\n", line_end), Syntax.YAML)
    assert document.lines.of(path) == line


@pytest.mark.parametrize("path", ["", "]", "[", "[]", "a[b]", "a[-1]", "mode[0]", "egress.allowed_domains[-1]", "[0"])
def test_paths_that_are_none_have_no_line(path):
    assert read_policy(BLOCK_STYLE, Syntax.YAML).lines.of(path) is None


@pytest.mark.parametrize("depth", [MAX_DEPTH, 100, 400, 900, 990])
@pytest.mark.parametrize("place", ["%s", '{"mode": %s}', '{"mode": "block-all", "egress": {"allowed_domains": %s}}'])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")], ids=["lists", "mappings"])
@pytest.mark.parametrize("syntax", [Syntax.YAML, Syntax.JSON])
def test_nesting_of_any_depth_is_refused_in_words(depth, place, opening, closing, syntax):
    problems(place % (opening * depth + "1" + closing * depth), syntax)


WORDS = "mode block-all allow-all egress allowed_domains rules a.example *. & *a !!str true null 1 - --- ..."
SIGNS = "\"'|#%?:=[]{},\\ \t\n\r\0\ud800\ufeff\u2028ü"
scraps = st.lists(st.sampled_from([*WORDS.split(), *SIGNS, "\n  ", "- ", ": "]), max_size=25).map("".join)


@unhurried
@given(scraps | st.text(), st.sampled_from(Syntax))
def test_any_text_is_read_or_refused(text, syntax):
    try:
        read_text(text, syntax)
    except UnreadableError as error:
        assert str(error)
        assert "\n" not in str(error)


@unhurried
@given(scraps | st.text(), st.sampled_from(Syntax))
def test_any_text_is_a_policy_or_an_error_that_can_be_printed(text, syntax):
    try:
        read_policy(text, syntax)
    except InvalidPolicyError as error:
        assert all(str(problem).isprintable() for problem in error.problems)
        str(error).encode()


@unhurried
@given(
    st.recursive(
        st.integers(-(10**17), 10**17) | st.booleans() | st.none() | st.text(alphabet="aB: ,#", max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner),
        max_leaves=8,
    )
)
def test_json_read_as_yaml_is_the_same(data):
    text = json.dumps(data)
    assert read_text(text, Syntax.YAML).data == read_text(text, Syntax.JSON).data == data
