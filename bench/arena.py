"""Where everything is measured: a universe of its own, in which each system stands between the clients and the origin.

    clients ──(loopback)──▶ Belljar or a peer ──(a veth pair)──▶ origin

Belljar's clients live in a sealed sandbox, know of no gateway, and find the origin by its name, in DNS. The clients of
the peers live where the peers do, and dial them. Without any system, clients dial the origin over the veth pair.
Nothing in it reaches the real network.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from belljar.gateway.listeners import Listeners
from belljar.linux.descriptors import send_sockets
from belljar.linux.programs import run
from bench.fetching import MissingError
from bench.load import Done, Work
from bench.origin import ANSWER, IDLE, STREAM
from bench.ourselves import ORIGIN_PORT
from bench.peers import Peer
from bench.processes import GATEWAY_CPU, LOAD_CPU, on_cpu
from tests.universe import Place, Universe
from tests.universe.addresses import PUBLIC
from tests.universe.zone import at

PATIENCE = 20.0
"""Seconds in which a program must be ready, and in which work must be done beyond the time it is given."""

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class System:
    """Something to be measured, at work."""

    name: str
    does: str
    clients: Place
    address_of: Callable[[str], str]
    """What clients dial for a name."""

    port: int
    connect_to: str = ""
    """What clients ask for with CONNECT, as a template for the name; nothing where they just connect."""

    pid: int = 0
    inside: tuple[str, ...] = ()
    """What to put before a command to run it where the clients live, beyond their network namespace."""


class Arena:
    """The universe, the origin in it, and what was started."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._stack = stack
            self._directory = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
            self._directory.chmod(0o777)  # squid changes its user
            self._universe = stack.enter_context(Universe())
            for name in (ANSWER, IDLE, STREAM):
                self._universe.zone[name] = at(PUBLIC)
            # The memory of every connection is for tests, and would cost something here.
            self._universe.internet.call(run, "nft", "delete", "table", "inet", "memory")
            origin = [sys.executable, "-m", "bench.origin", PUBLIC, str(ORIGIN_PORT)]
            self._await_word("origin", self._start("origin", self._universe.internet, LOAD_CPU, origin))
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End everything that was started."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def universe(self) -> Universe:
        """Where everything happens."""
        return self._universe

    def direct(self) -> System:
        """Return the absence of a system."""
        return System("Direct", "nothing in between", self._universe.gateway, lambda _: PUBLIC, ORIGIN_PORT)

    def belljar(self, profile: Path | None = None) -> System:
        """Start Belljar's gateway, and serve a sandbox; with a file for it, what is called is counted until the end."""
        sandbox = self._stack.enter_context(self._universe.sandbox())
        process = self._serve("Belljar", sandbox.listeners, profile)
        does = "transparent: policy, own resolution, server name in the ClientHello checked, audit and metrics on"
        return System("Belljar", does, sandbox, lambda name: sandbox.look_up(name)[0], ORIGIN_PORT, pid=process.pid)

    def peer(self, name: str, prepare: Callable[[Path], Peer]) -> System:
        """Start a peer. Raises MissingError."""
        peer, place = prepare(self._directory), self._universe.gateway
        process = self._start(name, place, GATEWAY_CPU, peer.command, environment=peer.environment)
        self._await(name, process, lambda: answers(place, ("127.0.0.1", peer.port)))
        does = f"{peer.does} (version {peer.version})"
        return System(name, does, place, lambda _: "127.0.0.1", peer.port, peer.connect_to, process.pid)

    def perform(self, system: System, work: Work) -> Done:
        """Have clients work through a system. Raises MissingError if it does not serve them."""
        command = [*system.inside, *on_cpu(LOAD_CPU, sys.executable, "-m", "bench.load", json.dumps(asdict(work)))]
        try:
            done = system.clients.call(
                subprocess.run,
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=work.seconds + PATIENCE,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise MissingError(f"fails at {work.kind}: {complaint(error.stderr)}") from error
        except subprocess.TimeoutExpired as error:
            raise MissingError(f"fails at {work.kind}: does not end") from error
        return Done(**json.loads(done.stdout))

    @contextmanager
    def holding(self, system: System, work: Work) -> Iterator[None]:
        """Hold idle connections through a system. Raises MissingError if it does not serve them."""
        command = [*system.inside, *on_cpu(LOAD_CPU, sys.executable, "-m", "bench.load", json.dumps(asdict(work)))]
        holder = system.clients.call(
            lambda: subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
        with holder:
            if holder.stdout is None or not holder.stdout.readline():
                raise MissingError(f"does not hold {work.clients} connections: {complaint(holder.communicate()[1])}")
            yield

    def _serve(self, name: str, listeners: Listeners, profile: Path | None = None) -> "subprocess.Popen[bytes]":
        """Have Belljar's gateway answer at the doors of a sandbox."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = [sys.executable, "-m", "bench.ourselves", str(theirs.fileno()), f"{self._directory}/{name}.log"]
            if profile is not None:
                command.append(str(profile))
            process = self._start(name, self._universe.gateway, GATEWAY_CPU, command, inherited=theirs.fileno())
            send_sockets(ours, listeners.groups())
        self._await_word(name, process)
        return process

    def _start(
        self,
        name: str,
        place: Place,
        cpu: int,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] = {},
        inherited: int | None = None,
    ) -> "subprocess.Popen[bytes]":
        with self._output(name).open("wb") as output:
            process = place.call(
                lambda: subprocess.Popen(
                    on_cpu(cpu, *command),
                    cwd=ROOT,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[] if inherited is None else [inherited],
                )
            )
        self._stack.callback(end, process)
        return process

    def _output(self, name: str) -> Path:
        return self._directory / f"{name}.out"

    def _await(self, name: str, process: "subprocess.Popen[bytes]", is_ready: Callable[[], bool]) -> None:
        given_up = time.monotonic() + PATIENCE
        while not is_ready():
            if process.poll() is not None or time.monotonic() > given_up:
                raise MissingError(f"does not start: {complaint(self._output(name).read_text(errors='replace'))}")
            time.sleep(0.02)

    def _await_word(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Wait until a program of ours says that it is ready."""
        self._await(name, process, lambda: "ready" in self._output(name).read_text())


def answers(place: Place, address: tuple[str, int]) -> bool:
    """Tell whether somebody answers there."""
    try:
        place.call(socket.create_connection, address, 1.0).close()
    except OSError:
        return False
    return True


def complaint(text: str) -> str:
    """Return the line of a program's output that says what went wrong."""
    lines = text.strip().splitlines() or ["it says nothing"]
    return next((line for line in lines if "fatal" in line.lower()), lines[-1])


def end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
