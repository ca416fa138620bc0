"""Which server does a client ask for, whatever it sends and however it cuts it?"""

import ssl
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from belljar.names import canonical_name
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse
from belljar.wire.tls.clienthello import MAX_HELLO, MAX_RECORDS, ClientHello, ClientHelloParser
from tests.wire.hellos import (
    OpenSSLServer,
    alpn,
    browser_hello,
    by_openssl,
    ech,
    extension,
    hello,
    hello_body,
    hello_of_wire_size,
    message,
    record,
    records,
    server_name,
    vector,
)

TLS12 = ssl.TLSVersion.TLSv1_2
TLS13 = ssl.TLSVersion.TLSv1_3
NAME = b"registry.corp.example"
ASKS_FOR_NAME = ClientHello(NAME.decode(), (), ech=False)
PLAIN = hello(server_name(NAME))


def read(pieces: Iterable[bytes]) -> ClientHello | NeedMore | Refuse:
    parser = ClientHelloParser()
    answer: ClientHello | NeedMore | Refuse = NEED_MORE
    for piece in pieces:
        answer = parser.feed(piece)
    return answer


def byte_by_byte(stream: bytes) -> Iterable[bytes]:
    return (bytes([byte]) for byte in stream)


def refusal(stream: bytes) -> Fault:
    """Return why the stream is refused, having checked that it is so however it is cut."""
    answer = read([stream])
    assert isinstance(answer, Refuse), answer
    assert read(byte_by_byte(stream)) == answer
    return answer.fault


def bytes_until_answer(stream: bytes) -> int:
    """Return how many bytes the parser had to see."""
    parser = ClientHelloParser()
    return next(count for count, byte in enumerate(stream, 1) if parser.feed(bytes([byte])) is not NEED_MORE)


# --- what real clients send


REAL = {
    "tls-1.3": (by_openssl("registry.corp.example", oldest=TLS13), "registry.corp.example", ()),
    "tls-1.2-or-1.3": (by_openssl("registry.corp.example"), "registry.corp.example", ()),
    "tls-1.2": (by_openssl("registry.corp.example", newest=TLS12), "registry.corp.example", ()),
    "tls-1.1": (
        by_openssl("old.corp.example", oldest=ssl.TLSVersion.TLSv1, newest=ssl.TLSVersion.TLSv1_1),
        "old.corp.example",
        (),
    ),
    "tls-1.0": (
        by_openssl("old.corp.example", oldest=ssl.TLSVersion.TLSv1, newest=ssl.TLSVersion.TLSv1),
        "old.corp.example",
        (),
    ),
    "alpn": (by_openssl("a.example", protocols=["h2", "http/1.1"]), "a.example", (b"h2", b"http/1.1")),
    "upper-case": (by_openssl("API.Corp.Example"), "api.corp.example", ()),
    "idna": (by_openssl("bücher.example"), "xn--bcher-kva.example", ()),
    "longest-label": (by_openssl("a" * 63 + ".example"), "a" * 63 + ".example", ()),
    "no-name": (by_openssl(None), None, ()),
    "address-so-no-name": (by_openssl("192.0.2.7"), None, ()),
}


@pytest.mark.parametrize(("stream", "name", "protocols"), REAL.values(), ids=REAL)
def test_openssl_hello_is_read_at_its_last_byte_wherever_it_is_cut(stream, name, protocols):
    expected = ClientHello(name, protocols, ech=False)
    for cut in range(len(stream)):
        parser = ClientHelloParser()
        assert parser.feed(stream[:cut]) is NEED_MORE
        assert parser.feed(stream[cut:]) == expected
    assert bytes_until_answer(stream) == len(stream)


@pytest.mark.parametrize("count", [10, 60, 300], ids=["2-kB", "12-kB", "four-records"])
def test_openssl_hello_made_large_by_its_protocols(count):
    protocols = [f"{number:03}".ljust(200, "x") for number in range(count)]
    stream = by_openssl("registry.corp.example", protocols=protocols)
    expected = ClientHello("registry.corp.example", tuple(name.encode() for name in protocols), ech=False)
    assert read([stream]) == expected
    assert read(byte_by_byte(stream)) == expected
    assert bytes_until_answer(stream) == len(stream)


def test_post_quantum_browser_hello_in_two_segments():
    stream = browser_hello(b"www.corp.example")
    assert len(stream) > 1700
    expected = ClientHello("www.corp.example", (b"h2", b"http/1.1"), ech=True)
    assert read([stream[:1448], stream[1448:]]) == expected
    assert bytes_until_answer(stream) == len(stream)


