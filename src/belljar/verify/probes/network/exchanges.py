"""What takes a server's part, too: one that asks again, that switches protocols, or that says more than was asked."""

from contextlib import suppress
from functools import partial
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, network
from belljar.verify.probes.network.clients import ask, dial, hello, is_witness, refused, request, say, summary

_OFFERS: Final = ("h2c", "TLS/1.2", "websocket, h2c")


@network(16, "second-hello", "a denied name in the second hello, which a granted server asks for", beside="tls")
def second_hello(mark: Mark) -> Finding:
    name = mark.leading_to("retry")

    def ask_twice(second: str) -> bytes:
        sock = dial(name, places.HTTPS, mark.family)
        sock.sendall(hello(name))
        if not sock.recv(65536).startswith(b"\x16\3\3"):
            raise RuntimeError("the server did not ask for another hello")
        return say(sock, hello(second))

    if not is_witness(ask_twice(name)):
        raise RuntimeError("a second hello for the same name was not passed on")
    return refused(partial(ask_twice, mark.name))


@network(17, "upgrade", "offers to go on in a protocol that cannot be checked: HTTP/2 in plain text, TLS")
def upgrade(mark: Mark) -> Finding:
    """Such a request is answered, in HTTP/1; but nobody outside may hear of the offer."""
    answers = [ask(mark.granted, places.HTTP, _with_offer(mark, offer), family=mark.family) for offer in _OFFERS]
    return Finding(all(map(is_witness, answers)), f"{summary(answers[0])}, which has heard of no offer")


def _with_offer(mark: Mark, offer: str) -> bytes:
    lines = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {offer}\r\nHTTP2-Settings: {mark.token}\r\n"
    return f"GET / HTTP/1.1\r\nHost: {mark.granted}\r\n{lines}\r\n".encode()


@network(18, "unasked-response", "a server's second response to one request, and a switch that nobody has offered")
def unasked_response(mark: Mark) -> Finding:
    with dial(mark.granted, places.HTTP, mark.family) as sock:
        sock.sendall(f"GET /twice HTTP/1.1\r\nHost: {mark.granted}\r\n\r\n".encode())
        answers = b""
        with suppress(TimeoutError):
            while data := sock.recv(65536):
                answers += data
    if (count := answers.count(places.MARKER.encode())) != 1:
        return Finding(holds=False, evidence=f"{count} responses to one request")
    return refused(lambda: ask(mark.granted, places.HTTP, request(mark.granted, "/switch"), family=mark.family))
