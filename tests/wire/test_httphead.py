"""Whom is a request for, where does it end, and what is not one, however it is cut?"""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.wire.http.framing import CHUNKED, NO_BODY, Body
from belljar.wire.http.head import HTTP2_PREFACE, MAX_HEAD, Http2Preface, RequestHead, RequestHeadParser
from belljar.wire.http.target import TargetForm
from belljar.wire.outcome import NEED_MORE, Fault
from tests.wire.heads import (
    byte_by_byte,
    bytes_until_answer,
    check_with_h11,
    check_with_stdlib,
    found,
    get,
    head,
    read,
    refusal,
)

BROWSER = head(
    "GET /search?q=hello+world HTTP/1.1",
    "Host: WWW.Corp.Example:8080",
    "Connection: keep-alive",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
    "Cookie: session=0123456789abcdef; theme=dark",
)


def test_a_browsers_request():
    answer = found(BROWSER)
    assert answer == RequestHead(
        method="GET",
        target="/search?q=hello+world",
        form=TargetForm.ORIGIN,
        version="1.1",
        host="www.corp.example",
        port=8080,
        headers=answer.headers,
        body=NO_BODY,
        keep_alive=True,
        upgrade=None,
        expect_continue=False,
    )
    assert answer.headers[0] == (b"host", b"WWW.Corp.Example:8080")
    assert answer.headers[-1] == (b"cookie", b"session=0123456789abcdef; theme=dark")


# --- whom it is for

HOSTS = {
    "name": ("a.example", "a.example", None),
    "case": ("A.Example", "a.example", None),
    "trailing-dot": ("a.example.", "a.example", None),
    "a-label": ("xn--bcher-kva.example", "xn--bcher-kva.example", None),
    "port": ("a.example:8080", "a.example", 8080),
    "default-port": ("a.example:80", "a.example", 80),
    "ipv4": ("192.0.2.1", IPv4Address("192.0.2.1"), None),
    "ipv4-port": ("192.0.2.1:81", IPv4Address("192.0.2.1"), 81),
    "ipv6": ("[2001:DB8::1]", IPv6Address("2001:db8::1"), None),
    "ipv6-port": ("[2001:db8:0::1]:81", IPv6Address("2001:db8::1"), 81),
}


@pytest.mark.parametrize(("text", "host", "port"), HOSTS.values(), ids=HOSTS)
def test_the_host_is_read_in_its_one_spelling(text, host, port):
    answer = found(head("GET / HTTP/1.1", f"Host: {text}"))
    assert (answer.form, answer.host, answer.port) == (TargetForm.ORIGIN, host, port)


BAD_HOSTS = {
    "empty": "",
    "userinfo": "a.example@evil.example",
    "port-and-userinfo": "a.example:80@evil.example",
    "path": "a.example/evil",
    "url": "http://a.example",
    "query": "a.example?evil",
    "fragment": "a.example#evil",
    "backslash": "a.example\\evil",
    "percent": "evil%00.a.example",
    "underscore": "a_b.example",
    "list": "a.example, evil.example",
    "two-words": "a.example evil.example",
    "tab": "a.example\tevil.example",
    "utf-8": "b\xc3\xbccher.example",
    "latin-1": "b\xfccher.example",
    "ideographic-dot": "a\xe3\x80\x82example",
    "brackets-around-name": "[a.example]",
    "brackets-around-ipv4": "[192.0.2.1]",
    "ipv6-without-brackets": "2001:db8::1",
    "ipv6-zone": "[fe80::1%eth0]",
    "ipv6-unclosed": "[2001:db8::1",
    "short-ipv4": "127.1",
    "hexadecimal-ipv4": "0x7f000001",
    "decimal-ipv4": "2130706433",
    "octal-ipv4": "0177.0.0.1",
    "empty-port": "a.example:",
    "port-0": "a.example:0",
    "port-65536": "a.example:65536",
    "port-with-zero": "a.example:080",
    "port-signed": "a.example:+80",
    "port-word": "a.example:http",
    "two-ports": "a.example:80:81",
    "only-port": ":80",
    "only-dot": ".",
    "empty-label": "a..example",
    "too-long": "a." * 130 + "example",
    "space-in-front": " a.example",
    "space-behind": "a.example ",
    "tab-behind": "a.example\t",
}


