"""Runs the self-test on a sandbox of which one layer is off, and prints its report. Arguments: the layer, and probes.

What is replaced is replaced in the process that makes the sandbox, and ends with it.
"""

import dataclasses
import fcntl
import os
import pwd
import struct
import sys
from pathlib import Path
from typing import Any

from belljar.backends.local import bubblewrap, launching, running, staging
from belljar.backends.local.stage import Stage
from belljar.gateway import carrying, jar
from belljar.gateway.dnsanswering import Answering
from belljar.linux import mounts, nft, seccomp, sharedmemory
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import run
from belljar.linux.routes import Routes
from belljar.policy import Action, AddressClass, Reason, Verdict
from belljar.sandbox import ownplaces, protected
from belljar.sandbox.spec import Bind
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
    replace(jar, "decide", lambda policy, flow: Verdict(Action.ALLOW, Reason.ALLOWED_BY_DEFAULT, "mode", flow))


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


def set_ids_allowed():
    replace(seccomp, "_modes", lambda machine: [])


def writable_settings():
    _view_without("--ro-bind", "/proc/sys", "/proc/sys")


def shared_control_groups():
    _without_wall("--unshare-cgroup-try")


def project_unprotected():
    replace(protected, "PLACES", ())


def a_place_unprotected():
    replace(protected, "PLACES", tuple(place for place in protected.PLACES if place != ".zed"))


def submodules_unprotected():
    replace(protected, "_submodules", lambda workdir: ())


def own_places_unprotected():
    replace(ownplaces, "kept_in", lambda *_: [])


def writable_root():
    _view_without("--remount-ro", "/")


def writable_devices():
    _view_without("--remount-ro", "/dev")


def memory_of_the_host():
    def source(self, shown):
        return shown if shown == Path("/dev/shm") else before(self, shown)

    before = replace(Stage, "source", source)


def memory_without_size():
    _mount_memory_without("size=")


def memory_without_count_of_files():
    _mount_memory_without("nr_inodes=")


def home_shown():
    def with_home(spec, home, files):
        shown = view_of(spec, home, files)
        return dataclasses.replace(shown, binds=(*shown.binds, *(Bind(path, path, False) for path in home.iterdir())))

    view_of = replace(running, "view_of", with_home)


def home_of_the_account_shown():
    """Show the home that the system knows, whatever the variable says."""

    def with_home(spec, home, files):
        real = Path(pwd.getpwuid(os.getuid()).pw_dir)
        shown = view_of(spec, home, files)
        return dataclasses.replace(shown, binds=(*shown.binds, Bind(real, real, False)))

    view_of = replace(running, "view_of", with_home)


def no_screens():
    """Show the system and the user's tools as they are, read-only."""

    def show_as_it_is(target: Path, *layers: str) -> None:
        mounts.bind(next(layer for layer in layers if layer.startswith("/proc/self/fd/")), target)

    replace(mounts, "mount_overlay", show_as_it_is)


def limits_off():
    replace(staging, "_RESOURCES", {})


def shared_memory_without_bound():
    replace(sharedmemory, "bound", lambda size: True)


def _mount_memory_without(bound: str) -> None:
    def mount(target: Path, options: str = "mode=0755") -> None:
        before(target, ",".join(option for option in options.split(",") if not option.startswith(bound)))

    before = replace(mounts, "mount_tmpfs", mount)


def namespaces_left_to_the_filter():
    _without_wall("--disable-userns")


def no_control_group():
    replace(running, "default_group", lambda: None)


def _without_wall(wall: str) -> None:
    assert wall in bubblewrap._WALLS
    replace(bubblewrap, "_WALLS", tuple(word for word in bubblewrap._WALLS if word != wall))


def _view_without(*words: str) -> None:
    """Leave some words out of what bubblewrap is asked for."""

    def view(*parts: Any) -> list[str]:
        asked = list(before(*parts))
        start = next(start for start in range(len(asked)) if asked[start : start + len(words)] == list(words))
        return asked[:start] + asked[start + len(words) :]

    before = replace(bubblewrap, "_view", view)


if __name__ == "__main__":
    layer, *only = sys.argv[1:]
    sys.stdout.write(verify(only=only, prepare=globals()[layer]).as_json())
