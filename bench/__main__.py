"""`make bench`: measures, and prints tables in Markdown."""

import argparse
import io
import os
import platform
import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from bench.broker import bench_broker
from bench.brokerfairness import bench_broker_fairness
from bench.calls import bench_calls
from bench.commands import bench_commands
from bench.containers import bench_containers
from bench.decisions import bench_decisions, bench_loading
from bench.evaluations import bench_evaluations
from bench.fairness import bench_fairness
from bench.gateway import bench_gateway
from bench.parsers import bench_parsers
from bench.policies import bench_large_policies
from bench.processes import use_byte_code
from bench.resolving import bench_dns
from bench.running import bench_running
from bench.serving import bench_serving
from bench.timing import FULL, QUICK, Effort
from bench.worstcases import bench_worst_cases
from tests import privileges

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
SOURCES = (ROOT / "src", ROOT / "bench", ROOT / "tests" / "universe")
MARK = "<!-- What follows is written by `python -m bench --markdown`. -->\n"


class Tee(io.StringIO):
    """Keeps what is printed, and prints it all the same."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        """Write to both."""
        self._terminal.write(text)
        self._terminal.flush()
        return super().write(text)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Belljar, beside what compares to it.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"which ones (all): {', '.join(MEASURES)}")
    parser.add_argument("--full", action="store_true", help="more and longer rounds for gateway, dns and containers")
    parser.add_argument("--markdown", action="store_true", help=f"write the results to {PAGE.name} as well")
    arguments = parser.parse_args()
    sections = arguments.sections or tuple(MEASURES)
    if unknown := set(sections) - set(MEASURES):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    if arguments.markdown and arguments.sections:
        parser.error("--markdown writes a whole page: leave the sections out")
    privileges.gain()
    use_byte_code(*SOURCES)
    results = Tee(sys.stdout)
    with redirect_stdout(results):
        run(sections, FULL if arguments.full else QUICK)
    if arguments.markdown:
        preface, _, _ = PAGE.read_text().partition(MARK)
        PAGE.write_text(f"{preface}{MARK}\n{results.getvalue()}")


MEASURES: dict[str, tuple[Callable[[Effort], None], ...]] = {
    "decisions": (lambda _: bench_decisions(), lambda _: bench_loading()),
    "parsers": (lambda _: bench_parsers(), lambda _: bench_worst_cases()),
    "commands": (lambda _: bench_commands(),),
    "gateway": (bench_gateway, bench_calls),
    "dns": (bench_dns,),
    "fairness": (bench_fairness, bench_broker_fairness),
    "run": (lambda _: bench_running(),),
    "containers": (bench_containers,),
    "serve": (lambda _: bench_serving(), lambda _: bench_large_policies()),
    "broker": (bench_broker,),
    "eval": (lambda _: bench_evaluations(),),
}


def run(sections: Collection[str], effort: Effort) -> None:
    """Measure, and print the tables."""
    print(f"{datetime.now(UTC):%Y-%m-%d}: {machine()}.")
    for section, measures in MEASURES.items():
        if section in sections:
            for measure in measures:
                measure(effort)


def machine() -> str:
    """Say what this was measured on."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = cpuinfo.partition("model name")[2].partition("\n")[0].strip("\t :") or platform.machine()
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, Linux {platform.release()}, Python {platform.python_version()}"


main()
