"""How long a decision takes, and what loading a large policy costs."""

import json
import subprocess
import sys
import time
from ipaddress import ip_address
from pathlib import Path

from belljar.policy import CompiledPolicy, Flow, Syntax, compile_policy, read_policy, to_address, to_name
from bench.timing import interleaved, microseconds, print_table

SMALL, LARGE = 10, 100_000
GOAL_SECONDS, GOAL_RATIO = 5e-6, 1.5


def document(entries: int) -> str:
    """Write a policy with so many domain entries, a tenth of them wildcards."""
    lines = ["mode: block-all", "egress:", "  allowed_cidrs: [10.2.0.0/16, 2001:db8:5::/48]", "  allowed_domains:"]
    lines += (
        f'    - "*.zone{n}.example.org"' if n % 10 == 0 else f"    - host{n}.zone{n}.example.org"
        for n in range(entries)
    )
    return "\n".join(lines) + "\n"


def flows(entries: int) -> dict[str, Flow]:
    """Return one flow for each way that a decision can go."""
    middle = entries // 2 + 1
    return {
        "allowed by exact name": to_name(f"host{middle}.zone{middle}.example.org", 443),
        "allowed by wildcard": to_name("a.b.zone0.example.org", 443),
        "allowed, resolved and checked": to_name(
            f"host{middle}.zone{middle}.example.org", 443, addresses=(ip_address("203.0.113.7"),)
        ),
        "denied, unknown name": to_name("unknown.example.com", 443),
        "denied, wrong port": to_name(f"host{middle}.zone{middle}.example.org", 22),
        "allowed by address": to_address(ip_address("10.2.3.4"), 22),
    }


def compiled(entries: int) -> CompiledPolicy:
    """Load a policy of that size."""
    return compile_policy(read_policy(document(entries), Syntax.YAML).policy)


def bench_decisions() -> None:
    """Compare decisions of a small and a large policy."""
    small, large = compiled(SMALL), compiled(LARGE)
    rows = []
    for (name, small_flow), large_flow in zip(flows(SMALL).items(), flows(LARGE).values(), strict=True):
        times = interleaved(
            {
                "small": lambda flow=small_flow: small.decide(flow),  # type: ignore[misc]
                "large": lambda flow=large_flow: large.decide(flow),  # type: ignore[misc]
            }
        )
        few, many = times["small"].best, times["large"].best
        met = "met" if many <= GOAL_SECONDS and many / few <= GOAL_RATIO else "MISSED"
        rows.append((name, microseconds(few), microseconds(many), f"{many / few:.2f}", met))
    print_table(
        "Decision (goal: at most 5 µs with 100,000 entries, ratio at most 1.5)",
        ("decision", f"{SMALL} entries", f"{LARGE:,} entries", "ratio", "goal"),
        rows,
    )


def bench_loading() -> None:
    """Load the large policy in a process of its own, for an honest figure of its memory."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.decisions"], capture_output=True, text=True, check=True, input=document(LARGE)
    )
    figures = json.loads(done.stdout)
    print_table(
        f"Loading {LARGE:,} domain entries from YAML ({figures['bytes'] / 1e6:.1f} MB of text)",
        ("step", "time", "memory kept"),
        [
            ("read and check", f"{figures['read']:.2f} s", f"{figures['read_memory'] / 1024:.0f} MiB"),
            ("compile", f"{figures['compile']:.2f} s", f"{figures['compile_memory'] / 1024:.0f} MiB more"),
        ],
    )


def _load_from_standard_input() -> None:
    text = sys.stdin.read()
    read_policy('mode: block-all\negress: {allowed_domains: ["*.warm.example.org"]}', Syntax.YAML)
    memory, clock = [_resident()], [time.perf_counter()]
    read = read_policy(text, Syntax.YAML)
    clock.append(time.perf_counter())
    memory.append(_resident())
    ready = compile_policy(read.policy)
    clock.append(time.perf_counter())
    memory.append(_resident())
    print(
        json.dumps(
            {
                "bytes": len(text),
                "read": clock[1] - clock[0],
                "compile": clock[2] - clock[1],
                "read_memory": memory[1] - memory[0],
                "compile_memory": memory[2] - memory[1],
                "digest": ready.digest,
            }
        )
    )


def _resident() -> int:
    """Return the resident memory of this process in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


if __name__ == "__main__":
    _load_from_standard_input()
