"""The probes as one file that any Python can run, and the Python that runs it."""

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

from belljar.linux.programs import ENVIRONMENT, ProgramMissingError, find
from belljar.sandbox.spec import Bind

OLDEST_PYTHON: Final = (3, 11)

_LOADER: Final = re.compile(r"^\s*(/\S*/ld-\S+) \(0x", re.MULTILINE)

_PACKAGE: Final = "belljar.verify.probes"
# Ctrl-C reaches the probes, too, where they run in the foreground: they exit without a traceback.
_MAIN: Final = f"""\
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
from {_PACKAGE}.descriptors import open_descriptors
found = open_descriptors()
from {_PACKAGE}.running import main
main(found)
"""


def bundle() -> bytes:
    """Return a zip archive with the probes' package; `python3 FILE` runs it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", _MAIN)
        parents = _PACKAGE.split(".")[:-1]
        for depth in range(len(parents)):
            archive.writestr("/".join([*parents[: depth + 1], "__init__.py"]), "")
        probes = Path(__file__).with_name("probes")
        for module in sorted(probes.rglob("*.py")):
            archive.write(module, "/".join([*_PACKAGE.split("."), *module.relative_to(probes).parts]))
    return content.getvalue()


class Interpreter(NamedTuple):
    """A Python that can be run inside."""

    words: tuple[str, ...]
    """What starts it."""

    binds: tuple[Bind, ...] = ()
    """What has to be shown inside for that."""


def interpreter() -> Interpreter:
    """Return the system's Python, which every sandbox sees, or else the one that runs Belljar."""
    try:
        program = find("python3")
    except ProgramMissingError:
        program = None
    if program is not None and _is_new_enough(program):
        return Interpreter(_without_capabilities(program))
    prefix = Path(sys.base_prefix)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    words = _without_capabilities(str(prefix / "bin" / name))
    return Interpreter(words, (Bind(prefix.resolve(), prefix, writable=False),))


def _without_capabilities(program: str) -> tuple[str, ...]:
    """Return the words that start a program without the capabilities of its file, if it has any.

    Where these cannot be had, as in containers, execve(2) refuses the file; its loader maps it, and gains nothing.
    """
    try:
        os.getxattr(program, "security.capability")
    except OSError:
        return (program,)
    listed = subprocess.run([find("ldd"), program], capture_output=True, text=True, check=False, env=ENVIRONMENT)  # noqa: S603
    loader = _LOADER.search(listed.stdout)
    return (loader[1], program) if loader else (program,)


def _is_new_enough(program: str) -> bool:
    script = f"import sys, ssl; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    command = [program, "-I", "-c", script]
    tried = subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT)  # noqa: S603 - the system's
    return tried.returncode == 0
