"""How long a user waits for the command line."""

import subprocess
import sys
from pathlib import Path

from bench.timing import interleaved, print_table

BELLJAR = str(Path(sys.executable).parent / "belljar")


def bench_commands() -> None:
    """Time whole processes, beside the interpreter's own start."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "belljar --help": [BELLJAR, "--help"],
        "belljar policy check examples/policy.yaml": [BELLJAR, "policy", "check", "examples/policy.yaml"],
    }
    times = interleaved(
        {
            name: lambda command=command: subprocess.run(command, capture_output=True, check=True)  # type: ignore[misc]
            for name, command in commands.items()
        },
        rounds=10,
        calls=1,
    )
    print_table(
        "Commands, wall time (goal: --help at most 150 ms)",
        ("command", "best", "median"),
        [(name, f"{t.best * 1e3:.0f} ms", f"{t.median * 1e3:.0f} ms") for name, t in times.items()],
    )
