"""Runs the self-test on a sandbox of which one layer is off, and prints its report. Arguments: the layer, and probes.

What is replaced is replaced in the process that makes the sandbox, and ends with it.
"""

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Any

from belljar.backends.local import bubblewrap, launching
from belljar.gateway import carrying
from belljar.gateway.dnsanswering import Answering
from belljar.linux import mounts, nft, seccomp
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import run
from belljar.linux.routes import Routes
from belljar.policy import Action, AddressClass, CompiledPolicy, Reason, Verdict
from belljar.verify import localtrial
from belljar.verify.verifying import verify

_ALLOW_EVERY_CALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
_SIOCGSKNS = 0x894C


def replace(where: Any, name: str, by: object) -> Any:
    """Replace a part of the product, and return what was there."""
    before = getattr(where, name)
    setattr(where, name, by)
    return before


def no_seccomp():
    replace(seccomp, "program", lambda **_: _ALLOW_EVERY_CALL)


def capability_kept():
    replace(bubblewrap, "_WALLS", (*bubblewrap._WALLS, "--cap-add", "CAP_NET_RAW"))


def no_packet_filter():
    replace(nft, "apply", lambda rules: None)


def no_rule_for_dns():
    rules = nft.ruleset(udp=False).splitlines()
    without = [line for line in rules if "dport 53" not in line]
    assert without != rules
    replace(nft, "ruleset", lambda **_: "\n".join(without) + "\n")


def extra_interface():
    """Join the sandbox to the host, which forwards, by a link that the packet filter spares."""

    def join_and_go(launched):
        sandbox = NetworkNamespace(fcntl.ioctl(launched.listeners.tcp[0], _SIOCGSKNS))
        there = f"/proc/{os.getpid()}/fd/{sandbox.fileno()}"
        run("ip", "link", "add", "leak", "type", "veth", "peer", "name", "leak", "netns", there)
        run("ip", "-batch", "-", text="address add 192.0.2.129/30 dev leak\nlink set leak up\n")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        answers = "table ip leak {\nchain there {\ntype nat hook postrouting priority 100;\nmasquerade\n}\n}\n"
        run("nft", "-f", "-", text=answers)  # for them to find their way back
        commands = "address add 192.0.2.130/30 dev leak\nlink set leak up\nroute add 203.0.113.0/24 via 192.0.2.129\n"
        sandbox.run(lambda: run("ip", "-batch", "-", text=commands))
        spare = "insert rule inet belljar {} ip daddr {{ 203.0.113.0/24, 192.0.2.129 }} accept\n"
        rules = spare.format("to_gateway") + spare.format("seal")
        sandbox.run(lambda: run("nft", "-f", "-", text=rules))
        go(launched)

    go = replace(launching.Launched, "go", join_and_go)


def host_network():
    def start_without_network(spec, network, files, **options):
        return start(spec, None, files, **options)

    start = replace(localtrial, "run", start_without_network)


def everything_granted():
    replace(
        CompiledPolicy, "decide", lambda policy, flow: Verdict(Action.ALLOW, Reason.ALLOWED_BY_DEFAULT, "mode", flow)
    )


def dns_forwarded():
    replace(Answering, "answer", lambda *_: None)
    replace(Answering, "still_forwards", lambda *_: True)


def server_name_unchecked():
    replace(carrying, "claimed_by", lambda flow, said: flow)
    replace(carrying, "claimed_by_request", lambda flow, head: flow)


def guard_off():
    replace(sys.modules["belljar.policy.decide"], "classify", lambda address: AddressClass.PUBLIC)


def host_unknown():
    replace(Routes, "is_own", lambda *_: False)


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
