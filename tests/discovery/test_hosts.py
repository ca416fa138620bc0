"""URLs become hosts and ports; everything else in them stays behind."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.discovery.hosts import Named, hosts_of, locate
from belljar.discovery.model import ToolHost
from belljar.discovery.running import NoAnswerError
from belljar.names import canonical_name
from tests.discovery.machines import SECRET


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://registry.corp.example", ("registry.corp.example", 443)),
        ("http://registry.corp.example/", ("registry.corp.example", 80)),
        ("HTTPS://Registry.Corp.Example./simple", ("registry.corp.example", 443)),
        ("https://registry.corp.example:8443/a?b#c", ("registry.corp.example", 8443)),
        ("  https://registry.corp.example \n", ("registry.corp.example", 443)),
        (f"https://me:{SECRET}@registry.corp.example/", ("registry.corp.example", 443)),
        (f"https://me@corp:{SECRET}@registry.corp.example:444/", ("registry.corp.example", 444)),
        ("https://bücher.example/", ("xn--bcher-kva.example", 443)),
        ("https://[2001:db8::1]:8443/", (ip_address("2001:db8::1"), 8443)),
        ("https://192.0.2.1/", (ip_address("192.0.2.1"), 443)),
    ],
)
def test_http_urls(url, expected):
    assert locate(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "direct",
        "/srv/wheels",
        "./wheels",
        "file:///srv/wheels",
        "file://server.corp.example/wheels",
        "ftp://registry.corp.example/",
        "ssh://git@registry.corp.example/index",
        "tor+http://registry.corp.example/",
        "mirror+file:/etc/apt/mirrors.txt",
        "cdrom://Disc/",
        "registry.corp.example",
        "//registry.corp.example/",
        "https:///simple",
        "https://registry.corp.example:0/",
        "https://registry.corp.example:65536/",
        "https://registry.corp.example:http/",
        "https://${env.MIRROR}/maven",
        "https://under_score.corp.example/",
        "https://0x7f000001/",
        "https://[::1/",
        "https://evil\\.registry.corp.example/",
    ],
)
def test_everything_else_is_skipped(url):
    assert locate(url) is None


_LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda it: it[2:4] != "--")


@given(
    scheme=st.sampled_from(["http", "https"]),
    userinfo=st.text("abc123:%@.-_~", max_size=12),
    labels=st.lists(_LABELS, min_size=2, max_size=4),
    port=st.none() | st.integers(1, 65535),
    rest=st.sampled_from(["", "/", "/a@b/", "?q=@x", "#@"]),
)
def test_a_url_made_of_known_parts_is_taken_apart_again(scheme, userinfo, labels, port, rest):
    host = ".".join(labels)
    url = f"{scheme}://{userinfo}@{host}{f':{port}' if port else ''}{rest}"
    assert locate(url) == (host, port or {"http": 80, "https": 443}[scheme])


@given(st.text() | st.text().map("https://".__add__))
def test_arbitrary_text_is_a_canonical_host_or_nothing(text):
    place = locate(text)
    if place is not None:
        host, port = place
        assert 1 <= port <= 65535
        if isinstance(host, str):
            assert canonical_name(host) == host


def test_each_host_and_port_appears_once_and_in_order():
    named = [
        Named("http://z.corp.example", "one"),
        Named("https://a.corp.example:8443", "two"),
        Named("https://A.corp.example", "two"),
        Named("https://a.corp.example/simple", "one"),
        Named("https://a.corp.example/again", "one"),
        Named("direct", "no host"),
    ]
    assert hosts_of(named, "the configuration") == (
        ToolHost("a.corp.example", 443, "one, two"),
        ToolHost("a.corp.example", 8443, "two"),
        ToolHost("z.corp.example", 80, "one"),
    )


def test_addresses_are_left_out_where_there_is_a_name():
    named = [Named("https://192.0.2.1", "one"), Named("https://a.corp.example", "two")]
    assert [found.host for found in hosts_of(named, "x")] == ["a.corp.example"]


@pytest.mark.parametrize(
    ("urls", "problem"),
    [
        ([], "no host is named in x"),
        (["file:///srv"], "no host is named in x"),
        (
            [f"https://me:{SECRET}@192.0.2.1/"],
            "no host is named in x (192.0.2.1 is an address: put it in egress.allowed_cidrs)",
        ),
        (["http://[::1]:4873/"], "no host is named in x (::1 is this machine: put 4873 in host_ports)"),
        (["http://localhost:80/"], "no host is named in x (localhost is this machine: put 80 in host_ports)"),
    ],
)
def test_without_a_name_the_problem_says_what_to_do(urls, problem):
    with pytest.raises(NoAnswerError) as caught:
        hosts_of([Named(url, "why") for url in urls], "x")
    assert str(caught.value) == problem


def test_a_reason_cannot_steer_a_terminal():
    [found] = hosts_of([Named("https://a.corp.example", "npm's registry for @c\x1b[2J\nx\u202e")], "x")
    assert found.why == "npm's registry for @c[2Jx"
