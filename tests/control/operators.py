"""`belljar serve` as the user who may use an engine, and who has no other rights."""

import subprocess
import sys
from pathlib import Path
from typing import Self

from belljar.linux import programs
from belljar.linux.namespaces import NetworkNamespace
from tests.engines import Engine

SOURCES = Path(__file__).parents[2] / "src"
PATIENCE = 60
CLAIM = "import sys, belljar; print(belljar.Client().claim(backend=sys.argv[1], image=sys.argv[2]).id)"


class Operator:
    """Somebody with an engine and a server of their own, in a network that has no way out."""

    def __init__(self, engine: Engine, namespace: NetworkNamespace) -> None:
        self._engine, self._namespace = engine, namespace
        self._state = engine.home / "server"
        engine.environment["BELLJAR_SERVER"] = str(self._state)
        namespace.run(lambda: programs.run("ip", "link", "set", "lo", "up"))
        words = self._python("-m", "belljar", "serve", "--port", "0", "--state", str(self._state))
        self._server = namespace.run(lambda: subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        assert self._server.stderr is not None
        line = self._server.stderr.readline()
        assert "listening on" in line, line + self._server.stderr.read()

    def claim(self, image: str) -> str:
        """Make a sandbox, and return its name."""
        return self._run("-c", CLAIM, self._engine.kind, image).strip()

    def belljar(self, *words: str) -> str:
        """Run a command of Belljar's, and return what it prints."""
        return self._run("-m", "belljar", *words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.belljar("stop", "--all")
        self._server.terminate()
        self._server.communicate(timeout=PATIENCE)

    def _run(self, *words: str) -> str:
        done = subprocess.run(self._python(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _python(self, *words: str) -> list[str]:
        engine = self._engine
        where = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}[engine.kind]
        environment = {**engine.environment, "PYTHONPATH": str(SOURCES), where: engine.url}
        variables = [f"{name}={value}" for name, value in environment.items()]
        return engine.as_user("env", "-i", *variables, sys.executable, *words)
