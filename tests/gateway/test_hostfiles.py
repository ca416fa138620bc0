import os
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.upstream.hostfiles import Hosts, Server, WatchedFile, nameservers, parse_server
from belljar.names import SpellingError

SERVERS = {
    "IPv4": ("192.0.2.53", "192.0.2.53:53"),
    "IPv4 and a port": ("192.0.2.53:5353", "192.0.2.53:5353"),
    "IPv6": ("2001:db8::53", "[2001:db8::53]:53"),
    "IPv6 that ends like a port": ("2001:db8::5:53", "[2001:db8::5:53]:53"),
    "IPv6 in brackets": ("[2001:db8::53]", "[2001:db8::53]:53"),
    "IPv6 and a port": ("[2001:db8::53]:5353", "[2001:db8::53]:5353"),
}


@pytest.mark.parametrize(("text", "server"), SERVERS.values(), ids=SERVERS)
def test_a_server_is_an_address_and_perhaps_a_port(text, server):
    assert str(parse_server(text)) == server
    assert parse_server(server) == parse_server(text)


@pytest.mark.parametrize(
    "text",
    ["", "dns.example", "dns.example:53", "192.0.2", "192.0.2.53:", "192.0.2.53:0", "192.0.2.53:65536", "127.1:53",
     "[192.0.2.53]:53", "[2001:db8::53]:", "[2001:db8::53", "2001:db8::/32", "fe80::1%eth0", "udp://192.0.2.53"],
)  # fmt: skip
def test_anything_else_is_no_server(text):
    with pytest.raises(SpellingError):
        parse_server(text)


RESOLV_CONFS = {
    "nothing": ("", []),
    "one": ("nameserver 192.0.2.1\n", ["192.0.2.1"]),
    "two, in their order": ("nameserver 192.0.2.2\nnameserver 2001:db8::1", ["192.0.2.2", "2001:db8::1"]),
    "one with a zone": ("nameserver fe80::1%eth0\n", ["fe80::1%eth0"]),
    "other settings": ("domain a.example\nsearch b.example\noptions ndots:5\nnameserver 192.0.2.1", ["192.0.2.1"]),
    "comments": ("# nameserver 192.0.2.9\n;nameserver 192.0.2.8\nnameserver 192.0.2.1 # first", ["192.0.2.1"]),
    "white space": ("nameserver\t 192.0.2.1 \r\n\n", ["192.0.2.1"]),
    "nonsense": ("nameserver\nnameserver dns.example\nnameserver 127.1\n\xff\nnameserver 192.0.2.1", ["192.0.2.1"]),
    "no nameserver after all": ("nameservers 192.0.2.1\nNAMESERVER=192.0.2.1", []),
}


@pytest.mark.parametrize(("text", "addresses"), RESOLV_CONFS.values(), ids=RESOLV_CONFS)
def test_the_name_servers_of_the_host_are_read(text, addresses):
    assert nameservers(text.encode("latin-1")) == tuple(Server(ip_address(address), 53) for address in addresses)


HOSTS = b"""\
127.0.0.1\tlocalhost
10.0.0.1 db.corp.example db  # the database
10.0.0.2   DB.Corp.Example
2001:db8::1 db.corp.example
10.0.0.1 db.corp.example
# 10.0.0.9 commented.example
10.0.0.3 kept.example # and commented.example
10.0.0.4 xdb.corp.example db.corp.example.net sub.db.corp.example
fe80::1%eth0 zoned.example
127.1 short.example
just-a-word
10.0.0.5 caf\xc3\xa9.example b\xffd.example good.example
10.0.0.6
\xe2\x84\xaa.example k.example
10.0.0.7 \xe2\x84\xaaelvin.example
"""

NAMES = {
    "several addresses": ("db.corp.example", ["10.0.0.1", "10.0.0.2", "2001:db8::1"]),
    "an alias": ("db", ["10.0.0.1"]),
    "a name beside what cannot be read": ("good.example", ["10.0.0.5"]),
    "a name in front of a comment": ("kept.example", ["10.0.0.3"]),
    "only in comments": ("commented.example", []),
    "the parent of a name": ("corp.example", []),
    "below a name": ("x.db", []),
    "an address with a zone": ("zoned.example", []),
    "an address that is none": ("short.example", []),
    "a line without an address": ("just-a-word", []),
    "a line that begins with a name": ("k.example", []),
    "not the Kelvin sign": ("kelvin.example", []),
    "an address, which is no name": ("10.0.0.6", []),
    "nowhere": ("absent.example", []),
}


@pytest.fixture
def hosts(tmp_path):
    path = tmp_path / "hosts"
    path.write_bytes(HOSTS)
    return Hosts(path)


@pytest.mark.parametrize(("name", "addresses"), NAMES.values(), ids=NAMES)
def test_exactly_the_names_in_the_hosts_file_have_its_addresses(hosts, name, addresses):
    assert hosts.addresses(name) == tuple(ip_address(address) for address in addresses)


def test_a_file_that_is_not_there_says_nothing(tmp_path):
    assert Hosts(tmp_path / "absent").addresses("localhost") == ()
    assert Hosts(tmp_path).addresses("localhost") == ()


@given(st.binary(max_size=200))
def test_any_file_can_be_read(contents):
    nameservers(contents + b"\nnameserver 192.0.2.1")
    nameservers(b"nameserver " + contents)


@pytest.fixture
def readings():
    return []


@pytest.fixture
def watched(tmp_path, readings):
    path = tmp_path / "watched"
    path.write_bytes(b"first")

    def parse(contents: bytes) -> bytes:
        readings.append(contents)
        return contents

    watched = WatchedFile(path, parse)
    readings.clear()
    return path, watched


def test_a_file_is_read_once_while_it_stays_the_same(watched, readings):
    _, file = watched
    assert [file.read() for _ in range(3)] == [b"first"] * 3
    assert readings == [b"first"]


def rewrite(path):
    path.write_bytes(b"second one")


def replace(path):
    """Put another file in its place, of the same size and with the same time, as some tools do."""
    times = path.stat()
    other = path.with_suffix(".new")
    other.write_bytes(b"other")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)


def link(path):
    target = path.with_suffix(".target")
    target.write_bytes(b"third")
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("change", "contents"),
    [
        pytest.param(rewrite, b"second one", id="rewritten"),
        pytest.param(replace, b"other", id="replaced"),
        pytest.param(link, b"third", id="made a link"),
        pytest.param(lambda path: path.unlink(), b"", id="removed"),
    ],
)
def test_a_file_that_has_changed_is_read_again(watched, readings, change, contents):
    path, file = watched
    file.read()
    change(path)
    assert [file.read(), file.read()] == [contents, contents]
    assert readings == [b"first", contents]


def test_a_file_that_comes_back_is_read_again(watched):
    path, file = watched
    path.unlink()
    assert file.read() == b""
    path.write_bytes(b"back")
    assert file.read() == b"back"