def test_what_was_received_can_be_replayed_to_a_server():
    stream = by_openssl("registry.corp.example")
    parser = ClientHelloParser()
    for piece in (stream[:3], stream[3:7], stream[7:]):
        parser.feed(piece)
    assert parser.received == stream
    assert OpenSSLServer().names_seen(parser.received) == ["registry.corp.example"]


# --- what hellos may look like


ACCEPTED = {
    "no-extensions-block": (records(message(hello_body(tail=b""))), ClientHello(None, (), ech=False)),
    "empty-extensions-block": (hello(), ClientHello(None, (), ech=False)),
    "no-server-name": (hello(alpn(b"h2")), ClientHello(None, (b"h2",), ech=False)),
    "no-session-id": (
        records(message(hello_body(server_name(NAME), session_id=b"\0"))),
        ASKS_FOR_NAME,
    ),
    "compression-offered": (
        records(message(hello_body(server_name(NAME), compression_methods=b"\2\1\0"))),
        ASKS_FOR_NAME,
    ),
    "record-version-ssl-3.0": (record(PLAIN[5:], version=0x0300), ASKS_FOR_NAME),
    "record-version-tls-1.3": (record(PLAIN[5:], version=0x0304), ASKS_FOR_NAME),
    "trailing-dot": (hello(server_name(NAME + b".")), ASKS_FOR_NAME),
    "mixed-case": (hello(server_name(NAME.title())), ASKS_FOR_NAME),
    "single-label": (hello(server_name(b"localhost")), ClientHello("localhost", (), ech=False)),
    "longest-name": (
        hello(server_name(b".".join([b"a" * 63] * 3 + [b"b" * 61]))),
        ClientHello(".".join(["a" * 63] * 3 + ["b" * 61]), (), ech=False),
    ),
    "server-name-last": (
        hello(extension(0x0A0A), alpn(b"h2"), server_name(NAME)),
        ClientHello(NAME.decode(), (b"h2",), ech=False),
    ),
    "longest-protocol": (
        hello(alpn(b"x" * 255, b"\0")),
        ClientHello(None, (b"x" * 255, b"\0"), ech=False),
    ),
    "ech": (hello(server_name(NAME), ech()), ClientHello(NAME.decode(), (), ech=True)),
    "ech-empty": (hello(server_name(NAME), extension(0xFE0D)), ClientHello(NAME.decode(), (), ech=True)),
    "esni": (hello(ech(0xFFCE)), ClientHello(None, (), ech=True)),
}


@pytest.mark.parametrize(("stream", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_unusual_but_proper_hello(stream, expected):
    assert read([stream]) == expected
    assert read(byte_by_byte(stream)) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 64, len(PLAIN) - 6])
def test_hello_spread_over_records(size):
    stream = hello(server_name(NAME), alpn(b"h2"), record_size=size)
    expected = ClientHello(NAME.decode(), (b"h2",), ech=False)
    assert read([stream]) == expected
    assert read(byte_by_byte(stream)) == expected
    assert OpenSSLServer().names_seen(stream) == [NAME.decode()]


