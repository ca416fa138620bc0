"""How long a container of one engine lives for the sake of `true`: as it is, and sealed. Where does the time go?

Runs as a program, `python -m bench.sealing KIND SOCKET DIRECTORY ROUNDS`, by somebody who may use the engine. It prints
what each life took, step by step. Who runs it decides how containers are sealed: root of the machine enters them, and
everybody else has a helper.

The container that is not sealed has the configuration of the sealed one to the letter (no network, no capabilities, the
same system call filter, mounts and limits), but `true` is its first process, as with `docker run`. In the sealed one,
`true` is a command, since nothing of the image's runs before the seal is tried.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPMessage
from pathlib import Path
from typing import Any, NamedTuple

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.engine.places import Kind
from belljar.backends.interface import Streams
from belljar.sandbox.spec import Command, SandboxSpec
from tests.engines.images import BUSYBOX

TRUE = "/bin/true"
STEPS = ("create", "start", "seal", "command", "remove")
HELPER_STEPS = ("helper: create", "helper: start", "helper: at work")
"""What sealing consists of, where a helper does it."""

Life = dict[str, float]
"""Seconds of each step."""


class Call(NamedTuple):
    """A request that an engine has answered."""

    what: str
    began: float
    ended: float
    api: str
    body: Any


@dataclass(frozen=True)
class WatchedEngine(Engine):
    """An engine, and a record of what it was asked."""

    calls: list[Call] = field(default_factory=list, compare=False)

    def _converse(
        self, method: str, path: str, query: Mapping[str, Any], content: Any = None, *arguments: Any, **options: Any
    ) -> tuple[HTTPMessage, bytes]:
        began = time.perf_counter()
        try:
            return super()._converse(method, path, query, content, *arguments, **options)
        finally:
            what = method if method == "DELETE" else f"{method} {path.rpartition('/')[2]}"
            self.calls.append(Call(what, began, time.perf_counter(), self.api, content))

    def take(self) -> list[Call]:
        """Return what it was asked since this was last asked."""
        calls = list(self.calls)
        self.calls.clear()
        return calls


class Lives:
    """Containers of one engine, one after the other."""

    def __init__(self, kind: Kind, address: Path, directory: Path) -> None:
        self._engine = WatchedEngine(kind, address)
        state = directory / f"{address.parent.name}-{os.geteuid()}"
        self._backend = ContainerBackend(self._engine, state, directory / "toolbox")
        self._null = os.open(os.devnull, os.O_RDWR)
        # One that stays is the pattern of those that are not sealed: its files are there for as long.
        self._backend.create("pattern", SandboxSpec(image=BUSYBOX)).close()
        pattern = next(call for call in self._engine.take() if call.what == "POST create")
        self._creator = replace(self._engine, api=pattern.api)
        self._pattern = json.loads(pattern.body)
        self._pattern["entrypoint" if "entrypoint" in self._pattern else "Entrypoint"] = [TRUE]
        self._pattern.pop("name", None)

    def close(self) -> None:
        """Take away what is left."""
        self._backend.destroy("pattern")
        os.close(self._null)

    def plain(self) -> Life:
        """Make a container without sealing it, as `docker run` does, and take it away."""
        moments = [time.perf_counter()]
        container = self._creator.post("/containers/create", self._pattern)["Id"]
        moments.append(time.perf_counter())
        self._engine.post(f"/containers/{container}/start")
        moments += [time.perf_counter()] * 2  # nothing is done between start and command
        while self._engine.get(f"/containers/{container}/json")["State"]["Status"] != "exited":
            time.sleep(0.005)  # as often as the backend looks; Podman's own `wait` sleeps for longer
        moments.append(time.perf_counter())
        self._engine.delete(f"/containers/{container}", force=True, v=True)
        return _spans(STEPS, [*moments, time.perf_counter()])

    def sealed(self) -> Life:
        """Make a sandbox, run a command in it, and take it away."""
        self._engine.take()
        began = time.perf_counter()
        self._backend.create("jar", SandboxSpec(image=BUSYBOX)).close()
        sealed, calls = time.perf_counter(), self._engine.take()
        process = self._backend.start("jar", Command((TRUE,)), Streams(self._null, self._null, self._null))
        process.wait()
        process.close()
        done = time.perf_counter()
        self._backend.destroy("jar")
        start = next(call for call in calls if call.what == "POST start")
        moments = [began, start.began, start.ended, sealed, done, time.perf_counter()]
        return _spans(STEPS, moments) | _helper([call for call in calls if call.began >= start.ended], sealed)


def _helper(calls: list[Call], sealed: float) -> Life:
    """Return what it took to have a helper, if there was one; the engine takes it away meanwhile."""
    kinds = {call.what: call for call in calls}
    if "POST create" not in kinds:
        return {}
    create, start = (kinds[what] for what in ("POST create", "POST start"))
    return _spans(HELPER_STEPS, [create.began, start.began, start.ended, sealed])


def _spans(names: Sequence[str], moments: Sequence[float]) -> Life:
    return {name: after - before for name, before, after in zip(names, moments[:-1], moments[1:], strict=True)}


def main(kind: Kind, address: Path, directory: Path, rounds: int) -> None:
    """Live as often as asked, in turns, and tell about it."""
    lives = Lives(kind, address, directory)
    try:
        told: dict[str, list[Life]] = {"plain": [], "sealed": []}
        for number in range(-1, rounds):  # the first time, more has to be read from the disk
            one = {"plain": lives.plain(), "sealed": lives.sealed()}
            for name in told if number >= 0 else ():
                told[name].append(one[name])
    finally:
        lives.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main("docker" if sys.argv[1] == "docker" else "podman", Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
