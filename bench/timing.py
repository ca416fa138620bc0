"""Timing: what is compared is measured in turns within one run, so that a busy machine slows all alike."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import NamedTuple


class Effort(NamedTuple):
    """How much time a measurement of whole systems takes."""

    rounds: int
    seconds: float
    """For each figure of each system in each round."""


QUICK, FULL = Effort(3, 0.5), Effort(7, 2.0)


class Figures(NamedTuple):
    """Seconds per call."""

    best: float
    median: float
    p95: float


def interleaved(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int = 15, calls: int = 2000
) -> dict[str, Figures]:
    """Time each candidate in turn, many rounds of many calls."""
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            started = time.perf_counter()
            for _ in range(calls):
                call()
            samples[name].append((time.perf_counter() - started) / calls)
    return {name: Figures(min(times), median(times), quantiles(times, n=20)[-1]) for name, times in samples.items()}


def print_table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a Markdown table, as docs/benchmarks.md holds it."""
    print(f"\n### {title}\n")
    print(f"| {' | '.join(head)} |")
    print(f"|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def microseconds(seconds: float) -> str:
    """Write a duration in µs."""
    return f"{seconds * 1e6:.2f} µs"


def met(is_met: bool) -> str:  # noqa: FBT001 - one obvious argument
    """Say what became of a goal."""
    return "met" if is_met else "MISSED"
