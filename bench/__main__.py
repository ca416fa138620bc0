"""`make bench`: measures, and prints tables in Markdown."""

import platform

from bench.commands import bench_commands
from bench.decisions import bench_decisions, bench_loading
from bench.parsers import bench_parsers

print(
    f"Python {platform.python_version()}, Linux {platform.release()}, {platform.machine()}. Best of interleaved rounds."
)
bench_decisions()
bench_loading()
bench_parsers()
bench_commands()
