"""dig: every kind of answer that a sandbox gets. No question leaves the host because of it."""

import shlex
from ipaddress import ip_address, ip_network

import pytest

from tests.gateway.clients import servers
from tests.universe import Contact, addresses

VIRTUAL = ip_network("198.18.0.0/15")
MANNERS = ["+notcp", "+tcp", "+noedns", "+bufsize=512", "+edns=1", "+cookie", "+dnssec +subnet=192.0.2.0/24"]
SERVERS = [f"@{addresses.EVIL}", f"@{addresses.EVIL_V6}", "@127.0.0.1", "@::1"]


@pytest.fixture
def inside(enter):
    return enter("v4.test", "text.test")


@pytest.fixture
def dig(inside, universe):
    """Ask with dig, and return what it says."""
    program = servers.program("dig", "bind9-dnsutils")

    def dig(arguments: str) -> str:
        said: str = inside.works(program, "-r", "+tries=1", *shlex.split(arguments))
        assert universe.wire.contacts() == set()
        return said

    return dig


@pytest.mark.parametrize("how", MANNERS + SERVERS)
def test_a_granted_name(dig, how):
    [ipv4] = dig(f"{how} +short v4.test A").split()
    [ipv6] = dig(f"{how} +short v4.test AAAA").split()
    assert ip_address(ipv4) in VIRTUAL
    assert ip_address(ipv6).is_private
    assert dig(f"{how} +short -x {ipv4}") == dig(f"{how} +short -x {ipv6}") == "v4.test.\n"


@pytest.mark.parametrize("question", ["v4.test HTTPS", "v4.test SVCB", "v4.test MX", "text.test TXT"])
def test_a_granted_name_has_nothing_but_addresses(dig, question):
    said = dig(question)
    assert "status: NOERROR" in said
    assert "ANSWER: 0," in said


@pytest.mark.parametrize("how", ["+notcp", "+tcp", *SERVERS])
@pytest.mark.parametrize("kind", ["A", "AAAA", "HTTPS", "TXT"])
def test_a_denied_name(dig, how, kind):
    said = dig(f"{how} evil.test {kind}")
    assert "status: REFUSED" in said
    assert "EDE: 15 (Blocked): (not_allowed_domain: evil.test is not among the allowed domains.)" in said


def test_a_denied_name_for_those_who_do_not_know_of_extended_errors(dig):
    said = dig("+noedns evil.test A")
    assert "status: NXDOMAIN" in said
    assert "EDE" not in said


def test_a_name_is_looked_up_when_a_connection_is_made(dig, inside, universe):
    [address] = dig("+short v4.test A").split()
    assert inside.works("curl", "-sS", "--resolve", f"v4.test:80:{address}", "http://v4.test/page") == "v4.test /page\n"
    assert Contact("tcp", addresses.PUBLIC, 80) in universe.wire.contacts()
