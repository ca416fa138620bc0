"""Requests that two readers read differently: the known tricks, and agreement with two other readers."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from belljar.wire.http.head import RequestHead, RequestHeadParser
from belljar.wire.outcome import NEED_MORE, Fault, Refuse
from tests.wire.heads import (
    byte_by_byte,
    check_with_h11,
    check_with_stdlib,
    found,
    get,
    h11_finds_a_request,
    read,
    refusal,
    stdlib_finds_a_request,
)

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
LENGTH = Fault.AMBIGUOUS_HTTP_LENGTH
SYNTAX = Fault.MALFORMED_HTTP
HOST = Fault.BAD_HTTP_HOST

LENGTHS = {
    "cl-te": (LENGTH, "Content-Length: 5\r\nTransfer-Encoding: chunked"),
    "te-cl": (LENGTH, "Transfer-Encoding: chunked\r\nContent-Length: 5"),
    "te-identity-and-cl": (LENGTH, "Transfer-Encoding: identity\r\nContent-Length: 5"),
    "cl-0-te": (LENGTH, "Content-Length: 0\r\nTransfer-Encoding: chunked"),
    "cl-cl": (LENGTH, "Content-Length: 5\r\nContent-Length: 6"),
    "cl-cl-equal": (LENGTH, "Content-Length: 5\r\nContent-Length: 5"),
    "cl-list": (LENGTH, "Content-Length: 5, 6"),
    "cl-list-equal": (LENGTH, "Content-Length: 5, 5"),
    "cl-plus": (LENGTH, "Content-Length: +5"),
    "cl-minus": (LENGTH, "Content-Length: -5"),
    "cl-minus-zero": (LENGTH, "Content-Length: -0"),
    "cl-hexadecimal": (LENGTH, "Content-Length: 0x5"),
    "cl-octal": (LENGTH, "Content-Length: 010"),
    "cl-zeros": (LENGTH, "Content-Length: 00"),
    "cl-underscore": (LENGTH, "Content-Length: 1_0"),
    "cl-fraction": (LENGTH, "Content-Length: 5.0"),
    "cl-exponent": (LENGTH, "Content-Length: 1e1"),
    "cl-two-words": (LENGTH, "Content-Length: 5 5"),
    "cl-word": (LENGTH, "Content-Length: five"),
    "cl-empty": (LENGTH, "Content-Length: "),
    "cl-arabic-digit": (LENGTH, "Content-Length: \xd9\xa5"),
    "cl-superscript": (LENGTH, "Content-Length: \xb2"),
    "cl-beyond-64-bits": (LENGTH, "Content-Length: 18446744073709551621"),
    "cl-huge": (LENGTH, "Content-Length: " + "9" * 5000),
    "cl-two-spaces": (LENGTH, "Content-Length:  5"),
    "cl-space-behind": (LENGTH, "Content-Length: 5 "),
    "cl-tab": (LENGTH, "Content-Length:\t5"),
    "te-te": (LENGTH, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    "te-te-other": (LENGTH, "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow"),
    "te-xchunked": (LENGTH, "Transfer-Encoding: xchunked"),
    "te-chunkedx": (LENGTH, "Transfer-Encoding: chunkedx"),
    "te-chunk": (LENGTH, "Transfer-Encoding: chunk"),
    "te-twice-in-list": (LENGTH, "Transfer-Encoding: chunked, chunked"),
    "te-gzip-chunked": (LENGTH, "Transfer-Encoding: gzip, chunked"),
    "te-chunked-identity": (LENGTH, "Transfer-Encoding: chunked, identity"),
    "te-identity": (LENGTH, "Transfer-Encoding: identity"),
    "te-empty": (LENGTH, "Transfer-Encoding:"),
    "te-comma": (LENGTH, "Transfer-Encoding: chunked,"),
    "te-comma-in-front": (LENGTH, "Transfer-Encoding: ,chunked"),
    "te-parameter": (LENGTH, "Transfer-Encoding: chunked;a=b"),
    "te-quoted": (LENGTH, 'Transfer-Encoding: "chunked"'),
    "te-single-quoted": (LENGTH, "Transfer-Encoding: 'chunked'"),
    "te-tab": (LENGTH, "Transfer-Encoding:\tchunked"),
    "te-tab-behind": (LENGTH, "Transfer-Encoding: chunked\t"),
    "te-two-spaces": (LENGTH, "Transfer-Encoding:  chunked"),
    "te-obs-text": (LENGTH, "Transfer-Encoding: \xffchunked"),
    "te-no-break-space": (LENGTH, "Transfer-Encoding: \xa0chunked"),
    "te-dotless-letters": (LENGTH, "Transfer-Encoding: chun\xe2\x84\xaaed"),
}

SYNTAXES = {
    "space-before-colon": (SYNTAX, "Transfer-Encoding : chunked"),
    "tab-before-colon": (SYNTAX, "Content-Length\t: 5"),
    "space-in-name": (SYNTAX, "Transfer Encoding: chunked"),
    "space-before-name": (SYNTAX, " Transfer-Encoding: chunked"),
    "tab-before-name": (SYNTAX, "\tContent-Length: 5"),
    "underscore": (SYNTAX, "Transfer_Encoding: chunked"),
    "underscore-length": (SYNTAX, "content_length: 5"),
    "obs-fold-value": (SYNTAX, "Transfer-Encoding:\r\n chunked"),
    "obs-fold-tab": (SYNTAX, "Transfer-Encoding:\r\n\tchunked"),
    "obs-fold-hides-header": (SYNTAX, "X: a\r\n Content-Length: 5"),
    "obs-fold-of-spaces": (SYNTAX, "X: a\r\n \r\nContent-Length: 5"),
    "bare-lf": (SYNTAX, "X: a\nTransfer-Encoding: chunked"),
    "bare-cr": (SYNTAX, "X: a\rTransfer-Encoding: chunked"),
    "cr-cr-lf": (SYNTAX, "X: a\r\r\nContent-Length: 5"),
    "lf-cr": (SYNTAX, "X: a\n\rContent-Length: 5"),
    "lf-lf": (SYNTAX, "X: a\n\nGET / HTTP/1.1"),
    "cr-at-line-start": (SYNTAX, "X: a\r\n\rContent-Length: 5"),
    "lf-cr-lf": (SYNTAX, "X: a\n\r\nGET / HTTP/1.1"),
    "vertical-tab": (SYNTAX, "Transfer-Encoding: \x0bchunked"),
    "form-feed": (SYNTAX, "Transfer-Encoding: \x0cchunked"),
    "nul": (SYNTAX, "Transfer-Encoding: chunked\0"),
    "nul-in-name": (SYNTAX, "Transfer-Encoding\0: chunked"),
    "delete": (SYNTAX, "X: \x7f"),
    "escape": (SYNTAX, "X: \x1b[2J"),
    "unit-separator": (SYNTAX, "Content-Length\x1f: 5"),
    "no-colon": (SYNTAX, "Transfer-Encoding chunked"),
    "empty-name": (SYNTAX, ": chunked"),
    "only-colon": (SYNTAX, ":"),
    "name-not-a-word": (SYNTAX, "Content-Length(a): 5"),
    "name-in-brackets": (SYNTAX, "[X]: a"),
    "name-with-slash": (SYNTAX, "a/b: c"),
    "name-with-obs-text": (SYNTAX, "Content-L\xc3\xa9ngth: 5"),
    "second-request-line": (SYNTAX, "GET http://evil.example/ HTTP/1.1"),
    "stripped-length": (SYNTAX, "Content-Length: 5\r\nConnection: Content-Length"),
    "stripped-coding": (SYNTAX, "Transfer-Encoding: chunked\r\nConnection: close, transfer-encoding"),
}

HOSTS = {
    "two-hosts": (HOST, "Host: evil.example"),
    "two-equal-hosts": (HOST, "Host: a.example"),
    "two-hosts-in-other-case": (HOST, "HOST: a.example"),
    "empty-second-host": (HOST, "Host:"),
    "host-with-space-before-colon": (SYNTAX, "Host : evil.example"),
    "folded-host": (SYNTAX, " Host: evil.example"),
    "host-behind-bare-lf": (SYNTAX, "X: a\nHost: evil.example"),
    "stripped-host": (SYNTAX, "Connection: host"),
}

CORPUS = LENGTHS | SYNTAXES | HOSTS


@pytest.mark.parametrize(("fault", "headers"), CORPUS.values(), ids=CORPUS)
def test_a_known_trick_is_refused(fault, headers):
    stream = get(headers)
    assert refusal(stream) is fault
    assert refusal(stream + b"0\r\n\r\n" + SMUGGLED) is fault


@pytest.mark.parametrize("headers", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"])
def test_http_1_0_has_no_transfer_encoding(headers):
    assert refusal(get(headers).replace(b"HTTP/1.1", b"HTTP/1.0")) is LENGTH


def test_lines_do_not_end_with_lf_alone():
    assert refusal(get().replace(b"\r\n", b"\n")) is SYNTAX


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(get().replace(b"\r\n", b"\r"), id="lines that end with CR alone"),
        pytest.param(get().removesuffix(b"\r\n"), id="no empty line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: evil.exam", id="part of a header"),
        pytest.param(b"GET http://evil.example/ HTTP/1.0", id="no line end"),
        pytest.param(b"GET\xa0/", id="part of an odd request line"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM", id="part of the HTTP/2 preface"),
    ],
)
def test_part_of_a_head_is_not_called_another_protocol_when_the_stream_ends(stream):
    for pieces in ([stream], byte_by_byte(stream)):
        parser = RequestHeadParser()
        assert {parser.feed(piece) for piece in pieces} == {NEED_MORE}
        answer = parser.end()
        assert isinstance(answer, Refuse)
        assert answer.fault is SYNTAX
        assert parser.feed(b"\r\n\r\n") == answer


@pytest.mark.parametrize("stream", [b"", b"PING", b"LOGIN\r", b"SSH-2.0-x y"])
def test_part_of_a_line_of_another_protocol_is_told_when_the_stream_ends(stream):
    parser = RequestHeadParser()
    assert parser.feed(stream) is NEED_MORE
    answer = parser.end()
    assert isinstance(answer, Refuse)
    assert answer.fault is Fault.NOT_HTTP


def test_the_end_of_the_stream_does_not_change_an_answer():
    parser = RequestHeadParser()
    assert parser.feed(get()) == parser.end()


def test_a_host_folded_into_the_first_header_is_refused():
    assert refusal(b"GET / HTTP/1.1\r\n Host: evil.example\r\nHost: a.example\r\n\r\n") is SYNTAX


def test_what_looks_like_a_trick_but_can_be_read_in_one_way_only():
    assert found(get("X: Host: evil.example")).host == "a.example"
    assert found(get("X-Host: evil.example")).host == "a.example"
    assert found(get("X: a:b", "Y:", "Z: \t c \t d \t", "\x21#$%&'*+.^_`|~: \x80\xff")).headers[1:] == (
        (b"x", b"a:b"),
        (b"y", b""),
        (b"z", b"c \t d"),
        (b"!#$%&'*+.^_`|~", b"\x80\xff"),
    )


# --- agreement with other readers

NAMES = st.sampled_from(
    ["Accept", "Cookie", "X-Forwarded-For", "TE", "Trailer", "Keep-Alive", "Origin", "Set_It", "a.b", "Range"]
)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=12)
FRAMINGS = st.sampled_from(
    ["", "Content-Length: 0", "Content-Length: 7", "content-length:13", "Transfer-Encoding: chunked"]
)
CONNECTIONS = st.sampled_from(["", "Connection: close", "Connection: keep-alive, te", "Connection: Close,"])


@st.composite
def valid_heads(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """Return a host, a target and a head that has them."""
    host = draw(st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z][a-z0-9]{0,5}){0,3}", fullmatch=True))
    path = "/" + draw(st.from_regex(r"[a-z0-9/?=&%.;:@~-]{0,20}", fullmatch=True))
    target, method = draw(
        st.sampled_from([(path, "GET"), (path, "POST"), (f"http://{host}{path}", "DELETE"), ("*", "OPTIONS")])
    )
    others = draw(st.lists(st.builds("{}: {}".format, NAMES, VALUES), max_size=5))
    headers = [f"Host: {host}", draw(FRAMINGS), draw(CONNECTIONS), *others]
    lines = [f"{method} {target} HTTP/1.1", *draw(st.permutations([line for line in headers if line]))]
    return host, target, "\r\n".join([*lines, "", ""]).encode("latin-1")


@settings(max_examples=200, deadline=None)
@given(valid_heads())
def test_a_valid_head_is_read_as_others_read_it(case):
    host, target, stream = case
    answer = found(stream)
    assert (answer.host, answer.target) == (host, target)
    check_with_h11(stream, answer)
    check_with_stdlib(stream, answer)


LINE_ENDS = [b"\r\n", b"\n", b"\r", b"\r\n "]
BLANKS = [b" ", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0"]
SEPARATORS = [*LINE_ENDS, *BLANKS, b":", b",", b"@", b"/", b"\0"]
WORDS = [b"evil.example", b"Host: evil.example", b"http://", b"CONNECT ", b"HTTP/1.0", b"0"]
HEADERS = [b"\r\nHost: evil.example\r\n", b"\r\nContent-Length: 3\r\n", b"\r\nTransfer-Encoding: chunked\r\n"]
FRAGMENTS = st.sampled_from([*SEPARATORS, *WORDS, *HEADERS])


@st.composite
def mutated_heads(draw: st.DrawFn) -> bytes:
    """Return a head with up to three fragments put in, or in the place of something."""
    *_, stream = draw(valid_heads())
    for fragment in draw(st.lists(FRAGMENTS, max_size=3)):
        at = draw(st.integers(0, len(stream)))
        stream = stream[:at] + fragment + stream[at + draw(st.integers(0, 4)) :]
    return stream


@settings(max_examples=500, deadline=None)
@given(mutated_heads())
def test_a_mutated_head_is_refused_or_read_as_others_read_it(stream):
    answer = read([stream])
    if not isinstance(answer, RequestHead):
        return
    stream = stream[: stream.index(b"\r\n\r\n") + 4]
    named = [line[5:].strip() for line in stream.split(b"\r\n") if line.lower().startswith(b"host:")]
    assert [name.split(b":")[0].removesuffix(b".").decode().lower() for name in named] == [answer.host]
    check_with_h11(stream, answer)
    check_with_stdlib(stream, answer)


@settings(max_examples=300, deadline=None)
@given(st.builds(bytes.__add__, FRAGMENTS | st.binary(max_size=3), mutated_heads()))
@example(b"SSH-2.0-x / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
@example(b"SSH-2.0-x y HTTP/1.1\nHost: evil.example\n\n")
@example(b"GET\x0c/\xa0HTTP/1.1\nHost: evil.example\n\n")
@example(b"POST \0 HTTP/1.1\nHost: evil.example\n\n")
@example(b"\x1d\x85GET / HTTP/1.1\nHost: evil.example\n\n")
def test_what_is_called_another_protocol_is_no_request_to_a_lenient_reader(stream):
    answer = read([stream])
    if isinstance(answer, Refuse) and answer.fault is Fault.NOT_HTTP:
        assert not h11_finds_a_request(stream)
        assert not stdlib_finds_a_request(stream)
