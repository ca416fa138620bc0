"""The real server: `belljar serve` as a process where the gateway lives, with sandboxes of the local backend."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx2

from tests.control.servers import API, PATIENCE
from tests.universe import Universe, addresses

ROOT = Path(__file__).parents[2]
PORT = 18080


class _Connection(HTTPConnection):
    """A connection over a unix socket that leaves nothing behind if it cannot be made."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Machine:
    """A machine with a state directory. Its server can be killed and started again."""

    through: tuple[str, ...] = ()
    """What the server is started by."""

    environment: Mapping[str, str] = {}
    """What it is told besides."""

    def __init__(self, universe: Universe, state: Path, *options: str) -> None:
        self.universe, self.state, self._options = universe, state, options
        self.log = state.parent / f"{state.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.launch()
        given_up = time.monotonic() + PATIENCE
        while True:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            with suppress(OSError), socket.socket(socket.AF_UNIX) as trial:
                trial.connect(str(self.state / "belljar.sock"))
                break
            assert time.monotonic() < given_up, self.log.read_text()
            time.sleep(0.01)
        with self.client() as client:
            assert client.get("http://localhost/healthz").status_code == 200

    def launch(self) -> None:
        """Start the server, and do not wait."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/home/somebody",
            "PYTHONPATH": str(ROOT / "src"),
            "BELLJAR_RESOLVER": addresses.RESOLVER,
            **self.environment,
        }
        with self.log.open("ab") as log:
            self.process = self.universe.gateway.call(
                subprocess.Popen,
                [
                    *self.through,
                    sys.executable,
                    "-m",
                    "belljar",
                    "serve",
                    "--state",
                    str(self.state),
                    "--port",
                    str(PORT),
                    *self._options,
                ],
                env=environment,
                stderr=log,
            )

    def kill(self) -> None:
        """Kill the server as it stands."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End the server as its user would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()

    def client(self) -> httpx2.Client:
        """A client on the unix socket."""
        transport = httpx2.HTTPTransport(uds=str(self.state / "belljar.sock"), verify=False)
        return httpx2.Client(base_url=API, transport=transport, timeout=PATIENCE)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask for something that must be granted. Raises OSError if the server is lost."""
        with closing(_Connection(self.state / "belljar.sock")) as connection:
            try:
                connection.request(method, f"/api/v1{path}", json.dumps(body), {"content-type": "application/json"})
                answer = connection.getresponse()
                content = answer.read()
            except HTTPException as error:
                raise ConnectionError(error) from error
        assert answer.status < 300, content
        return json.loads(content) if content else None

    def sandbox(self, network: Any = None, **body: Any) -> str:
        """Make a sandbox, and return its name."""
        return str(self.call("POST", "/sandboxes", {**({"network": network} if network else {}), **body})["id"])

    def run(self, jar: str, *command: str, **more: Any) -> dict[str, Any]:
        """Run a command, and return how it went."""
        result: dict[str, Any] = self.call("POST", f"/sandboxes/{jar}/exec", {"command": list(command), **more})
        return result

    def fetch(self, jar: str, url: str, *options: str) -> str:
        """Return what curl gets inside; nothing if it gets nothing."""
        return str(self.run(jar, "curl", "-s", "-g", "-m", "10", *options, url)["stdout"])

    def clean_up(self) -> None:
        """Delete every sandbox, and end the server."""
        for sandbox in self.call("GET", "/sandboxes?limit=1000")["sandboxes"]:
            self.call("DELETE", f"/sandboxes/{sandbox['id']}")
        self.stop()

    def leftovers(self) -> list[str]:
        """Return what is left of sandboxes on this machine: directories of theirs, and processes that see one."""
        found = [entry.name for entry in (self.state / "local").iterdir() if not entry.name.startswith(".")]
        for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
            with suppress(OSError):
                if f" {self.state}/local/" in mounts.read_text():
                    found.append(f"process {mounts.parent.name}")
        return found
