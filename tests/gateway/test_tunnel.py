"""The dialogue with an upstream proxy, without a proxy and, at the end, without a network."""

import socket
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.io.streams import Stream
from belljar.gateway.upstream.tunnel import MAX_HEAD, ProxyError, TunnelDialogue, UnreachableByProxyError, open_tunnel
from tests.gateway.driving import Driver, nothing_left_behind

HELLO = b"SSH-2.0-first words\r\n"
OPENED = {
    "plain": b"HTTP/1.1 200 Connection established\r\n\r\n",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nProxy-Agent: old\r\n\r\n",
    "another 2xx": b"HTTP/1.1 204 No Content\r\n\r\n",
    "a length that means nothing": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "an encoding that means nothing": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "information first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
}


def dialogue() -> TunnelDialogue:
    return TunnelDialogue("plain.test", 443)


class TestRequest:
    @pytest.mark.parametrize(
        ("host", "target"),
        [
            ("plain.test", b"plain.test:443"),
            (ip_address("203.0.113.10"), b"203.0.113.10:443"),
            (ip_address("2001:db8::10"), b"[2001:db8::10]:443"),
        ],
    )
    def test_it_names_the_destination(self, host, target):
        assert TunnelDialogue(host, 443).request == b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target)

    def test_it_has_credentials_where_there_are_any(self):
        request = TunnelDialogue("plain.test", 443, "Basic Y2F0OnNlY3JldA==").request
        assert b"\r\nProxy-Authorization: Basic Y2F0OnNlY3JldA==\r\n" in request


class TestAnswer:
    @pytest.mark.parametrize("head", OPENED.values(), ids=OPENED)
    def test_the_bytes_behind_the_head_belong_to_the_tunnel(self, head):
        assert dialogue().feed(head) == 0
        assert dialogue().feed(head + HELLO) == len(HELLO)

    @pytest.mark.parametrize("head", OPENED.values(), ids=OPENED)
    def test_it_may_come_in_any_two_pieces(self, head):
        whole = head + HELLO
        for cut in range(1, len(whole)):
            talk = dialogue()
            behind = talk.feed(whole[:cut])
            if cut < len(head):
                assert behind is None
                assert talk.feed(whole[cut:]) == len(HELLO)
            else:
                assert behind == cut - len(head)

    @pytest.mark.parametrize("head", OPENED.values(), ids=OPENED)
    def test_it_may_come_byte_by_byte(self, head):
        talk = dialogue()
        assert [talk.feed(head[at : at + 1]) for at in range(len(head))] == [None] * (len(head) - 1) + [0]

    @pytest.mark.parametrize(
        ("status", "error", "text"),
        [
            (407, ProxyError, "does not accept the gateway's credentials"),
            (403, ProxyError, "refuses to connect to it (403 Forbidden)"),
            (302, ProxyError, "refuses to connect to it (302 Found)"),
            (499, ProxyError, "refuses to connect to it (499 no known status)"),
            (502, UnreachableByProxyError, "cannot reach it (502 Bad Gateway)"),
            (504, UnreachableByProxyError, "cannot reach it (504 Gateway Timeout)"),
        ],
    )
    def test_a_refusal_is_told_in_our_own_words(self, status, error, text):
        answer = f"HTTP/1.1 {status} Basic Y2F0OnNlY3JldA==\r\nX: secret\r\nContent-Length: 6\r\n\r\nsecret"
        with pytest.raises(error) as caught:
            dialogue().feed(answer.encode())
        assert text in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "Y2F0" not in str(caught.value)

    @pytest.mark.parametrize(
        "answer",
        [HELLO + b"\r\n", b"HTTP/2 200 OK\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
         b"HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
         b"\x16\x03\x01\x00\x05hello\r\n\r\n"],
    )  # fmt: skip
    def test_what_is_not_http_opens_nothing(self, answer):
        with pytest.raises(ProxyError):
            dialogue().feed(answer)

    def test_blanks_do_not_take_long(self):
        with pytest.raises(ProxyError, match="does not speak HTTP"):  # not after minutes, as a reader that goes back
            dialogue().feed(b"HTTP/1.1 200 OK\r\nx:" + b" " * 120_000 + b"\0\r\n\r\n")

    def test_an_end_opens_nothing(self):
        talk = dialogue()
        talk.feed(b"HTTP/1.1 200")
        with pytest.raises(ProxyError, match="hung up"):
            talk.feed(b"")

    @pytest.mark.parametrize(
        ("first", "then"),
        [(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), (b"HTTP/1.1 200 OK", b"k"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")],
        ids=["headers", "a line", "information"],
    )
    def test_an_answer_without_end_is_cut_off(self, first, then):
        talk = dialogue()
        assert talk.feed(first + then) is None
        with pytest.raises(ProxyError):
            talk.feed(then * (MAX_HEAD // len(then)))

    @given(st.lists(st.one_of(st.binary(max_size=50), st.sampled_from([b"HTTP/1.1 200 OK\r\n", b"\r\n", b"A: b\r\n"]))))
    def test_any_bytes_are_an_answer_or_an_error(self, pieces):
        talk = dialogue()
        for piece in filter(None, pieces):
            try:
                if talk.feed(piece) is not None:
                    break
            except OSError:
                break


class TestOpening:
    """Over a socket, whose other end is in our hand."""

    @pytest.fixture
    def driver(self):
        driver = Driver()
        yield driver
        driver.loop.close()

    @pytest.fixture
    def ends(self, driver):
        with nothing_left_behind(driver):
            ours, proxy = socket.socketpair()
            ours.setblocking(False)
            stream = Stream(driver.loop, ours)
            yield stream, proxy
            stream.close()
            proxy.close()

    @pytest.mark.parametrize("cut", [1, 20, len(OPENED["plain"]) - 1, len(OPENED["plain"]), len(OPENED["plain"]) + 3])
    def test_the_servers_first_words_stay_in_the_socket(self, driver, ends, cut):
        stream, proxy = ends
        opening = driver.start(open_tunnel(stream, dialogue()))
        whole = OPENED["plain"] + HELLO
        proxy.sendall(whole[:cut])
        driver.settle()
        proxy.sendall(whole[cut:])
        driver.result(opening)
        assert proxy.recv(999).startswith(b"CONNECT plain.test:443 ")
        assert stream.socket.recv(999) == HELLO

    def test_a_proxy_that_hangs_up(self, driver, ends):
        stream, proxy = ends
        opening = driver.start(open_tunnel(stream, dialogue()))
        proxy.sendall(b"HTTP/1.1 ")
        proxy.shutdown(socket.SHUT_WR)
        with pytest.raises(ProxyError, match="hung up"):
            driver.result(opening)
