"""A machine to ask, made of real files and real programs in a temporary directory."""

from dataclasses import dataclass, field
from pathlib import Path

from belljar.discovery import ToolHost, discover
from belljar.discovery.asking import Machine

SECRET = "hunter2"


@dataclass
class PlayedMachine:
    """Has nothing installed and nothing configured, until a test says so."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.bin.mkdir()
        self.env |= {"PATH": str(self.bin), "HOME": str(self.root / "home")}

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def machine(self) -> Machine:
        return Machine(env=self.env, root=self.root)

    def write(self, path: str, content: str | bytes) -> Path:
        """Write a file; a path that begins with ~/ is in the user's home."""
        target = self.root / path.replace("~", "home", 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def install(self, program: str, script: str = "") -> Path:
        """Install a shell script as a program."""
        path = self.write(f"bin/{program}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def install_saying(self, program: str, output: str) -> Path:
        """Install a program that prints this, whatever it is asked."""
        answer = self.write(f"answers/{program}", output)
        return self.install(program, f"exec /bin/cat {answer}")

    def hosts(self, tool: str) -> list[tuple[str, int, str]]:
        return [(found.host, found.port, found.why) for found in self.discover(tool)]

    def discover(self, tool: str) -> tuple[ToolHost, ...]:
        return discover(tool, self.machine)
