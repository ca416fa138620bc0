"""DNS: the way out that most sandboxes leave open."""

import shutil
import subprocess
from functools import partial
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, inside, network
from belljar.verify.probes.network.clients import (
    ask,
    ask_proxy,
    ask_socks,
    hello,
    is_witness,
    loopback,
    refused,
    request,
    send,
)
from belljar.verify.probes.network.dnsclient import RECORD_TYPES, look_up, question, unanswered

_PUBLIC_RESOLVERS: Final = {4: ("8.8.8.8", "1.1.1.1"), 6: ("2001:4860:4860::8888", "2606:4700:4700::1111")}
_TARGETS: Final = (*_PUBLIC_RESOLVERS[4], *_PUBLIC_RESOLVERS[6])
_TOOLS: Final = (("getent", "hosts"), ("getent", "ahosts"), ("ping", "-c1", "-W1"), ("host", "-W1"), ("nslookup",))


@network(7, "tunnel", "data in questions, for every type, over UDP and TCP, with and without EDNS", beside="dns")
def tunnel(mark: Mark) -> Finding:
    messages = [question(mark.name, kind, edns=edns) for kind in RECORD_TYPES for edns in (False, True)]
    server = loopback(mark.family)
    return unanswered(partial(look_up, server, message, tcp=tcp) for message in messages for tcp in (False, True))


@network(7, "odd-questions", "data in questions that are not for a host's name", beside="dns")
def odd_questions(mark: Mark) -> Finding:
    names = (
        f"_{mark.token}._tcp.{mark.granted}",
        f"{mark.token} x.{mark.granted}",
        mark.token,
        f"{mark.token}.internal",
    )
    messages = [question(name, kind) for name in names for kind in ("TXT", "SRV", "A")]
    server = loopback(mark.family)
    return unanswered(partial(look_up, server, message) for message in messages)


@network(8, "granted-zone", "data in names under a granted wildcard, which are asked for and not dialled", beside="dns")
def granted_zone(mark: Mark) -> Finding:
    """Such names have an answer; but nobody outside may hear of the question."""
    names = [f"{mark.token}{'0123456789abcdef' * 2}{number}.{mark.granted}" for number in range(20)]
    for name in names:
        for kind in ("A", "AAAA", "TXT"):
            look_up(loopback(mark.family), question(name, kind))
    return Finding(holds=True, evidence=f"{len(names)} names asked for")


@inside(8, "many-names", "more names under a granted wildcard than may be used", beside="control-socks-v4")
def many_names(mark: Mark) -> Finding:
    """To ask is enough to use a name up. But only a name that is dialled is heard of outside."""
    server = loopback(mark.family)
    usable = [f"n{number}.{places.ABOVE_MANY}" for number in range(places.NAMES_UNDER_WILDCARD)]
    for name in usable:
        while not look_up(server, question(name, "A")).records:
            pass  # there may be too many questions in this second
    if not is_witness(ask_socks(mark, usable[-1], places.HTTP, request(usable[-1]))):
        raise RuntimeError("a name that may be used was not reached")
    more = [f"{mark.token}-{number}.{places.ABOVE_MANY}" for number in range(3)]
    answered = unanswered([partial(look_up, server, question(more[0], "A"))])
    if not answered.holds:
        return answered
    return refused(
        lambda: ask_socks(mark, more[1], places.HTTP, request(more[1])),
        lambda: ask_proxy(mark, f"{more[2]}:{places.HTTP}", request(more[2])),
    )


@network(9, "other-resolvers", "the host's resolver, and others, asked directly", beside="dns", targets=_TARGETS)
def other_resolvers(mark: Mark) -> Finding:
    message = question(mark.name, "A")
    servers = (places.RESOLVER[mark.family], *_PUBLIC_RESOLVERS[mark.family], mark.address)
    plain = [partial(look_up, server, message, tcp=tcp) for server in servers for tcp in (False, True)]
    other_ports = [
        partial(look_up, server, message, port=port, tcp=tcp)
        for server in servers for port, tcp in ((5353, False), (853, True), (5353, True))
    ]  # fmt: skip
    return unanswered([*plain, *other_ports])


@network(10, "encrypted-dns", "DNS over HTTPS, TLS and QUIC", beside="tls", targets=_TARGETS)
def encrypted_dns(mark: Mark) -> Finding:
    servers = (*_PUBLIC_RESOLVERS[mark.family], mark.address)
    return refused(
        *(partial(ask, server, port, hello(name)) for server in servers for port in (443, 853)
          for name in ("dns.google", mark.name, None)),
        *(partial(ask, server, places.HTTP, request("dns.google", f"/dns-query?{mark.token}")) for server in servers),
        *(partial(send, server, 853, mark.token.encode()) for server in servers),
    )  # fmt: skip


@network(55, "tools", "the system's own tools that look names up", beside="dns")
def tools(mark: Mark) -> Finding:
    codes = {tool: _exit_code([*tool, mark.name]) for tool in _TOOLS if shutil.which(tool[0])}
    found = sorted({tool[0] for tool, code in codes.items() if code == 0})
    if found:
        return Finding(holds=False, evidence=f"found by {', '.join(found)}")
    names = ", ".join(sorted({tool[0] for tool in codes})) or "none is here"
    closed = ", ".join(sorted({tool[0] for tool, code in codes.items() if code is None}))
    return Finding(
        holds=True, evidence=f"nothing found by {names}" + (f"; not allowed to run: {closed}" * bool(closed))
    )


def _exit_code(command: list[str]) -> int | None:
    """Run a program and return its exit code, or None if it may not be run.

    A program with file capabilities, as `ping` is on most machines, is refused by execve(2) where the bounding set does
    not have these capabilities. A program for a few users is refused to all others.
    """
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode  # noqa: S603
    except PermissionError:
        return None
