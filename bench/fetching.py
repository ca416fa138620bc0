"""Getting the programs that Belljar is measured beside, without installing any of them on this machine.

Debian packages are downloaded and unpacked below `.cache/bench-peers`, with the libraries that are not here yet: no
root is needed, no service is started, and `make clean` takes it all away. Python packages get a virtual environment
there, and npm's a directory. What cannot be had is named, with the reason, and the benchmark goes on without it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from belljar.linux.namespaces import NetworkNamespace

PEERS = Path(__file__).resolve().parent.parent / ".cache" / "bench-peers"


class MissingError(Exception):
    """A peer cannot be measured here; the text says why."""


def from_debian(program: str, *packages: str) -> Path:
    """Unpack packages once, and return the root of what was unpacked. Raises MissingError."""
    root = PEERS / program
    ready = root / ".ready"
    if not ready.exists():
        _announce(program, f"the Debian packages {', '.join(packages)}")
        root.mkdir(parents=True, exist_ok=True)
        simulated = output_of("apt-get", "install", "--simulate", "--no-install-recommends", "-qq", *packages)
        # "Inst name (version ...": what is not here. Upgrades of what is here read "Inst name [old] (new ...".
        lines = (line.split() for line in simulated.splitlines())
        absent = [words[1] for words in lines if words[0] == "Inst" and words[2].startswith("(")]
        with TemporaryDirectory(dir=PEERS) as downloads:
            if absent:
                output_of("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *absent, directory=downloads)
            for package in Path(downloads).glob("*.deb"):
                output_of("dpkg", "-x", str(package), str(root))
        ready.touch()
    return root


def from_pip(program: str, package: str) -> Path:
    """Install a Python package once, into an environment of its own, and return that. Raises MissingError."""
    root = PEERS / program
    ready = root / ".ready"
    if not ready.exists():
        _announce(program, f"the Python package {package}")
        output_of(sys.executable, "-m", "venv", str(root))
        output_of(str(root / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", package)
        ready.touch()
    return root


def from_npm(program: str, package: str) -> Path:
    """Install a package of npm's once, and return the directory of its programs. Raises MissingError."""
    root = PEERS / program
    ready = root / ".ready"
    if not ready.exists():
        _announce(program, f"npm's package {package}")
        options = ["--no-fund", "--no-audit", f"--cache={PEERS.parent / 'npm'}", f"--prefix={root}"]
        output_of("npm", "install", *options, package, environment=os.environ)  # npm is also configured there
        ready.touch()
    return root / "node_modules" / ".bin"


def libraries_of(root: Path) -> dict[str, str]:
    """Return the variable with which programs find the libraries that were unpacked with them."""
    found = {str(library.parent) for library in root.glob("usr/lib/**/*.so.*")}
    return {"LD_LIBRARY_PATH": ":".join(sorted(found))}


def version_of(*command: str, environment: Mapping[str, str] = {}) -> str:
    """Return the first version number that a program prints. Raises MissingError.

    Some look for a newer version of themselves when they are asked; so they are asked where there is no network.
    """
    with NetworkNamespace.create() as nowhere:
        printed = nowhere.run(lambda: output_of(*command, environment=environment))
    found = re.search(r"\d+(\.\d+)+", printed)
    return found[0] if found else "of unknown version"


def _announce(program: str, what: str) -> None:
    print(f"bench: fetching {program}: {what}", file=sys.stderr)


def output_of(*command: str, directory: str = ".", environment: Mapping[str, str] = {}) -> str:
    """Run a program, and return what it prints. Raises MissingError, with its last words."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={
                "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": str(Path.home()),
                "LC_ALL": "C",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        raise MissingError(str(error)) from error
    if done.returncode != 0:
        last = done.stdout.strip().rpartition("\n")[2]
        raise MissingError(f"{Path(command[0]).name}: {last or f'exit status {done.returncode}'}")
    return done.stdout
