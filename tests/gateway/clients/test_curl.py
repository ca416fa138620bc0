"""curl in every version of HTTP and through every door, and openssl s_client."""

import json

import pytest

from tests.gateway.clients import servers
from tests.universe import addresses

PAGE = "".join(f"line {number}\n" for number in range(10_000))

DOORS = {
    "direct": ([], "Could not resolve host: other.machine.test"),
    "proxy": (["--proxy", "http://127.0.0.1:3128"], "403"),
    "proxytunnel": (["--proxy", "http://127.0.0.1:3128", "--proxytunnel"], "403"),
    "socks": (["--socks5-hostname", "127.0.0.1:1080"], "complete SOCKS5 connection to other.machine.test. (2)"),
}
"""The options of each door, and what a denial looks like there."""


@pytest.fixture(scope="module")
def web(machine, whole_universe):
    with servers.apache(machine, whole_universe.certificates) as pages:
        (pages / "page").write_text(PAGE)
        yield


@pytest.fixture
def inside(web, enter):
    return enter("web.machine.test")


@pytest.fixture
def curl(universe):
    """Return the command that fetches a URL, and then says which version of HTTP it was."""
    options = ["--silent", "--show-error", "--write-out", "HTTP/%{http_version}", "--max-time", "20"]
    return ["curl", *options, "--cacert", str(universe.certificates.path)]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("scheme", "option", "version"),
    [
        ("http", "--http1.0", "1.1"),
        ("http", "--http1.1", "1.1"),
        ("http", "--http2", "1.1"),  # an offer to switch, which does not get to the server
        ("https", "--http1.1", "1.1"),
        ("https", "--http2", "2"),
    ],
)
def test_curl(inside, curl, door, scheme, option, version):
    options, denial = DOORS[door]
    fetched = inside.works(*curl, option, *options, f"{scheme}://web.machine.test/page")
    assert fetched == f"{PAGE}HTTP/{version}"
    assert inside.has_reached(443 if scheme == "https" else 80)

    assert denial in inside.is_denied(*curl, option, *options, "--fail", f"{scheme}://other.machine.test/page")


def test_curl_to_an_address_in_plain_text(inside, curl):
    def fetch(name: str) -> list[str]:
        return [
            *curl,
            "--fail-with-body",
            "--connect-to",
            f"::{addresses.MACHINE}:",
            f"http://{name}.machine.test/page",
        ]

    assert inside.works(*fetch("web")) == f"{PAGE}HTTP/1.1"
    body, _, _ = inside.is_denied(*fetch("other")).partition("HTTP/1.1")
    assert json.loads(body)["reason"] == "not_allowed_domain"


@pytest.mark.parametrize("option", ["--http1.1", "--http2"])
def test_curl_to_an_address_with_tls(inside, curl, option):
    def fetch(name: str) -> list[str]:
        return [*curl, option, "--connect-to", f"::{addresses.MACHINE}:", f"https://{name}.machine.test/page"]

    assert inside.works(*fetch("web")).startswith(PAGE)
    assert "alert access denied" in inside.is_denied(*fetch("other"))


def test_curl_with_http2_in_plain_text(enter, curl, universe):
    """Every request on it could name another host, so a server never hears of it."""
    inside, witness = enter("plain.test"), universe.internet.witness
    assert inside.works(*curl, "http://plain.test/page") == "plain.test /page\nHTTP/1.1"
    assert [seen.what for seen in witness.of_kind("request")] == ["GET plain.test /page"]
    witness.forget()
    inside.fails(*curl, "--http2-prior-knowledge", "http://plain.test/page")
    assert witness.of_kind("request") == []


def test_openssl(inside, universe):
    def s_client(where: str, name: str) -> list[str]:
        options = f"-CAfile {universe.certificates.path} -verify_return_error -quiet -ign_eof -alpn http/1.1"
        request = f"GET /page HTTP/1.0\\r\\nHost: {name}\\r\\n\\r\\n"
        return ["sh", "-c", f"printf '{request}' | openssl s_client -connect {where} -servername {name} {options}"]

    assert inside.works(*s_client("web.machine.test:443", "web.machine.test")).endswith(f"\n\n{PAGE}")
    assert inside.has_reached(443)

    assert "access denied" in inside.is_denied(*s_client(f"{addresses.MACHINE}:443", "other.machine.test"))
    inside.is_denied(*s_client("other.machine.test:443", "other.machine.test"))
