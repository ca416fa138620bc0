"""`make fuzz`: fuzz every target in turn, guided by coverage, until the time is up.

An input that reaches a line no other has reached joins the pool that mutations start from. An input that breaks a
promise is written to `.cache/fuzz/` and ends the run: fix it, and keep the input in the corpus.
"""

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.mutation import mutate
from tests.fuzz.targets import TARGETS, seeds

CRASHES = Path(".cache/fuzz")
SLICE_SECONDS = 5.0


class Pool:
    """The inputs of one target, and the lines they reach."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self.run, self._chance = name, TARGETS[name], chance
        self.inputs = seeds(name)
        self.lines: set[tuple[str, int]] = set()
        self.runs = 0
        for data in self.inputs:
            self.lines |= lines_reached(self.run, data)

    def fuzz(self, until: float) -> None:
        """Mutate and run until the time is up."""
        while time.monotonic() < until:
            data = mutate(self._chance.choice(self.inputs), self.inputs, self._chance)
            try:
                reached = lines_reached(self.run, data)
            except Exception:
                report(self.name, data)
                raise
            self.runs += 1
            if not reached <= self.lines:
                self.lines |= reached
                self.inputs.append(data)


def lines_reached(run: Callable[[bytes], None], data: bytes) -> set[tuple[str, int]]:
    """Run a target and return the lines of ours that it went through."""
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if "/belljar/" not in file:
            return None
        if event == "line":
            reached.add((file, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        run(data)
    finally:
        sys.settrace(None)
    return reached


def report(name: str, data: bytes) -> None:
    """Keep an input that broke a promise."""
    CRASHES.mkdir(parents=True, exist_ok=True)
    path = CRASHES / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    print(f"\n{name}: this input breaks a promise: {path}", file=sys.stderr)


def main() -> None:
    """Fuzz for so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="repeat an earlier run")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    pools = [Pool(name, chance) for name in TARGETS]
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for pool in pools:
            pool.fuzz(min(end, time.monotonic() + min(SLICE_SECONDS, options.seconds / len(pools))))
    for pool in pools:
        print(f"{pool.name:<12} {pool.runs:>9} runs, {len(pool.inputs)} inputs, {len(pool.lines)} lines reached")


if __name__ == "__main__":
    main()