@pytest.mark.parametrize("text", BAD_HOSTS.values(), ids=BAD_HOSTS)
def test_a_host_that_could_be_read_otherwise_is_refused(text):
    assert refusal(head("GET / HTTP/1.1", f"Host: {text}")) is Fault.BAD_HTTP_HOST


TARGETS = {
    "origin": ("GET /a?b=c HTTP/1.1", "a.example", TargetForm.ORIGIN, None),
    "origin-1.0": ("GET / HTTP/1.0", "a.example:81", TargetForm.ORIGIN, 81),
    "two-slashes": ("GET //evil.example/ HTTP/1.1", "a.example", TargetForm.ORIGIN, None),
    "url-in-path": ("GET /http://evil.example/ HTTP/1.1", "a.example", TargetForm.ORIGIN, None),
    "odd-characters": ('GET /|^"<>{}\\`[]@ HTTP/1.1', "a.example", TargetForm.ORIGIN, None),
    "options": ("OPTIONS * HTTP/1.1", "a.example", TargetForm.ASTERISK, None),
    "options-path": ("OPTIONS / HTTP/1.1", "a.example", TargetForm.ORIGIN, None),
    "webdav": ("VERSION-CONTROL /a HTTP/1.1", "a.example", TargetForm.ORIGIN, None),
    "absolute": ("GET http://a.example/b HTTP/1.1", "a.example", TargetForm.ABSOLUTE, 80),
    "absolute-case": ("GET HTTP://A.EXAMPLE./b HTTP/1.1", "a.example", TargetForm.ABSOLUTE, 80),
    "absolute-no-path": ("GET http://a.example HTTP/1.1", "a.example:80", TargetForm.ABSOLUTE, 80),
    "absolute-query": ("GET http://a.example?b/@c HTTP/1.1", "a.example", TargetForm.ABSOLUTE, 80),
    "absolute-port": ("GET http://a.example:81/ HTTP/1.1", "a.example:81", TargetForm.ABSOLUTE, 81),
    "absolute-port-80": ("GET http://a.example:80/ HTTP/1.1", "a.example", TargetForm.ABSOLUTE, 80),
    "absolute-1.0": ("GET http://a.example/ HTTP/1.0", None, TargetForm.ABSOLUTE, 80),
    "connect": ("CONNECT a.example:443 HTTP/1.1", "a.example:443", TargetForm.AUTHORITY, 443),
    "connect-no-port-in-host": ("CONNECT a.example:443 HTTP/1.1", "a.example", TargetForm.AUTHORITY, 443),
    "connect-1.0": ("CONNECT A.example:22 HTTP/1.0", None, TargetForm.AUTHORITY, 22),
}


@pytest.mark.parametrize(("line", "host", "form", "port"), TARGETS.values(), ids=TARGETS)
def test_each_form_of_target(line, host, form, port):
    stream = head(line) if host is None else head(line, f"Host: {host}")
    answer = found(stream)
    assert (answer.form, answer.host, answer.port) == (form, "a.example", port)
    assert [answer.method, answer.target, f"HTTP/{answer.version}"] == line.split(" ")
    check_with_h11(stream, answer)
    check_with_stdlib(stream, answer)


def test_connect_to_an_ipv6_address():
    answer = found(head("CONNECT [2001:db8::1]:443 HTTP/1.1", "Host: [2001:db8:0:0::1]:443"))
    assert (answer.method, answer.host, answer.port) == ("CONNECT", IPv6Address("2001:db8::1"), 443)


