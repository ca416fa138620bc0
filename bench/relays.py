"""Where the broker is measured: a network namespace with nothing but loopback, and a provider's stand-in in it.

    client ──(plain)──▶ the broker or a peer ──(TLS)──▶ provider

The broker's clients reach it by its unix socket, as the gateway does, and those of the peers by loopback. Whatever a
program here would send to anyone else has no way to go.
"""

import http.client
import os
import resource
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

import trustme

from belljar.linux.programs import run
from bench.arena import answers, complaint, end
from bench.fetching import MissingError
from bench.peers import Peer
from bench.processes import GATEWAY_CPU, on_cpu
from tests.broker.running import Running, service
from tests.broker.standin import Page, StandIn
from tests.universe import Place

PATH = "/v1/messages"
PATIENCE = 60.0
"""Seconds in which a program must be ready."""


class Relay(NamedTuple):
    """A way to the provider."""

    name: str
    does: str
    connect: Callable[[], http.client.HTTPConnection]
    path: str = PATH
    pid: int = 0


class Loopback:
    """The namespace, the provider in it, and what was started."""

    def __init__(self) -> None:
        # Whatever is started inherits it.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = authority.issue_cert("localhost")
        certificate.configure_cert(context)
        with ExitStack() as stack:
            self._directory = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
            self._authority = self._directory / "ca.pem"
            authority.cert_pem.write_to_path(self._authority)
            self._certificate = self._directory / "localhost.pem"
            certificate.private_key_and_cert_chain_pem.write_to_path(self._certificate)
            self.place = Place("loopback")
            stack.callback(self.place.close)
            self.place.call(run, "ip", "link", "set", "lo", "up")
            self._provider = self.place.call(stack.enter_context, StandIn(context))
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def direct(self) -> Relay:
        """Return the way with nothing in between."""
        context = ssl.create_default_context(cafile=self._authority)

        def connect() -> http.client.HTTPConnection:
            return self._connected(http.client.HTTPSConnection("localhost", self._provider.port, context=context))

        return Relay("Direct", "nothing in between", connect)

    def belljar(self) -> tuple[Relay, Relay]:
        """Start a broker, and return the ways through it: with requests as they come, and with each one judged."""
        environ = {"SSL_CERT_FILE": str(self._authority), "HTTPS_PROXY": ""}
        broker = self.place.call(Running, self._directory, environ)
        self._stack.callback(broker.stop)
        self.broker_files = broker.path, self._certificate
        os.sched_setaffinity(broker.process.pid, {GATEWAY_CPU})
        used, pid = service(self._provider.url), broker.process.pid
        does = "the key is put in, usage read from the answer and counted, an event for each request"
        judged = "the same, and every request is read in full, for tools that the policy does not grant"
        return (
            Relay("Belljar", does, lambda: broker.client(used, "bench"), pid=pid),
            Relay("Belljar, judging", judged, lambda: broker.client(used, "bench-judged", refuse_tools=True), pid=pid),
        )

    def peer(self, name: str, prepare: Callable[[Path, str, Path], Peer], path: str) -> Relay:
        """Start a peer. Raises MissingError."""
        peer = prepare(self._directory, self._provider.url, self._authority)
        output = self._directory / f"{name}.out"
        with output.open("wb") as file:
            process = self.place.call(
                lambda: subprocess.Popen(
                    on_cpu(GATEWAY_CPU, *peer.command),
                    cwd=self._directory,
                    env={"PATH": os.environ["PATH"], "HOME": str(self._directory), **peer.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                )
            )
        self._stack.callback(end, process)
        given_up = time.monotonic() + PATIENCE
        while not answers(self.place, ("127.0.0.1", peer.port)):
            if process.poll() is not None or time.monotonic() > given_up:
                raise MissingError(f"does not start: {complaint(output.read_text(errors='replace'))}")
            time.sleep(0.02)

        def connect() -> http.client.HTTPConnection:
            return self._connected(http.client.HTTPConnection("127.0.0.1", peer.port, timeout=30))

        return Relay(name, f"{peer.does} (version {peer.version})", connect, path, process.pid)

    @contextmanager
    def answering(self, page: Page) -> Iterator[None]:
        """Have the provider answer in a certain way."""
        self._provider.pages[PATH] = page
        try:
            yield
        finally:
            self._provider.pages.clear()

    def _connected(self, client: http.client.HTTPConnection) -> http.client.HTTPConnection:
        self.place.call(client.connect)
        return client
