"""Our own programs, for containers whose images may have none that can be trusted, or none at all.

The toolbox is a directory made of what is on this machine: Python with the few modules that we need, `nft`, `ip`, a
shell, and the libraries that they are linked with, all at their own places. It is used twice. As an image, it is what
helper containers run. And it is shown inside every sandbox, read-only, where its loader is called by name: so the
first process of a container is ours, and neither the image's loader nor its libraries have a part in it. Where it is
shown is another place for each sandbox, which no image can know: one that did could have a link or a volume on the way.

It is made once, and again when one of the files that it was made from has changed.
"""

import fcntl
import hashlib
import io
import json
import os
import py_compile
import re
import secrets
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import belljar
from belljar.backends.interface import MachineError
from belljar.linux.programs import ENVIRONMENT, ProgramMissingError, find
from belljar.sandbox.files.ownplaces import caches

MODULES: Final = Path("/opt/belljar")
"""Where our own modules are in it."""

_PROGRAMS: Final = {
    "sh": "dash",
    "sleep": "coreutils",
    "stty": "coreutils",
    "setsid": "util-linux",
    "nft": "nftables",
}
_IMPORTED: Final = (
    "belljar.backends.containers.helper",
    "belljar.backends.containers.exec.files",
    "belljar.backends.containers.exec.monitor",
    "belljar.sandbox.looking",
    "belljar.sandbox.trees.program",
)
_LIST_MODULES: Final = """\
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
print(json.dumps(sorted({module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)})))
"""
_ORDERS: Final = (b"/etc/ld.so.preload\0", b"/etc/ld.so.cache\0")
"""Files from which the loader takes libraries, of whatever system it runs in. Ours is to have them from nowhere."""

_LIBRARY: Final = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)


class _Python(NamedTuple):
    program: str
    modules: list[str]


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A toolbox that was made."""

    directory: Path
    digest: str
    loader: str
    libraries: list[str]
    """The directories that libraries are in."""

    python: str
    shell: str
    sleep: str
    stty: str
    setsid: str

    place: str = ""
    """Where it is seen: at the root, as helpers do, or in a directory."""

    def hidden(self) -> "Toolbox":
        """Return it as a new sandbox sees it, at a place that nobody has known before."""
        return self.seen_at(f"/.belljar-{secrets.token_hex(8)}")

    def seen_at(self, place: str) -> "Toolbox":
        """Return it as a sandbox sees it."""
        return replace(self, place=place)

    def image(self) -> bytes:
        """Return it as the archive of an image."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.add(self.directory, ".", filter=_anonymous)
        return content.getvalue()

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Have all others wait, in this process and in others."""
        directory = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def inside(self, program: str, *arguments: str) -> list[str]:
        """Return the words that run one of its programs in a sandbox."""
        libraries = ":".join(f"{self.place}{directory}" for directory in self.libraries)
        return [f"{self.place}{self.loader}", "--library-path", libraries, f"{self.place}{program}", *arguments]


def default_cache(environment: Mapping[str, str]) -> Path:
    """Return where toolboxes of this user are kept."""
    return caches(environment) / "toolbox"


def open_toolbox(cache: Path) -> Toolbox:
    """Return the toolbox of this machine; make it if there is none, or an old one. Raises MachineError."""
    current = cache / "toolbox.json"
    try:
        known = json.loads(current.read_text())
        toolbox = Toolbox(cache / known["toolbox"]["digest"], **known["toolbox"])
        if toolbox.directory.is_dir() and known["sources"] == _as_they_are(known["sources"]):
            return toolbox
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none, or one that a later version of ours has made
    try:
        return _make(cache, current)
    except ProgramMissingError as error:
        mend = f"Mend it: {error.remedy(_PROGRAMS[error.program])}"
        raise MachineError(f"containers cannot be sealed: {error}\n{mend}") from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise MachineError(f"the programs that seal containers could not be gathered in {cache}: {error}") from error


def _make(cache: Path, current: Path) -> Toolbox:
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    python = _python()
    programs = {name: find(name) for name in _PROGRAMS}
    extensions = [module for module in python.modules if not module.endswith(".py")]
    libraries = _libraries([python.program, *programs.values(), *extensions])
    sources = {path: path for path in (python.program, *programs.values(), *extensions, *libraries)}
    sources |= {_place(module): module for module in python.modules if module.endswith(".py")}
    with tempfile.TemporaryDirectory(dir=cache) as made:
        root = Path(made) / "root"
        for seen, source in sources.items():
            _copy(Path(source), root / seen[1:], seen)
        for directory in ("run/belljar/door", "tmp", "proc", "sys", "dev", "etc", _extensions_of_python()[1:]):
            (root / directory).mkdir(parents=True, exist_ok=True)
        for path in (root, *root.rglob("*")):  # for whatever user a container has, and whatever umask we have
            path.chmod((path.stat().st_mode | (0o555 if path.is_dir() else 0o444)) & ~0o022)
        described: dict[str, Any] = {
            "digest": _digest(root),
            "loader": next(path for path in libraries if Path(path).name.startswith("ld-")),
            "libraries": sorted({str(Path(path).parent) for path in libraries}),
            "python": python.program,
            "shell": programs["sh"],
            "sleep": programs["sleep"],
            "stty": programs["stty"],
            "setsid": programs["setsid"],
        }
        place = cache / described["digest"]
        if not place.exists():
            root.rename(place)
    _write(current, {"toolbox": described, "sources": _as_they_are([*sources.values(), __file__])})
    return Toolbox(place, **described)


def _python() -> _Python:
    """Return the Python that runs us, and the files that our programs import."""
    program = os.path.realpath(f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    command = [program, "-I", "-S", "-c", _LIST_MODULES, str(_our_modules()), *_IMPORTED]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)  # noqa: S603 - our own
    return _Python(program, json.loads(listed.stdout))


def _extensions_of_python() -> str:
    """Return the directory that Python looks for at its start, and complains of if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return f"{sys.base_exec_prefix}/{sys.platlibdir}/{version}/lib-dynload"


def _our_modules() -> Path:
    return Path(belljar.__file__).resolve().parents[1]


def _libraries(files: Iterable[str]) -> list[str]:
    """Return the libraries that programs are linked with, and the loader; a variable could name others."""
    command = [find("ldd"), *files]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)  # noqa: S603
    return sorted(set(_LIBRARY.findall(listed.stdout)))


def _place(module: str) -> str:
    ours = _our_modules()
    return str(MODULES / Path(module).relative_to(ours)) if Path(module).is_relative_to(ours) else module


def _copy(source: Path, target: Path, seen: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    content = source.read_bytes()
    if target.name.startswith("ld-"):
        for file in _ORDERS:
            content = content.replace(file, bytes(len(file)))  # an empty name, which no file has
    target.write_bytes(content)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)  # for whatever user a container has
    if target.suffix == ".py":  # compiled to the same bytes, wherever that is done
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compiled = target.parent / "__pycache__" / f"{target.stem}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(target), str(compiled), dfile=seen, doraise=True, invalidation_mode=mode)


def _digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def _as_they_are(sources: Iterable[str]) -> dict[str, list[int]]:
    found = {source: Path(source).stat() for source in sources}
    return {source: [status.st_size, status.st_mtime_ns] for source, status in found.items()}


def _write(path: Path, content: Any) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(content, file)
    Path(file.name).rename(path)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = member.mode | 0o555
    return member