BAD_TARGETS = {
    "no-host": (Fault.BAD_HTTP_HOST, "GET / HTTP/1.1", None),
    "no-host-1.0": (Fault.BAD_HTTP_HOST, "GET / HTTP/1.0", None),
    "no-host-options": (Fault.BAD_HTTP_HOST, "OPTIONS * HTTP/1.0", None),
    "no-host-absolute": (Fault.BAD_HTTP_HOST, "GET http://a.example/ HTTP/1.1", None),
    "no-host-connect": (Fault.BAD_HTTP_HOST, "CONNECT a.example:443 HTTP/1.1", None),
    "absolute-other-host": (Fault.BAD_HTTP_HOST, "GET http://evil.example/ HTTP/1.1", "a.example"),
    "absolute-other-port": (Fault.BAD_HTTP_HOST, "GET http://a.example:81/ HTTP/1.1", "a.example"),
    "absolute-other-port-in-host": (Fault.BAD_HTTP_HOST, "GET http://a.example/ HTTP/1.1", "a.example:443"),
    "absolute-userinfo": (Fault.BAD_HTTP_HOST, "GET http://a.example@evil.example/ HTTP/1.1", "a.example"),
    "absolute-password": (Fault.BAD_HTTP_HOST, "GET http://b:80@a.example/ HTTP/1.1", "a.example"),
    "absolute-backslash": (Fault.BAD_HTTP_HOST, "GET http://a.example\\@evil.example/ HTTP/1.1", "a.example"),
    "absolute-empty-host": (Fault.BAD_HTTP_HOST, "GET http:///path HTTP/1.1", "a.example"),
    "absolute-bad-port": (Fault.BAD_HTTP_HOST, "GET http://a.example:0/ HTTP/1.1", "a.example"),
    "absolute-percent": (Fault.BAD_HTTP_HOST, "GET http://a%2eexample/ HTTP/1.1", "a.example"),
    "absolute-bad-host-header": (Fault.BAD_HTTP_HOST, "GET http://a.example/ HTTP/1.1", ""),
    "https": (Fault.MALFORMED_HTTP, "GET https://a.example/ HTTP/1.1", "a.example"),
    "other-scheme": (Fault.MALFORMED_HTTP, "GET ftp://a.example/ HTTP/1.1", "a.example"),
    "one-slash": (Fault.MALFORMED_HTTP, "GET http:/a.example/ HTTP/1.1", "a.example"),
    "no-scheme": (Fault.MALFORMED_HTTP, "GET a.example/ HTTP/1.1", "a.example"),
    "authority-without-connect": (Fault.MALFORMED_HTTP, "GET a.example:80 HTTP/1.1", "a.example:80"),
    "asterisk-without-options": (Fault.MALFORMED_HTTP, "GET * HTTP/1.1", "a.example"),
    "asterisk-and-more": (Fault.MALFORMED_HTTP, "OPTIONS */a HTTP/1.1", "a.example"),
    "question-mark": (Fault.MALFORMED_HTTP, "GET ?a HTTP/1.1", "a.example"),
    "connect-path": (Fault.BAD_HTTP_HOST, "CONNECT / HTTP/1.1", "a.example"),
    "connect-url": (Fault.BAD_HTTP_HOST, "CONNECT http://a.example:80/ HTTP/1.1", "a.example"),
    "connect-no-port": (Fault.BAD_HTTP_HOST, "CONNECT a.example HTTP/1.1", "a.example"),
    "connect-port-0": (Fault.BAD_HTTP_HOST, "CONNECT a.example:0 HTTP/1.1", "a.example"),
    "connect-userinfo": (Fault.BAD_HTTP_HOST, "CONNECT b@a.example:443 HTTP/1.1", "a.example:443"),
    "connect-slash": (Fault.BAD_HTTP_HOST, "CONNECT a.example:443/ HTTP/1.1", "a.example:443"),
    "connect-asterisk": (Fault.BAD_HTTP_HOST, "CONNECT * HTTP/1.1", "a.example"),
    "connect-other-host": (Fault.BAD_HTTP_HOST, "CONNECT a.example:443 HTTP/1.1", "evil.example:443"),
    "connect-other-port": (Fault.BAD_HTTP_HOST, "CONNECT a.example:443 HTTP/1.1", "a.example:80"),
}


