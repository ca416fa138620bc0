"""The probes' part of a run: two sandboxes in a world, and the witness around them.

In one of them the probes are run. The other one is its neighbour, and is there to be reached.
"""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from belljar.sandbox.files.homes import homes_of_user
from belljar.sandbox.spec import Bind
from belljar.statedir import known_states
from belljar.verify.auditing import read_denials
from belljar.verify.internet.witness import Sighting, SightingKind, Witness
from belljar.verify.internet.world import World
from belljar.verify.judging import ProbeJudge
from belljar.verify.onlooker import look_at
from belljar.verify.probes.host.mounttable import mounted
from belljar.verify.probes.host.planted import REPOSITORY
from belljar.verify.probes.kit import Probe, Scene
from belljar.verify.probes.running import orders
from belljar.verify.report import Result
from belljar.verify.trial import PROBES_NAME, Trial, TrialError, TrialMaker, TrialTask, hear, read_report
from belljar.verify.workshop import Workshop

Report = list[dict[str, Any]]
"""What was told from inside, line by line."""


def try_out(chosen: Sequence[Probe], place: Workshop, maker: TrialMaker, prepare: Callable[[], object]) -> list[Result]:
    """Run the probes, and judge them; add what an onlooker saw. Raises WorldError, TrialError."""
    run, before, there = secrets.token_hex(4), _namespaces(), [(mount.device, mount.root) for mount in mounted()]
    with ExitStack() as stack:

        def get_ready(name: str, workdir: Path, *binds: Bind) -> Trial:
            trial = maker.trial(TrialTask(name, run, workdir, binds, place.home, place.audit, prepare))
            stack.callback(trial.finish)
            return trial

        controls = [probe for probe in chosen if probe.next_door]
        neighbour = Neighbour(get_ready("neighbour", place.next_door), controls) if controls else None
        trial = get_ready(PROBES_NAME, place.workdir, Bind(place.repository, place.workdir / REPOSITORY, writable=True))
        world = stack.enter_context(World())
        witness = stack.enter_context(closing(Witness(world, run)))
        scene = Scene(
            run,
            _outside(before, world),
            sockets=maker.sockets,
            owners=[str(path) for path in (place.audit, place.next_door, *known_states(os.environ))],
            homes=[str(home) for home in homes_of_user(os.environ)],
            mounts=there,
            bounds=maker.bounds,
        )
        trial.start(world)
        if neighbour is not None:
            scene = replace(scene, neighbour=neighbour.move_in(world, scene))
        first = hear(trial.channel)  # it is there; or else why it is not
        looked = look_at(trial.maker)
        _tell(trial, orders(scene, [probe for probe in chosen if not probe.next_door]))
        report = read_report(first + witness.attend(trial.channel))
        if neighbour is not None:
            report += neighbour.move_out()
        if lost := witness.lost():
            raise TrialError(f"the witness was too slow, and missed {lost} packets; run again when there is less to do")
        seen, denials = [*witness.testimony(), *_next_door(report)], read_denials(place.audit)
        marks = {probe: probe.mark(scene) for probe in chosen}
        findings = {line["id"]: line for line in report if "id" in line}
        return [*ProbeJudge(marks, findings, seen, maker.lacking, denials).results(), *looked]


class Neighbour:
    """The other sandbox."""

    def __init__(self, trial: Trial, controls: Sequence[Probe]) -> None:
        self._trial, self._controls = trial, controls
        self._said = b""

    def move_in(self, world: World, scene: Scene) -> dict[str, str]:
        """Have it serve; return its namespaces, once it does. Raises TrialError."""
        self._trial.start(world)
        _tell(self._trial, orders(scene, self._controls, next_door=True))
        while not (told := [line["neighbour"] for line in self._lines() if "neighbour" in line]):
            if not (more := hear(self._trial.channel)):
                raise TrialError("the sandbox next door ended without a word")
            self._said += more
        namespaces: dict[str, str] = told[0]
        return namespaces

    def _lines(self) -> Report:
        return read_report(self._said.rpartition(b"\n")[0])

    def move_out(self) -> Report:
        """Have it end, and return all that it has reported. Raises TrialError."""
        self._trial.channel.shutdown(socket.SHUT_WR)
        while more := hear(self._trial.channel):
            self._said += more
        return read_report(self._said)


def _tell(trial: Trial, what: bytes) -> None:
    with suppress(BrokenPipeError):  # it has failed, and its report says why
        trial.channel.sendall(what)


def _next_door(report: Report) -> list[Sighting]:
    """Return who has reached the neighbour."""
    return [
        Sighting(SightingKind.STREAM, line["seen"], data=line["data"].encode("latin-1"))
        for line in report
        if "seen" in line
    ]


def _namespaces() -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in Path("/proc/self/ns").iterdir()}


def _outside(before: dict[str, str], world: World) -> dict[str, list[str]]:
    """Return the namespaces of whoever has a part in this, by their kinds."""
    now = _namespaces()
    host = str(Path(f"/proc/self/fd/{world.host.fileno()}").readlink())
    return {kind: [before[kind], now[kind], *([host] if kind == "net" else ())] for kind in now}
