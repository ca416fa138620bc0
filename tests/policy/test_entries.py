"""Single entries: what each form means, and for each that is refused why and what to write instead."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.policy import Protocol
from belljar.policy.language.entries import EntryError, read_cidr, read_domain, read_host_port, read_port, read_protocol
from belljar.policy.model import DomainPattern, PortRange, Scope
from tests.policy.documents import shown
from tests.policy.strategies import networks, patterns, port_ranges, unhurried


@pytest.mark.parametrize("grants", [True, False])
@pytest.mark.parametrize(
    ("entry", "pattern"),
    [
        ("api.example.org", DomainPattern("api.example.org")),
        ("API.Example.Org.", DomainPattern("api.example.org")),
        ("api.example.org:5432", DomainPattern("api.example.org", port=5432)),
        ("api.example.org.:5432", DomainPattern("api.example.org", port=5432)),
        ("*.example.org", DomainPattern("example.org", Scope.BELOW)),
        ("*.example.org:65535", DomainPattern("example.org", Scope.BELOW, 65535)),
        (".example.org", DomainPattern("example.org", Scope.WITHIN)),
        (".example.org:1", DomainPattern("example.org", Scope.WITHIN, 1)),
        ("*.BÜCHER.example", DomainPattern("xn--bcher-kva.example", Scope.BELOW)),
        ("com", DomainPattern("com")),
        ("github.io", DomainPattern("github.io")),
        ("localhost", DomainPattern("localhost")),
        ("*.a.github.io", DomainPattern("a.github.io", Scope.BELOW)),
        ("*.www.ck", DomainPattern("www.ck", Scope.BELOW)),
    ],
)
def test_domains(entry, pattern, grants):
    assert read_domain(entry, grants=grants) == pattern


PUBLIC_SUFFIXES = [
    "com",
    "co.uk",
    "github.io",
    "s3.amazonaws.com",
    "ck",
    "anything.ck",
    "kawasaki.jp",
    "xn--p1ai",
    "рф",
    "example",
    "internal",
    "test",
    "not-a-known-suffix",
]


@pytest.mark.parametrize("prefix", ["*.", "."])
@pytest.mark.parametrize("suffix", PUBLIC_SUFFIXES)
def test_wildcards_on_public_suffixes_may_deny_but_not_grant(prefix, suffix):
    with pytest.raises(EntryError, match="anyone can register; name the hosts you mean, such as"):
        read_domain(f"{prefix}{suffix}", grants=True)
    with pytest.raises(EntryError, match="anyone can register"):
        read_domain(f"{prefix}{suffix.upper()}.:443", grants=True)
    assert read_domain(f"{prefix}{suffix}", grants=False).scope == Scope(prefix)


@pytest.mark.parametrize(("grants", "mode"), [(True, "allow-all"), (False, "block-all")])
def test_a_bare_star_is_a_mode(grants, mode):
    with pytest.raises(EntryError, match=f'use "mode: {mode}"'):
        read_domain("*", grants=grants)


@pytest.mark.parametrize("grants", [True, False])
@pytest.mark.parametrize(
    ("entry", "remedy"),
    [
        ("", "is blank; write a domain name or delete the entry"),
        ("   ", "is blank"),
        ("\t", "is blank"),
        ("*", "would match every name; name the domains, or use"),
        ("*.", "would match every name; name the domains, or use"),
        (".", "is empty; write a name such as"),
        ("*:443", "would match every name; name the domains, or use"),
        ("**.example.org", 'write "*.example.org"'),
        ("*.*.example.org", 'write "*.example.org"'),
        ("foo*.example.org", 'write "*.example.org"'),
        ("api.*.example.org", 'write "*.example.org"'),
        ("..example.org", "empty label"),
        ("https://example.org", "is a URL or a path; write the host name alone"),
        ("//example.org", "is a URL or a path"),
        ("example.org/path", "is a URL or a path"),
        ("example.org/", "is a URL or a path"),
        ("10.0.0.0/8", "is an IP address; addresses belong in allowed_cidrs"),
        ("2001:db8::/32", "is an IP address; addresses belong in allowed_cidrs"),
        ("user@example.org", 'write what stands after the "@"'),
        ("1.2.3.4", "addresses belong in allowed_cidrs"),
        ("1.2.3.4:443", "addresses belong in allowed_cidrs"),
        ("[2001:db8::1]:443", "addresses belong in allowed_cidrs"),
        ("2001:db8::1", "addresses belong in allowed_cidrs"),
        ("127.1", "write a name, or the address as four decimal numbers in allowed_cidrs"),
        ("0x7f000001", "ends in a number"),
        ("*.0.0.1", 'write "*.example.org"'),
        ("example.org:", "write a number after the name, such as db.example.org:5432"),
        ("example.org:0", "port '0' is not a number from 1 to 65535"),
        ("example.org:65536", "port '65536'"),
        ("example.org:http", "port 'http'"),
        ("example.org:443:443", "port '443:443'"),
        ("example.org:080", "port '080'"),
        ("example.org:80-90", "port '80-90'"),
        ("example.org:*", 'has a "*"'),
        (":443", "is empty"),
        ("exa mple.org", "contains a space"),
        (" example.org", "contains a space"),
        ("example.org ", "contains a space"),
        ("example..org", "empty label"),
        ("-a.example.org", "hyphen"),
        ("exam\0ple.org", "U+0000"),
        ("example.org\r\nX: y", "U+000D"),
        ("example.org\n", "U+000A"),
        ("exämple\u200b.org", "not a valid international name"),
        ("!example.org", "contains '!'"),
        ("%65xample.org", "contains '%'"),
        ("a_b.example.org", "contains '_'"),
        (f"{'a' * 64}.example.org", "label of 64"),
        ("a." * 127 + "org", "257 characters"),
    ],
    ids=shown,
)
def test_domains_that_are_refused(entry, remedy, grants):
    with pytest.raises(EntryError) as caught:
        read_domain(entry, grants=grants)
    assert remedy in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("entry", "what"),
    [("127.0.0.1:8080", "8080"), ("127.1.2.3", "it"), ("[::1]:90", "90"), ("[::1]", "it"), ("::1", "it")],
)
def test_a_loopback_address_is_a_port_of_the_host_in_a_grant_and_an_address_in_a_denial(entry, what):
    with pytest.raises(EntryError, match=f"for a port of this machine, list {what} in host_ports"):
        read_domain(entry, grants=True)
    with pytest.raises(EntryError, match="addresses belong in allowed_cidrs"):
        read_domain(entry, grants=False)


@pytest.mark.parametrize("entry", [None, True, 1, 1.5, [], ["a.example"], {}, {"a": 1}, b"a.example"])
def test_a_domain_is_text(entry):
    with pytest.raises(EntryError, match="is not text; write a domain name, in quotes"):
        read_domain(entry, grants=True)


@pytest.mark.parametrize(
    ("entry", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", "::/0"),
        ("10.20.0.5", "10.20.0.5/32"),
        ("10.20.0.5/32", "10.20.0.5/32"),
        ("2001:DB8::", "2001:db8::/128"),
        ("2001:0db8::/32", "2001:db8::/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:10.0.0.1", "10.0.0.1/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("64:ff9b::/96", "64:ff9b::/96"),
    ],
)
def test_cidrs(entry, network):
    assert read_cidr(entry) == ip_network(network)


@pytest.mark.parametrize(
    ("entry", "remedy"),
    [
        ("10.20.0.5/16", 'did you mean "10.20.0.0/16" (the range) or "10.20.0.5" (the one address)?'),
        ("2001:db8::1/32", 'did you mean "2001:db8::/32" (the range) or "2001:db8::1" (the one address)?'),
        ("0.0.0.1/0", 'did you mean "0.0.0.0/0"'),
        ("", "write a range such as"),
        (" ", "write a range such as"),
        ("*", "write a range such as"),
        ("/8", "write a range such as"),
        ("not-a-cidr", "write a range such as"),
        ("ok.example", "write a range such as"),
        ("10.0.0.0/", "write a number from 0 to 32 after the slash"),
        ("10.0.0.0/33", "from 0 to 32"),
        ("10.0.0.0/-1", "from 0 to 32"),
        ("10.0.0.0/+8", "from 0 to 32"),
        ("10.0.0.0/ 8", "from 0 to 32"),
        ("10.0.0.0/8 ", "from 0 to 32"),
        ("10.0.0.0/8\n", "from 0 to 32"),
        ("10.0.0.0/８", "from 0 to 32"),
        ("10.0.0.0/²", "from 0 to 32"),
        ("10.0.0.0/8/8", "from 0 to 32"),
        ("10.0.0.0/255.0.0.0", "from 0 to 32"),
        ("10.0.0.0/08", "from 0 to 32"),
        (f"10.0.0.0/{'9' * 5000}", "from 0 to 32"),
        ("2001:db8::/129", "from 0 to 128"),
        ("10.0.0/8", "write a range such as"),
        ("10/8", "write a range such as"),
        ("10.0.0.0-10.0.0.255", "write a range such as"),
        ("010.0.0.0/8", "write a range such as"),
        ("0x0a.0.0.0/8", "write a range such as"),
        ("167772160/8", "write a range such as"),
        ("fe80::1%eth0", "zone id"),
        ("fe80::%eth0/64", "zone id"),
        ("[2001:db8::]/32", "write a range such as"),
        ("10.0.0.0:443", "write a range such as"),
    ],
    ids=shown,
)
def test_cidrs_that_are_refused(entry, remedy):
    with pytest.raises(EntryError) as caught:
        read_cidr(entry)
    assert remedy in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("entry", [None, True, 10, 167772160, b"\x0a\0\0\0", [], {}, 10.0, ("10.0.0.0", 8)])
def test_a_cidr_is_text(entry):
    """`ipaddress` itself would take numbers, bytes and tuples."""
    with pytest.raises(EntryError, match="is not text"):
        read_cidr(entry)


@pytest.mark.parametrize(
    ("entry", "ports"),
    [
        (443, PortRange(443, 443)),
        ("443", PortRange(443, 443)),
        (1, PortRange(1, 1)),
        (65535, PortRange(65535, 65535)),
        ("8000-8100", PortRange(8000, 8100)),
        ("8000-8000", PortRange(8000, 8000)),
        ("1-65535", PortRange(1, 65535)),
        ("123/udp", PortRange(123, 123, Protocol.UDP)),
        ("443/tcp", PortRange(443, 443, Protocol.TCP)),
        ("5000-6000/udp", PortRange(5000, 6000, Protocol.UDP)),
    ],
)
def test_ports(entry, ports):
    assert read_port(entry) == ports


NOT_PORTS = """0,65536,0-10,1-65536,-1,-443,443-,-,, ,443 , 443,443\n,8100-8000,8000 - 8100,8000:8100,8000-8100-8200,\
http,*,0443,1-0443,+443,0x1bb,4_43,443.0,443/,/udp,443/sctp,443/UDP,443/udp/tcp,udp/443,４４３,٤٤٣"""
NOT_PORTS_NOR_TEXT = [
    0,
    65536,
    -1,
    10**30,
    None,
    True,
    False,
    443.0,
    float("nan"),
    [],
    [443],
    {},
    {"port": 443},
    b"443",
]


@pytest.mark.parametrize(
    "entry",
    [*NOT_PORTS.split(","), "8000,8100", "9" * 5000, f"1-{'9' * 5000}", *NOT_PORTS_NOR_TEXT],
    ids=shown,
)
@pytest.mark.parametrize("read", [read_port, read_host_port])
def test_ports_that_are_refused(entry, read):
    with pytest.raises(EntryError) as caught:
        read(entry)
    assert any(word in str(caught.value) for word in ("write", "did you mean"))
    assert str(caught.value).isprintable()


def test_a_reversed_range_is_shown_the_right_way_round():
    with pytest.raises(EntryError, match='did you mean "8000-8100"'):
        read_port("8100-8000")


@pytest.mark.parametrize("entry", [5432, "5432", "5432/tcp"])
def test_ports_of_the_host_are_tcp(entry):
    assert read_host_port(entry) == PortRange(5432, 5432)


def test_udp_ports_of_the_host_are_refused():
    with pytest.raises(EntryError, match="TCP only; delete it"):
        read_host_port("53/udp")


@pytest.mark.parametrize("entry", ["TCP", "", "icmp", "sctp", "any", None, True, 6, [], ["tcp"], {}])
def test_protocols_that_are_refused(entry):
    with pytest.raises(EntryError, match='write "tcp" or "udp"'):
        read_protocol(entry)


@unhurried
@given(patterns(grants=True))
def test_patterns_read_back(pattern):
    assert read_domain(str(pattern), grants=True) == pattern


@unhurried
@given(networks())
def test_networks_read_back(network):
    assert read_cidr(str(network)) == network
    assert read_cidr(network.exploded) == network


@unhurried
@given(port_ranges())
def test_port_ranges_read_back(ports):
    assert read_port(str(ports)) == ports


plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(alphabet="a1.*:/-[]%", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@unhurried
@given(plain_data, st.booleans())
def test_any_data_is_read_or_refused(entry, grants):
    for read in (lambda data: read_domain(data, grants=grants), read_cidr, read_port, read_host_port, read_protocol):
        try:
            read(entry)
        except EntryError as error:
            assert str(error).isprintable()
