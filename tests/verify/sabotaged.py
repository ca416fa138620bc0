"""Runs the self-test on a sandbox of which one layer is off, and prints its report. Arguments: the layer, and probes.

What is replaced is replaced in the process that makes the sandbox, and ends with it.
"""

import dataclasses
import fcntl
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from belljar.backends.local import launching
from belljar.backends.local.child import bubblewrap
from belljar.broker import preamble, starting
from belljar.gateway.audit import log
from belljar.gateway.audit.observing import Observer
from belljar.gateway.dns.answering import Answering
from belljar.gateway.dns.wildcards import WildcardBudget
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.tcp import flow, http
from belljar.gateway.tcp.responses import ResponseReader
from belljar.gateway.upstream.dialing import Dialler
from belljar.linux.files import mounts
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.nft import sealed
from belljar.linux.programs import run
from belljar.linux.routes import Routes
from belljar.linux.seccomp import callfilter
from belljar.policy import Action, AddressClass, CompiledPolicy, Reason, Verdict
from belljar.policy.services import Service
from belljar.sandbox import arming
from belljar.sandbox.spec import Bind, SandboxSpec
from belljar.verify import localtrial
from belljar.verify.probes import places
from belljar.verify.verifying import verify

_ALLOW_EVERY_CALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
_SIOCGSKNS = 0x894C
_OTHERS_PASS = {"counter name other_refused reject with icmpx admin-prohibited": "accept"}


def replace(where: Any, name: str, by: object) -> Any:
    """Replace a part of the product, and return what was there."""
    before = getattr(where, name)
    setattr(where, name, by)
    return before


def no_seccomp():
    replace(callfilter, "program", lambda **_: _ALLOW_EVERY_CALL)


def capability_kept():
    replace(bubblewrap, "_WALLS", (*bubblewrap._WALLS, "--cap-add", "CAP_NET_RAW"))


def no_packet_filter():
    replace(sealed, "apply", lambda rules: None)
    _untried()


def no_rule_for_dns():
    rules = sealed.ruleset().splitlines()
    without = [line for line in rules if "dport 53" not in line]
    assert without != rules
    replace(sealed, "ruleset", lambda: "\n".join(without) + "\n")
    _untried()


def _untried() -> None:
    """Have a seal pass that does not hold: otherwise there would be no sandbox to look at."""
    replace(arming, "prove", lambda listeners: None)


def extra_interface():
    """Join the sandbox to the host, which forwards, by a link that the packet filter spares."""

    def join_and_go(launched):
        inside = NetworkNamespace(fcntl.ioctl(launched.listeners.tcp[0], _SIOCGSKNS))
        there = f"/proc/{os.getpid()}/fd/{inside.fileno()}"
        run("ip", "link", "add", "leak", "type", "veth", "peer", "name", "leak", "netns", there)
        run("ip", "-batch", "-", text="address add 192.0.2.129/30 dev leak\nlink set leak up\n")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        answers = "table ip leak {\nchain there {\ntype nat hook postrouting priority 100;\nmasquerade\n}\n}\n"
        run("nft", "-f", "-", text=answers)  # for them to find their way back
        commands = "address add 192.0.2.130/30 dev leak\nlink set leak up\nroute add 203.0.113.0/24 via 192.0.2.129\n"
        inside.run(lambda: run("ip", "-batch", "-", text=commands))
        spare = "insert rule inet belljar {} ip daddr {{ 203.0.113.0/24, 192.0.2.129 }} accept\n"
        rules = spare.format("to_gateway") + spare.format("seal")
        inside.run(lambda: run("nft", "-f", "-", text=rules))
        go(launched)

    go = replace(launching.Launched, "go", join_and_go)


def host_network():
    def start_without_network(spec, command, network, **options):
        network()  # for the log's sake
        return start(spec, command, None, **options)

    start = replace(localtrial, "run", start_without_network)


def everything_granted():
    replace(
        CompiledPolicy, "decide", lambda policy, flow: Verdict(Action.ALLOW, Reason.ALLOWED_BY_DEFAULT, "mode", flow)
    )


def dns_forwarded():
    replace(Answering, "answer", lambda *_: None)
    replace(Answering, "still_forwards", lambda *_: True)


def server_name_unchecked():
    replace(flow, "claimed_by", lambda flow, said: flow)
    replace(flow, "claimed_by_request", lambda flow, head: flow)


def guard_off():
    replace(sys.modules["belljar.policy.decide"], "classify", lambda address: AddressClass.PUBLIC)


def host_unknown():
    replace(Routes, "is_own", lambda *_: False)


def host_unknown_before_it_is_dialled():
    def with_own(self, flow, addresses, source=b""):
        return ask(self, flow, addresses, source) if source else flow

    ask = replace(Dialler, "_with_own", with_own)


def host_unknown_when_it_is_connected():
    replace(Dialler, "_as_connected", lambda _, flow, connected: flow)


