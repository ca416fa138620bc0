"""Denials by every door and in every protocol, each of which the log has to tell, and what is denied cannot write."""

from functools import partial

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, inside, told
from belljar.verify.probes.network.clients import (
    ask,
    ask_proxy,
    ask_socks,
    dial,
    hello,
    loopback,
    refused,
    request,
    say,
)
from belljar.verify.probes.network.dnsclient import look_up, question, unanswered


@told(51, "denials", "what is denied by every door and in every protocol, and then is in the log", denials=9)
def denials(mark: Mark) -> Finding:
    """Early among the probes: there are more denials in a run than the log takes at once."""
    granted, server = mark.granted, loopback(mark.family)

    def second_request() -> bytes:
        first = f"GET / HTTP/1.1\r\nHost: {granted}\r\n\r\n".encode()
        with dial(granted, places.HTTP, mark.family) as sock:
            sock.sendall(first)
            sock.recv(65536)
            return say(sock, request(f"second.{mark.name}"))

    asked = unanswered(
        partial(look_up, server, question(f"{way}.{mark.name}", "A"), tcp=way == "tcp") for way in ("udp", "tcp")
    )
    if not asked.holds:
        return asked
    absolute = f"absolute.{mark.name}"
    return refused(
        lambda: ask(mark.address, places.HTTP, b"address\n"),
        lambda: ask(granted, places.HTTP, request(f"http.{mark.name}"), family=mark.family),
        lambda: ask(granted, places.HTTPS, hello(f"tls.{mark.name}"), family=mark.family),
        lambda: ask_socks(mark, f"socks.{mark.name}", places.HTTP),
        lambda: ask_proxy(mark, f"connect.{mark.name}:80"),
        lambda: ask(server, places.HTTP_PROXY, request(absolute, f"http://{absolute}/")),
        second_request,
    )


@inside(
    51,
    "forgery",
    "names that end a line of the log and begin another; what came of it is seen from outside",
    beside="control-http-v4",
)
def forgery(mark: Mark) -> Finding:
    name = f'{mark.token}"}}\n{{"v":1,"event":"{places.FORGED_EVENT}","sandbox":"\x1b[2J'
    line = f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
    asked = unanswered([partial(look_up, loopback(mark.family), question(name, "A"))])
    if not asked.holds:
        return asked
    return refused(
        lambda: ask_socks(mark, name, places.HTTP),
        lambda: ask_proxy(mark, f"{name}:80"),
        lambda: ask(loopback(mark.family), places.HTTP_PROXY, line),
        lambda: ask(mark.granted, places.HTTP, request(name), family=mark.family),
    )