FOLLOWERS = {
    "change-cipher-spec": record(b"\x01", kind=20, version=0x0303),
    "early-data": record(bytes(100), kind=23, version=0x0303),
    "both": record(b"\x01", kind=20, version=0x0303) + record(bytes(100), kind=23, version=0x0303),
    "half-a-record": b"\x17\x03",
    "another-hello": hello(server_name(b"other.example")),
    "not-even-tls": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("follower", FOLLOWERS.values(), ids=FOLLOWERS)
def test_what_follows_in_further_records_changes_nothing_and_is_kept_for_replay(follower):
    parser = ClientHelloParser()
    assert parser.feed(PLAIN + follower) == ASKS_FOR_NAME
    assert parser.received == PLAIN + follower
    assert bytes_until_answer(PLAIN + follower) == len(PLAIN)


@pytest.mark.parametrize("stream", [PLAIN, b"SSH-2.0-x\r\n"], ids=["found", "refused"])
def test_the_answer_is_final(stream):
    parser = ClientHelloParser()
    answer = parser.feed(stream)
    assert parser.feed(hello(server_name(b"other.example"))) == answer
    assert parser.feed(b"") == answer
    assert parser.received == stream


def test_nothing_is_concluded_from_nothing():
    parser = ClientHelloParser()
    assert parser.feed(b"") is NEED_MORE
    assert parser.received == b""
    assert parser.feed(PLAIN) == ASKS_FOR_NAME


# --- what is not TLS


NOT_TLS = {
    "ssh": (b"SSH-2.0-OpenSSH_9.9\r\n", 1),
    "http": (b"GET / HTTP/1.1\r\nHost: registry.corp.example\r\n\r\n", 1),
    "ssl-2.0-hello": (bytes.fromhex("802b 01 0301 0012 0000 0010") + bytes(34), 1),
    "postgres-ssl-request": (bytes.fromhex("00000008 04d2162f"), 1),
    "unknown-record-type": (record(b"\0", kind=25), 1),
    "dtls": (bytes.fromhex("16 feff 0000 000000000000 0010"), 6),
    "minecraft": (b"\x16\0\xfb\x05\x0fmc.corp.example\x63\xdd\x01", 6),
    "mysql-login": (b"\x15\0\0\x01\x8d\xa6", 6),
}


@pytest.mark.parametrize(("stream", "needed"), NOT_TLS.values(), ids=NOT_TLS)
def test_another_protocol_is_refused_at_the_first_byte_that_shows_it(stream, needed):
    assert refusal(stream) is Fault.NOT_TLS
    assert bytes_until_answer(stream) == needed


# What would pass as another protocol here, and be read by a server that is more forgiving.
TLS_TO_SOMEBODY = {
    "minor-version-5": (record(PLAIN[5:], version=0x0305), 3),
    "minor-version-255": (record(PLAIN[5:], version=0x03FF), 3),
    "major-version-2": (record(PLAIN[5:], version=0x0201), 6),
    "no-version": (record(PLAIN[5:], version=0), 6),
    "garbled-version": (record(PLAIN[5:], version=0xFFFF), 6),
    "warning-first": (record(b"\x01\x5a", kind=21) + PLAIN, 2),
    "warning-of-no-version-first": (record(b"\x01\x5a", kind=21, version=0) + PLAIN, 5),
    "change-cipher-spec-first": (record(b"\x01", kind=20) + PLAIN, 2),
    "empty-change-cipher-spec-first": (record(b"", kind=20) + PLAIN, 2),
    "empty-handshake-first": (record(b"") + PLAIN, 5),
    "application-data-first": (record(bytes(20), kind=23) + PLAIN, 2),
    "heartbeat-first": (record(b"\x01\0\0", kind=24) + PLAIN, 2),
}


@pytest.mark.parametrize(("stream", "needed"), TLS_TO_SOMEBODY.values(), ids=TLS_TO_SOMEBODY)
def test_what_some_server_takes_for_tls_is_not_called_another_protocol(stream, needed):
    assert refusal(stream) is Fault.MALFORMED_TLS
    assert bytes_until_answer(stream) == needed


# --- what is too large


def test_largest_hello():
    stream = hello_of_wire_size(MAX_HELLO)
    expected = ClientHello("big.corp.example", (), ech=False)
    assert read([stream]) == expected
    assert read(byte_by_byte(stream)) == expected


def test_largest_hello_in_the_smallest_records():
    smallest = -(-MAX_HELLO // MAX_RECORDS)
    stream = hello_of_wire_size(MAX_HELLO, record_size=smallest)
    assert read([stream]) == ClientHello("big.corp.example", (), ech=False)
    assert refusal(hello_of_wire_size(MAX_HELLO - MAX_HELLO % 6, record_size=1)) is Fault.TOO_LARGE


def test_one_byte_too_many():
    assert refusal(hello_of_wire_size(MAX_HELLO + 1)) is Fault.TOO_LARGE


@pytest.mark.parametrize("size", [MAX_HELLO - 8, MAX_HELLO, 2**24 - 1])
def test_too_large_is_refused_when_announced(size):
    start = b"\x16\x03\x01\x40\x00" + b"\x01" + size.to_bytes(3)
    assert refusal(start) is Fault.TOO_LARGE
    assert bytes_until_answer(start) == len(start)


def test_memory_is_bounded_by_one_hello_and_one_piece():
    parser = ClientHelloParser()
    stream = hello_of_wire_size(MAX_HELLO + 1)
    for at in range(0, len(stream) * 4, 4096):
        parser.feed(stream[at : at + 4096] or bytes(4096))
    assert len(parser.received) <= MAX_HELLO + 4096


# --- what is malformed


def flawed(**fields: bytes | int) -> bytes:
    """Make a hello for a proper name with some field replaced."""
    return records(message(hello_body(server_name(NAME), **fields)))  # type: ignore[arg-type]  # by name


def with_size_off_by(difference: int) -> bytes:
    body = hello_body(server_name(NAME))
    return record(b"\x01" + (len(body) + difference).to_bytes(3) + body)


BODY = hello_body(server_name(NAME))
HALF = len(PLAIN) // 2
NAME_IN_LIST = b"\0" + vector(2, NAME)
MALFORMED = {
    # records
    "empty-first-record": record(b"") + PLAIN,
    "empty-record-within": record(PLAIN[5:HALF]) + record(b"") + record(PLAIN[HALF:]),
    "record-of-16385-bytes": b"\x16\x03\x01\x40\x01",
    "alert-within": record(PLAIN[5:HALF]) + record(b"\x01\x00", kind=21) + record(PLAIN[HALF:]),
    "ccs-within": record(PLAIN[5:HALF]) + record(b"\x01", kind=20) + record(PLAIN[HALF:]),
    "early-data-within": record(PLAIN[5:HALF]) + record(bytes(9), kind=23) + record(PLAIN[HALF:]),
    "dtls-version-within": record(PLAIN[5:HALF]) + record(PLAIN[HALF:], version=0xFEFF),
    # the handshake message
    "server-hello": records(message(BODY, kind=2)),
    "hello-request": records(message(b"", kind=0)),
    "finished": records(message(bytes(12), kind=20)),
    "second-message-in-record": record(message(BODY) + message(BODY)),
    "second-message-in-last-of-two-records": record(PLAIN[5:HALF]) + record(PLAIN[HALF:] + message(BODY)),
    "one-byte-behind-in-record": record(message(BODY) + b"\0"),
    "message-one-shorter-than-record": with_size_off_by(-1),
    "empty-message": records(message(b"")),
    "version-only": records(message(b"\x03\x03")),
    "ends-in-random": records(message(BODY[:33])),
    "ends-before-session-id": records(message(BODY[:34])),
    # the fixed fields
    "version-ssl-3.0": flawed(version=0x0300),
    "version-ssl-2.0": flawed(version=0x0002),
    "version-dtls": flawed(version=0xFEFD),
    "session-id-of-33": flawed(session_id=vector(1, bytes(33))),
    "session-id-overruns": records(message(bytes.fromhex("0303") + bytes(32) + b"\x20" + bytes(31))),
    "no-cipher-suites": flawed(cipher_suites=b"\0\0"),
    "odd-cipher-suites": flawed(cipher_suites=vector(2, b"\x13\x01\x13")),
    "cipher-suites-overrun": flawed(cipher_suites=b"\xff\xfe\x13\x01"),
    "no-compression-methods": flawed(compression_methods=b"\0"),
    "compression-methods-overrun": flawed(compression_methods=b"\xff\0", tail=b""),
    "ends-before-compression-methods": flawed(compression_methods=b"", tail=b""),
    # the extensions
    "half-a-length-of-extensions": flawed(tail=b"\0"),
    "extensions-overrun": flawed(tail=(len(server_name(NAME)) + 1).to_bytes(2) + server_name(NAME)),
    "extensions-too-short": flawed(tail=(len(server_name(NAME)) - 1).to_bytes(2) + server_name(NAME)),
    "bytes-behind-extensions": flawed(tail=vector(2, server_name(NAME)) + b"\0"),
    "extension-header-cut": hello(server_name(NAME), b"\0\x17\0"),
    "extension-overruns": hello(server_name(NAME), b"\0\x17\0\x01"),
    "two-server-names": hello(server_name(NAME), server_name(b"other.example")),
    "same-server-name-twice": hello(server_name(NAME), server_name(NAME)),
    "two-alpn": hello(server_name(NAME), alpn(b"h2"), alpn(b"h2")),
    "two-of-unknown-type": hello(extension(0x1234), server_name(NAME), extension(0x1234)),
    "two-ech": hello(server_name(NAME), ech(), ech()),
    # lengths inside server_name
    "server-name-extension-empty": hello(extension(0)),
    "server-name-half-a-length": hello(extension(0, b"\0")),
    "server-name-list-overruns": hello(extension(0, (len(NAME) + 4).to_bytes(2) + NAME_IN_LIST)),
    "server-name-list-too-short": hello(extension(0, (len(NAME) + 2).to_bytes(2) + NAME_IN_LIST)),
    "server-name-overruns": hello(extension(0, vector(2, b"\0" + (len(NAME) + 1).to_bytes(2) + NAME))),
    "server-name-type-only": hello(extension(0, vector(2, b"\0"))),
    "bytes-behind-server-name-list": hello(extension(0, vector(2, NAME_IN_LIST) + b"\0")),
    # lengths inside ALPN
    "alpn-extension-empty": hello(extension(16)),
    "alpn-no-protocols": hello(alpn()),
    "alpn-empty-protocol": hello(alpn(b"")),
    "alpn-empty-protocol-within": hello(alpn(b"h2", b"", b"http/1.1")),
    "alpn-protocol-overruns": hello(extension(16, vector(2, b"\x03h2"))),
    "alpn-list-overruns": hello(extension(16, b"\0\x04\x02h2")),
    "alpn-bytes-behind-list": hello(extension(16, vector(2, b"\x02h2") + b"\0")),
}


@pytest.mark.parametrize("stream", MALFORMED.values(), ids=MALFORMED)
def test_malformed(stream):
    assert refusal(stream) is Fault.MALFORMED_TLS


def test_structure_is_refused_as_early_as_it_shows():
    start_of_other_message = b"\x16\x03\x01\x02\x00\x02"
    assert bytes_until_answer(start_of_other_message) == len(start_of_other_message)
    record_longer_than_message = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfb"
    assert bytes_until_answer(record_longer_than_message) == len(record_longer_than_message)
    interrupted = record(PLAIN[5:HALF]) + b"\x17"
    assert bytes_until_answer(interrupted) == len(interrupted)


def test_message_longer_than_its_record_waits_for_another_record():
    assert read([with_size_off_by(+1)]) is NEED_MORE


# --- names that are none


BAD_NAMES = {
    "empty": b"",
    "dot": b".",
    "two-trailing-dots": b"registry.corp.example..",
    "leading-dot": b".registry.corp.example",
    "empty-label": b"registry..example",
    "ipv4": b"192.0.2.7",
    "ipv4-trailing-dot": b"192.0.2.7.",
    "ipv4-short": b"127.1",
    "ipv4-packed": b"2130706433",
    "ipv4-hexadecimal": b"0x7f000001",
    "ipv6": b"2001:db8::7",
    "ipv6-in-brackets": b"[2001:db8::7]",
    "nul": b"evil.example\0.corp.example",
    "nul-at-end": NAME + b"\0",
    "line-feed": NAME + b"\n",
    "carriage-return": b"registry\r.corp.example",
    "delete": b"registry\x7f.corp.example",
    "space": b"registry .corp.example",
    "latin-1": b"b\xfccher.example",
    "utf-8": "bücher.example".encode(),
    "ideographic-full-stop": "registry。example".encode(),
    "kelvin-sign": "\u212aorp.example".encode(),
    "underscore": b"_registry.corp.example",
    "port": NAME + b":443",
    "userinfo": b"corp.example@evil.example",
    "percent": b"evil%00.corp.example",
    "asterisk": b"*.corp.example",
    "slash": b"corp.example/",
    "leading-hyphen": b"-corp.example",
    "label-of-64": b"a" * 64 + b".example",
    "name-of-254": b".".join([b"a" * 63] * 3 + [b"b" * 62]),
    "name-of-16000": b"a." * 8000,
    "false-a-label": b"xn--0.example",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_server_name_that_is_no_host_name(name):
    assert refusal(hello(server_name(name))) is Fault.BAD_SERVER_NAME


BAD_LISTS = {
    "empty-list": server_name(),
    "two-names": server_name(NAME, b"other.example"),
    "same-name-twice": server_name(NAME, NAME),
    "other-type": server_name(NAME, kind=1),
    "other-type-255": server_name(NAME, kind=255),
    "byte-behind-the-name": extension(0, vector(2, NAME_IN_LIST + b"\0")),
    "name-one-shorter-than-list": extension(0, vector(2, b"\0" + (len(NAME) - 1).to_bytes(2) + NAME)),
    "host-name-then-other-type": extension(0, vector(2, NAME_IN_LIST + b"\1" + vector(2, NAME))),
}


@pytest.mark.parametrize("listed", BAD_LISTS.values(), ids=BAD_LISTS)
def test_server_name_list_that_does_not_name_exactly_one_host(listed):
    assert refusal(hello(listed)) is Fault.BAD_SERVER_NAME


def test_a_refusal_does_not_repeat_what_the_client_sent():
    answer = read([hello(server_name(b"xn--secret-0.example"))])
    assert isinstance(answer, Refuse)
    assert "secret" not in answer.detail


# --- properties


LABEL = st.from_regex(r"[a-zA-Z]([a-zA-Z0-9]{0,30}[a-zA-Z0-9])?", fullmatch=True)
HOST_NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join)
PROTOCOLS = st.lists(st.binary(min_size=1, max_size=20), max_size=4)
OTHER_KINDS = st.integers(1, 0xFFFF).filter(lambda kind: kind not in (16, 0xFE0D, 0xFFCE))
OTHERS = st.dictionaries(OTHER_KINDS, st.binary(max_size=40), max_size=6)


@given(st.data())
def test_any_hello_in_any_records_in_any_pieces(data):
    name = data.draw(st.none() | HOST_NAME)
    protocols = data.draw(PROTOCOLS)
    encrypted = data.draw(st.booleans())
    parts = [extension(kind, content) for kind, content in data.draw(OTHERS).items()]
    parts += [server_name(name.encode())] if name else []
    parts += [alpn(*protocols)] if protocols else []
    parts += [ech()] if encrypted else []
    stream = hello(*data.draw(st.permutations(parts)), record_size=data.draw(st.integers(5, 400)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(pieces) == ClientHello(name and name.lower(), tuple(protocols), ech=encrypted)


@given(st.binary(max_size=300), st.sampled_from([b"", b"\x16\x03\x01", PLAIN[:9], PLAIN[:43], PLAIN[:-40]]))
def test_arbitrary_bytes_never_raise_and_cuts_do_not_matter(noise, start):
    stream = start + noise
    answer = read([stream])
    assert read(byte_by_byte(stream)) == answer
    if isinstance(answer, Refuse):
        assert answer.detail.isascii()
        assert answer.detail.isprintable()


@given(st.binary(max_size=80))
@example(b"xn--0.example")
@example(b"xn--99999999999999.example")
def test_any_server_name_is_canonical_or_refused(name):
    answer = read([hello(server_name(name))])
    if isinstance(answer, ClientHello):
        assert answer.server_name == canonical_name(name.decode("ascii"))
    else:
        assert isinstance(answer, Refuse)
        assert answer.fault is Fault.BAD_SERVER_NAME


MUTABLE = {
    "openssl": by_openssl("registry.corp.example", protocols=["h2", "http/1.1"]),
    "browser": browser_hello(NAME),
    "three-records": hello(server_name(NAME), alpn(b"h2"), record_size=44),
}


@pytest.fixture(scope="module")
def openssl():
    return OpenSSLServer()


def check_mutant(stream: bytes, openssl: OpenSSLServer) -> None:
    """Whatever became of a hello: the name found stands in its bytes, and OpenSSL finds no other one."""
    answer = read([stream])
    assert read(byte_by_byte(stream)) == answer
    if isinstance(answer, Refuse) and answer.fault is Fault.NOT_TLS:
        assert openssl.names_seen(stream) in ([], [None])
    if not isinstance(answer, ClientHello):
        return
    name = answer.server_name
    assert name is None or name.encode() in stream.lower()
    assert [seen and canonical_name(seen) for seen in openssl.names_seen(stream)] in ([], [name])


@pytest.mark.parametrize("bit", range(8))
def test_no_flipped_bit_makes_openssl_see_another_name(bit, openssl):
    stream = by_openssl("registry.corp.example", newest=TLS12)
    for at in range(len(stream)):
        check_mutant(stream[:at] + bytes([stream[at] ^ 1 << bit]) + stream[at + 1 :], openssl)


@pytest.mark.parametrize("stream", MUTABLE.values(), ids=MUTABLE)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_mutation_makes_openssl_see_another_name(stream, data, openssl):
    mutant = bytearray(stream)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(mutant)))
        end = data.draw(st.sampled_from([start, start + 1, start + 2, start + 20, len(mutant)]))
        mutant[start:end] = data.draw(st.binary(max_size=max(2, min(end - start, 20))))
    check_mutant(bytes(mutant), openssl)


@pytest.mark.parametrize("stream", MUTABLE.values(), ids=MUTABLE)
def test_no_truncation_is_an_answer(stream):
    assert all(read([stream[:size]]) is NEED_MORE for size in range(len(stream)))
