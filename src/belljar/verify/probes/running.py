"""Runs probes inside the sandbox, each in a process of its own, and prints a line of JSON for each.

What to run is told in a line of JSON, too, on the standard input. A probe may be killed for what it tries, or hang; it
takes nobody with it. What is not reported is not proven.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from belljar.verify.probes import controls, first
from belljar.verify.probes.host import files, homes, kernel, limits, modes, mounted, owners, processes, sockets
from belljar.verify.probes.kit import PROBES, Mark, Probe, Scene
from belljar.verify.probes.network import (
    brokers,
    claims,
    denials,
    direct,
    exchanges,
    hostroutes,
    listeners,
    metadata,
    neighbours,
    nextdoor,
    protocols,
    questions,
    seal,
)

MODULES: Final = (
    first, controls, denials, questions, direct, hostroutes, metadata, claims, exchanges, listeners, neighbours,
    protocols, brokers, seal, kernel, processes, modes, mounted, limits, homes, sockets, files, owners,
)  # fmt: skip
"""The modules that register probes, in the order in which these are run."""

AT_ONCE: Final = 8
SECONDS: Final = 25


def main(descriptors: frozenset[int]) -> None:
    """Say that we are there, and do what we are told."""
    print(json.dumps({"here": True}), flush=True)  # noqa: T201 - that is how it reports
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    scene = Scene(**told["scene"], descriptors=descriptors)
    probes = [PROBES[name] for name in told["probes"]]
    if told["next_door"]:
        nextdoor.serve(lambda: _run(probes, scene))
    else:
        _run(probes, scene)


def orders(scene: Scene, probes: Sequence[Probe], *, next_door: bool = False) -> bytes:
    """Return the line that tells what to do."""
    known = {part.name: getattr(scene, part.name) for part in fields(scene) if part.name != "descriptors"}
    told = {"scene": known, "probes": [probe.id for probe in probes], "next_door": next_door}
    return json.dumps(told).encode() + b"\n"


def _run(probes: Sequence[Probe], scene: Scene) -> None:
    waiting = list(probes)
    running: dict[int, tuple[Probe, int]] = {}
    while waiting or running:
        if waiting and len(running) < AT_ONCE:
            probe = waiting.pop(0)
            process, output = _start(probe, probe.mark(scene))
            running[process] = probe, output
        else:
            process, status = os.wait()
            if process in running:
                _report(*running.pop(process), status)


def in_order() -> list[Probe]:
    """Return all probes in the order in which they are run."""
    modules = [module.__name__ for module in MODULES]
    return sorted(PROBES.values(), key=lambda probe: modules.index(probe.function.__module__))


def needs_broker(probe: Probe) -> bool:
    """Tell whether a probe is of something that not every installation has."""
    return probe.function.__module__ == brokers.__name__


def _start(probe: Probe, mark: Mark) -> tuple[int, int]:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    try:
        signal.alarm(SECONDS)
        finding = probe.function(mark)
        os.write(writing, json.dumps({"holds": finding.holds, "evidence": finding.evidence}).encode())
    except BaseException as error:  # noqa: BLE001 - whatever it is, nothing is proven
        os.write(writing, json.dumps({"crash": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(0)


def _report(probe: Probe, output: int, status: int) -> None:
    with os.fdopen(output, "rb") as stream:
        said = stream.read()
    if said:
        told = json.loads(said)
    else:
        told = {
            "crash": f"ended by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "no word"
        }
    print(json.dumps({"id": probe.id, **told}), flush=True)  # noqa: T201 - that is how it reports
