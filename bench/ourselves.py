"""Belljar's gateway as a program, to be measured from outside: `python -m bench.ourselves CHANNEL AUDIT_LOG [PROFILE]`.

It serves the doors of one sandbox, which it is sent over the unix socket CHANNEL. Nothing is left out: a policy
decides, the server name in the ClientHello is checked, every flow and every question is told in the audit log and
counted. Only the limit on questions is lifted; it would be what is measured. With a file for a PROFILE, the gateway
writes there what it has called, when it is ended.
"""

import cProfile
import signal
import socket
import sys
from ipaddress import ip_address
from pathlib import Path

from belljar.gateway.audit.log import AuditLog, open_log
from belljar.gateway.audit.metrics import Metrics
from belljar.gateway.audit.observing import Observer
from belljar.gateway.gateway import Gateway
from belljar.gateway.io.loop import Loop
from belljar.gateway.limits import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.upstream.hostfiles import Server
from belljar.gateway.upstream.resolver import Resolver
from belljar.linux.descriptors import receive_sockets
from belljar.policy import CompiledPolicy, Syntax, compile_policy, read_policy
from bench.origin import ANSWER, IDLE, STREAM
from tests.universe.addresses import GATEWAY, GATEWAY_V6, RESOLVER

ORIGIN_PORT = 7443

_POLICY = f"""\
mode: block-all
egress:
  allowed_domains: ["{ANSWER}:{ORIGIN_PORT}", "{IDLE}:{ORIGIN_PORT}", "{STREAM}:{ORIGIN_PORT}"]
"""
_NO_FILE = Path("/nonexistent")


def policy() -> CompiledPolicy:
    """Return a policy that grants the origin's names and nothing else."""
    host = [ip_address(GATEWAY), ip_address(GATEWAY_V6)]
    return compile_policy(read_policy(_POLICY, Syntax.YAML).policy, generation=1, host_addresses=host)


def main(channel: int, audit_log: str, profile: str | None = None) -> None:
    """Take the doors, say so, and serve them until the process is ended."""
    with socket.socket(fileno=channel) as sender:
        listeners = Listeners(**receive_sockets(sender))
    loop = Loop()
    resolver = Resolver(loop, [Server(ip_address(RESOLVER), 53)], hosts=_NO_FILE, resolv_conf=_NO_FILE)
    observer = Observer("bench", audit=AuditLog(open_log(audit_log)), metrics=Metrics())
    gateway = Gateway(loop, resolver)
    gateway.open(SandboxState("bench", policy(), observer, Limits(dns_per_second=10**9)), listeners)
    print("ready", flush=True)
    if profile is None:
        loop.run()
    else:
        _run_and_count(loop, profile)


def _run_and_count(loop: Loop, profile: str) -> None:
    """Run until the process is to end, and write down what was called."""
    counting = cProfile.Profile()
    signal.signal(signal.SIGTERM, lambda *_: loop.call_from_thread(loop.stop))
    counting.runcall(loop.run)
    counting.dump_stats(profile)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
