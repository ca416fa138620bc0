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
    exposed: list[Path] = field(default_factory=list)

    def __post_init__(self):
        self.bin.mkdir()
        self.home.mkdir()
        self.env |= {"PATH": str(self.bin), "HOME": str(self.home)}

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def machine(self) -> Machine:
        return Machine(env=self.env, root=self.root, users_home=self.home, exposed=tuple(self.exposed))

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

    def install_npm(self, default: str = "https://public.corp.example/", prefix: str = "usr") -> Path:
        """Install npm as it is distributed: a link to a program in its own package."""
        package = f"{prefix}/lib/node_modules/npm"
        definitions = f"registry: new Definition('registry', {{\n    default: '{default}',\n    type: url,"
        self.write(f"{package}/node_modules/@npmcli/config/lib/definitions/definitions.js", definitions)
        program = self.write(f"{package}/bin/npm-cli.js", f"#!/bin/sh\necho run >{self.root}/traces\n")
        program.chmod(0o755)
        link = self.write(f"{prefix}/bin/npm", "")
        link.unlink()
        link.symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
        return program

    def install_go(self, *defaults: str, prefix: str = "usr/local/go") -> Path:
        """Install go with the defaults that come with it."""
        self.write(f"{prefix}/go.env", "\n".join(("# The defaults.", *defaults)))
        program = self.write(f"{prefix}/bin/go", f"#!/bin/sh\necho run >{self.root}/traces\n")
        program.chmod(0o755)
        self.env["PATH"] += f":{program.parent}"
        return program

    def install_pip(self, index: str = "https://public.corp.example/", files: str = "files.corp.example") -> Path:
        """Install the source in which pip has its default index."""
        return self.write(
            "usr/lib/python3/dist-packages/pip/_internal/models/index.py",
            f'PyPI = PackageIndex("{index}", file_storage_domain="{files}")\nTestPyPI = PackageIndex("https://t.example")\n',
        )

    def hosts(self, tool: str) -> list[tuple[str, int, str]]:
        return [(found.host, found.port, found.why) for found in self.discover(tool)]

    def discover(self, tool: str) -> tuple[ToolHost, ...]:
        return discover(tool, self.machine)