def seal_open():
    _change_seal(
        {
            "policy drop": "policy accept",
            "meta l4proto udp counter name udp_refused reject with icmpx port-unreachable": "accept",
        }
        | _OTHERS_PASS
    )


def seal_open_but_for_datagrams():
    _change_seal(_OTHERS_PASS)


def _change_seal(changes: dict[str, str]) -> None:
    rules = sealed.ruleset()
    for before, after in changes.items():
        assert rules.count(before) == 1
        rules = rules.replace(before, after)
    replace(sealed, "ruleset", lambda: rules)


def extra_route():
    def add_and_go(launched):
        inside = NetworkNamespace(fcntl.ioctl(launched.listeners.tcp[0], _SIOCGSKNS))
        inside.run(lambda: run("ip", "route", "add", "203.0.113.0/24", "dev", "lo"))
        go(launched)

    go = replace(launching.Launched, "go", add_and_go)


def names_uncounted():
    replace(WildcardBudget, "admits", lambda *_: True)


def names_uncounted_when_asked():
    def begin_with_a_budget_of_its_own(self, jar, wildcards, *rest, **options):
        begin(self, jar, WildcardBudget(1 << 20), *rest, **options)

    begin = replace(Answering, "__init__", begin_with_a_budget_of_its_own)


def names_uncounted_when_dialled():
    replace(SandboxState, "admits_name", lambda *_: True)


def upgrade_passed_on():
    replace(http, "offers_other_protocols", lambda head: False)


def second_hello_unread():
    async def never(loop, upstream):
        return False

    replace(flow, "server_asks_for_retry", never)


def unasked_response_passed_on():
    def feed_all(self, data):
        feed(self, data)
        return len(data)

    feed = replace(ResponseReader, "feed", feed_all)


def unasked_switch_passed_on():
    begin = ResponseReader.__init__
    replace(ResponseReader, "__init__", lambda self, request, _: begin(self, request, b"anything"))


def denied_flows_untold():
    replace(Observer, "flow_denied", lambda *_: None)


def denied_questions_untold():
    replace(Observer, "dns_denied", lambda *_: None)


def log_unescaped():
    def to_json(value):
        return f'"{value}"' if isinstance(value, str) else escape(value)

    escape = replace(log, "_to_json", to_json)


def owners_files_shown():
    def show_more(spec, *rest, **options):
        beside = spec.workdir.with_name("next-door")
        return start(dataclasses.replace(spec, binds=(Bind(beside, beside, writable=False),)), *rest, **options)

    start = replace(localtrial, "run", show_more)


def broker_of_every_path():
    _change_service(lambda service: service._replace(paths=("DELETE /*", "GET /*", "POST /*")))


def broker_of_every_tool():
    _change_service(lambda service: service._replace(server_tools=True))


def broker_of_every_header():
    changed = "from belljar.broker.http import headers; headers._may_be_sent = lambda _: True"
    replace(starting, "_PROGRAM", starting._PROGRAM.replace("\nmain()", f"\n{changed}\nmain()"))


def broker_without_a_key():
    _change_service(lambda service: service._replace(header=()))


def _change_service(change: Callable[[Service], Service]) -> None:
    """Have the broker told something else of its service."""

    def write_changed(sandbox: str, service: Service, **options: Any) -> Any:
        return write(sandbox, change(service), **options)

    write = replace(preamble, "write", write_changed)


def key_in_the_environment():
    _show_key(lambda spec, key: dataclasses.replace(spec, environment={**spec.environment, "MODELS_API_KEY": key}))


def key_in_a_file():
    _show_key(lambda spec, key: dataclasses.replace(spec, files={**spec.files, Path("/etc/models/key"): key.encode()}))


def _show_key(change: Callable[[SandboxSpec, str], SandboxSpec]) -> None:
    def show(spec: SandboxSpec, *rest: Any, **options: Any) -> Any:
        return start(change(spec, os.environ[places.KEY_VARIABLE]), *rest, **options)

    start = replace(localtrial, "run", show)


def inherited_descriptor():
    """Leave a file open for the command, as a careless program would."""

    def with_a_descriptor(*positional, **named):
        fcntl.fcntl(0, fcntl.F_DUPFD, 50)
        return arguments(*positional, **named)

    arguments = replace(bubblewrap, "arguments", with_a_descriptor)


def writable_system():
    """Show the system's directories as they are, instead of through read-only overlays."""

    def show_as_it_is(target: Path, *layers: str) -> None:
        mounts.bind(next(layer for layer in layers if layer.startswith("/proc/self/fd/")), target)

    replace(mounts, "mount_overlay", show_as_it_is)
    view = bubblewrap._view
    replace(bubblewrap, "_view", lambda *parts: ("--bind" if word == "--ro-bind" else word for word in view(*parts)))


if __name__ == "__main__":
    layer, *only = sys.argv[1:]
    sys.stdout.write(verify(only=only, prepare=globals()[layer]).as_json())