@pytest.mark.parametrize(("fault", "line", "host"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_targets_that_name_no_host_or_two(fault, line, host):
    assert refusal(head(line) if host is None else head(line, f"Host: {host}")) is fault


# --- the request line

BAD_LINES = {
    "lower-case-method": "get / HTTP/1.1",
    "mixed-case-method": "Get / HTTP/1.1",
    "lower-case-connect": "connect a.example:443 HTTP/1.1",
    "digit-in-method": "GET2 / HTTP/1.1",
    "underscore-in-method": "GET_IT / HTTP/1.1",
    "long-method": "G" * 33 + " / HTTP/1.1",
    "longer-method": "G" * 256 + " / HTTP/1.1",
    "longer-method-behind-no-break-space": "\xa0" + "G" * 256 + " / HTTP/1.1",
    "method-that-looks-like-ssh": "SSH-2.0-x / HTTP/1.1",
    "two-spaces-before-target": "GET  / HTTP/1.1",
    "two-spaces-before-version": "GET /  HTTP/1.1",
    "tab": "GET\t/ HTTP/1.1",
    "tab-before-version": "GET /\tHTTP/1.1",
    "vertical-tabs": "GET\x0b/\x0bHTTP/1.1",
    "form-feeds": "GET\x0c/\x0cHTTP/1.1",
    "bare-crs": "GET\r/\rHTTP/1.1",
    "file-separators": "GET\x1c/\x1cHTTP/1.1",
    "unit-separators": "GET\x1f/\x1fHTTP/1.1",
    "next-lines": "GET\x85/\x85HTTP/1.1",
    "no-break-spaces": "GET\xa0/\xa0HTTP/1.1",
    "no-break-space-in-front": "\xa0GET / HTTP/1.1",
    "many-no-break-spaces-in-front": "\xa0" * 99 + "GET / HTTP/1.1",
    "no-break-space-and-space-in-front": "\xa0 GET / HTTP/1.1",
    "file-separator-in-front": "\x1cGET / HTTP/1.1",
    "space-in-front": " GET / HTTP/1.1",
    "tab-in-front": "\tGET / HTTP/1.1",
    "space-behind": "GET / HTTP/1.1 ",
    "space-in-target": "GET /a b HTTP/1.1",
    "two-versions": "GET / HTTP/1.1 HTTP/1.1",
    "empty-target": "GET  HTTP/1.1",
    "no-target": "GET HTTP/1.1",
    "no-version": "GET /",
    "no-version-no-path": "GET a.html",
    "no-version-no-get": "POST /",
    "http-0.9": "GET / HTTP/0.9",
    "http-1.2": "GET / HTTP/1.2",
    "http-1.10": "GET / HTTP/1.10",
    "http-01.1": "GET / HTTP/01.1",
    "http-1": "GET / HTTP/1",
    "http-2.0": "GET / HTTP/2.0",
    "http-3": "GET / HTTP/3",
    "lower-case-version": "GET / http/1.1",
    "space-in-version": "GET / HTTP/ 1.1",
    "comma-version": "GET / HTTP/1,1",
    "other-protocol": "GET / HTTPS/1.1",
    "fragment": "GET /a#b HTTP/1.1",
    "utf-8-target": "GET /\xc3\xbc HTTP/1.1",
    "nul-in-target": "GET /\0 HTTP/1.1",
    "nul-before-target": "POST \0/ HTTP/1.1",
    "nul-for-target": "POST \0 HTTP/1.1",
    "delete-in-target": "GET /\x7f HTTP/1.1",
    "escape-in-version": "GET / HTTP/1.1\x1b",
    "preface-of-1.1": "PRI * HTTP/1.1",
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_a_request_line_that_some_server_might_serve_is_malformed(line):
    assert refusal(head(line, "Host: a.example")) is Fault.MALFORMED_HTTP


@pytest.mark.parametrize("blank", [b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" \r\n"])
def test_nothing_may_stand_before_the_request_line(blank):
    assert refusal(blank + get()) is Fault.MALFORMED_HTTP
    assert bytes_until_answer(blank + get()) == 1


# --- what is not HTTP: the answer comes where the stream ends

OTHER_PROTOCOLS = {
    "tls": b"\x16",
    "ssl-2": b"\x80",
    "postgres": b"\x00",
    "mqtt": b"\x10",
    "json": b"{",
    "utf-8": b"\xc3",
    "mysql-login": b"\xa0\x00",
    "minecraft": b"\x1c\x00",
    "form-feed": b"A\x0c\x00\n",
    "quote": b'"',
    "amqp": b"AMQP\x00",
    "http-response": b"HTTP/",
    "redis": b"*2\r\n",
    "redis-inline": b"PING\r\n",
    "stomp": b"CONNECT\n",
    "binary-after-letters": b"GET\x00",
    "ssh": b"SSH-2.0-OpenSSH_9.6p1\r\n",
    "ssh-with-comment": b"SSH-2.0-OpenSSH_9.6p1 Debian-3\r\n",
    "ssh-with-long-name": b"SSH-2.0-" + b"x" * 200 + b"\r\n",
    "smtp": b"EHLO a.example\r\n",
    "memcached": b"get key\r\n",
    "irc": b"NICK a\n",
    "sip": b"INVITE sip:a@a.example SIP/2.0\r\n",
    "text-then-binary": b"USER a\x00\n",
    "git": b"0033git-upload-pack /project.git\x00host=a.example\x000032want 0123456789\n",
}


@pytest.mark.parametrize("stream", OTHER_PROTOCOLS.values(), ids=OTHER_PROTOCOLS)
def test_another_protocol_is_told_at_the_first_byte_that_settles_it(stream):
    assert refusal(stream) is Fault.NOT_HTTP
    assert bytes_until_answer(stream + b"\r\n\r\n") == len(stream)


# --- HTTP/2


def test_the_http2_preface_is_found_at_its_last_byte():
    parser = RequestHeadParser()
    assert parser.feed(HTTP2_PREFACE + b"\0\0\0\4") == Http2Preface()
    assert parser.trailing == b"\0\0\0\4"
    assert bytes_until_answer(HTTP2_PREFACE) == len(HTTP2_PREFACE)


@pytest.mark.parametrize("size", range(len(b"PRI * HTTP"), len(HTTP2_PREFACE)))
def test_a_broken_http2_preface_is_malformed(size):
    assert refusal(HTTP2_PREFACE[:size] + b"?\r\n\r\n") is Fault.MALFORMED_HTTP


def test_other_methods_may_begin_like_the_preface():
    assert found(head("PROPFIND / HTTP/1.1", "Host: a.example")).method == "PROPFIND"
    assert found(head("PRINT / HTTP/1.1", "Host: a.example")).method == "PRINT"


# --- where it ends, and what may follow

BODIES = {
    "none": ([], NO_BODY),
    "empty": (["Content-Length: 0"], NO_BODY),
    "length": (["Content-Length: 42"], Body(length=42)),
    "no-space": (["Content-Length:42"], Body(length=42)),
    "18-digits": (["Content-Length: 999999999999999999"], Body(length=999999999999999999)),
    "chunked": (["Transfer-Encoding: chunked"], CHUNKED),
    "chunked-case": (["transfer-encoding:CHUNKED"], CHUNKED),
}


@pytest.mark.parametrize(("headers", "body"), BODIES.values(), ids=BODIES)
def test_the_body(headers, body):
    stream = head("POST / HTTP/1.1", "Host: a.example", *headers)
    answer = found(stream)
    assert answer.body == body
    if "CHUNKED" not in str(headers):  # h11 writes it in lower case
        check_with_h11(stream, answer)


@pytest.mark.parametrize("length", ["1", "100"])
def test_connect_has_no_body(length):
    connect = ("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")
    assert refusal(head(*connect, f"Content-Length: {length}")) is Fault.AMBIGUOUS_HTTP_LENGTH
    assert refusal(head(*connect, "Transfer-Encoding: chunked")) is Fault.AMBIGUOUS_HTTP_LENGTH
    assert found(head(*connect, "Content-Length: 0")).body == NO_BODY


CONNECTIONS = {
    "1.1": ("1.1", [], True),
    "1.1-close": ("1.1", ["Connection: close"], False),
    "1.1-keep-alive": ("1.1", ["Connection: keep-alive"], True),
    "1.1-close-among-others": ("1.1", ["Connection: te , CLOSE,"], False),
    "1.1-close-in-second": ("1.1", ["Connection: keep-alive", "Connection: close"], False),
    "1.1-closed": ("1.1", ["Connection: closed"], True),
    "1.0": ("1.0", [], False),
    "1.0-close": ("1.0", ["Connection: close"], False),
}


@pytest.mark.parametrize(("version", "headers", "keep_alive"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_whether_another_request_may_follow(version, headers, keep_alive):
    stream = head(f"GET / HTTP/{version}", "Host: a.example", *headers)
    answer = found(stream)
    assert answer.keep_alive is keep_alive
    check_with_h11(stream, answer)


@pytest.mark.parametrize(("option", "keep_alive"), [("Keep-Alive", True), ("keep-alive, close", False)])
def test_http_1_0_stays_only_if_asked_to(option, keep_alive):
    # h11 always closes after HTTP/1.0, so it is no witness here.
    assert found(head("GET / HTTP/1.0", "Host: a", f"Connection: {option}")).keep_alive is keep_alive


@pytest.mark.parametrize("named", ["host", "Content-Length", "close, TRANSFER-ENCODING", "a,\thost\t"])
def test_connection_cannot_take_away_what_decides(named):
    assert refusal(get(f"Connection: {named}")) is Fault.MALFORMED_HTTP


@pytest.mark.parametrize("options", ["close;a", "keep alive", '"close"', "cl\xf6se", "close/1"])
def test_connection_is_a_list_of_words(options):
    assert refusal(get(f"Connection: {options}")) is Fault.MALFORMED_HTTP


def test_an_upgrade():
    assert found(get("Connection: Upgrade", "Upgrade: websocket")).upgrade == b"websocket"
    assert found(get("Connection: a, upgrade", "Upgrade: h2c", "Upgrade: b")).upgrade == b"h2c, b"
    assert found(get("Connection: upgrade")).upgrade is None


def test_an_upgrade_that_only_some_servers_would_take_up_is_refused():
    assert refusal(get("Upgrade: h2c")) is Fault.MALFORMED_HTTP
    assert refusal(get("Upgrade: h2c", "Connection: close")) is Fault.MALFORMED_HTTP
    old = head("GET / HTTP/1.0", "Host: a.example", "Connection: upgrade", "Upgrade: h2c")
    assert refusal(old) is Fault.MALFORMED_HTTP


def test_an_expectation():
    assert found(get("Content-Length: 1", "Expect: 100-Continue")).expect_continue
    assert not found(get("Content-Length: 1")).expect_continue


@pytest.mark.parametrize("expectation", ["", "200-ok", "y 100-continue", "100-continue, 100-continue"])
def test_other_expectations_are_refused(expectation):
    assert refusal(get(f"Expect: {expectation}")) is Fault.MALFORMED_HTTP


def test_an_expectation_that_only_some_servers_would_meet_is_refused():
    assert refusal(get("Expect: 100-continue", "Expect: 100-continue")) is Fault.MALFORMED_HTTP
    old = head("POST / HTTP/1.0", "Host: a.example", "Content-Length: 1", "Expect: 100-continue")
    assert refusal(old) is Fault.MALFORMED_HTTP


# --- bounds


def head_of(size: int) -> bytes:
    stream = get("X-Padding: ")
    return get("X-Padding: " + "a" * (size - len(stream)))


def test_the_largest_head():
    assert len(head_of(MAX_HEAD)) == MAX_HEAD
    assert read([head_of(MAX_HEAD)]) == read(byte_by_byte(head_of(MAX_HEAD)))
    assert isinstance(read([head_of(MAX_HEAD)]), RequestHead)
    assert isinstance(read([head_of(MAX_HEAD), b"body" * MAX_HEAD]), RequestHead)


@pytest.mark.parametrize("excess", range(1, 6))
def test_one_byte_more_is_too_large(excess):
    assert refusal(head_of(MAX_HEAD + excess)) is Fault.TOO_LARGE


@pytest.mark.parametrize(
    "stream",
    [
        b"GET /" + b"a" * MAX_HEAD,
        b"GET /" + b"a" * (MAX_HEAD - 6) + b"\r\nHost: a\r\n\r\n",
        b"SSH " + b" " * MAX_HEAD + b"\r\n",
        b"GET / HTTP/1.1\r\nA: " + b" " * MAX_HEAD,
        b"GET / HTTP/1.1\r\n" + b"a:\r\n" * MAX_HEAD,
    ],
    ids=["long-line", "long-line-with-end", "long-line-of-spaces", "long-header", "many-lines"],
)
def test_a_stream_without_end_is_too_large(stream):
    assert refusal(stream) is Fault.TOO_LARGE
    assert bytes_until_answer(stream) == MAX_HEAD


def test_the_number_of_header_lines_is_bounded():
    assert len(found(get(*["A: b"] * 255)).headers) == 256
    assert refusal(get(*["A: b"] * 256)) is Fault.TOO_LARGE


# --- streams


def test_what_was_received_and_what_came_behind():
    parser = RequestHeadParser()
    assert parser.feed(BROWSER[:10]) is NEED_MORE
    assert (parser.received, parser.trailing) == (BROWSER[:10], b"")
    assert isinstance(parser.feed(BROWSER[10:] + b"body\0\n\r"), RequestHead)
    assert parser.received == BROWSER + b"body\0\n\r"
    assert parser.trailing == b"body\0\n\r"


def test_after_an_answer_further_pieces_are_ignored_and_not_kept():
    for stream in (BROWSER, HTTP2_PREFACE, b"\x16"):
        parser = RequestHeadParser()
        answer = parser.feed(stream)
        assert parser.feed(b"more") is answer
        assert parser.received == stream
        assert parser.trailing == b""


def test_every_request_on_a_connection_shows_its_own_host():
    first = head("POST / HTTP/1.1", "Host: a.example", "Content-Length: 5")
    parser = RequestHeadParser()
    parser.feed(first + b"hello" + head("GET / HTTP/1.1", "Host: evil.example"))
    assert found(parser.trailing[5:]).host == "evil.example"


@pytest.mark.parametrize("cut", range(len(BROWSER)))
def test_cut_anywhere(cut):
    parser = RequestHeadParser()
    assert parser.feed(BROWSER[:cut]) is NEED_MORE
    assert parser.feed(BROWSER[cut:]) == read([BROWSER])


@settings(max_examples=300, deadline=None)
@given(stream=st.binary(max_size=60), prefix=st.sampled_from([b"", b"GET / HTTP/1.1\r\n", get()[:-2]]))
def test_any_bytes_get_an_answer_that_does_not_depend_on_how_they_are_cut(prefix, stream):
    assert read(byte_by_byte(prefix + stream)) == read([prefix + stream])
