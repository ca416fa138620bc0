"""A toolbox is made once, and again when one of the files that it was made from has changed."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import belljar
from belljar.errors import BelljarError
from belljar.linux.programs import ENVIRONMENT, ProgramMissingError, find
from belljar.sandbox.toolbox.model import MODULES, Toolbox, ToolboxContents

_LIST_MODULES: Final = """\
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
print(json.dumps(sorted({module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)})))
"""
_COMPILE: Final = """\
import json, py_compile, sys
for source, compiled, seen in json.load(sys.stdin):
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(source, compiled, dfile=seen, doraise=True, invalidation_mode=mode)
"""
"""In a process of its own: the bytes of a compiled module depend on the strings that its process has interned."""

_ORDERS: Final = (b"/etc/ld.so.preload\0", b"/etc/ld.so.cache\0")
"""Files from which the loader takes libraries, of whatever system it runs in. Ours is to have them from nowhere."""

_LIBRARY: Final = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)


class ToolboxError(BelljarError):
    """A toolbox cannot be made on this machine. The text says what to mend."""


class _Python(NamedTuple):
    program: str
    modules: list[str]


def open_toolbox(cache: Path, contents: ToolboxContents) -> Toolbox:
    """Return the toolbox that is kept in a directory; make it if there is none, or an old one. Raises ToolboxError."""
    current = cache / "toolbox.json"
    try:
        known = json.loads(current.read_text())
        toolbox = Toolbox(cache / known["toolbox"]["digest"], **known["toolbox"])
        is_current = known["contents"] == _plain(contents) and known["sources"] == _as_they_are(known["sources"])
        if toolbox.directory.is_dir() and is_current:
            return toolbox
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none, or one that a later version of ours has made
    try:
        return _make(cache, contents, current)
    except ProgramMissingError as error:
        raise ToolboxError(f"{error}\nMend it: {error.remedy(contents.programs[error.program])}") from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolboxError(f"programs could not be gathered in {cache}: {error}") from error


def _make(cache: Path, contents: ToolboxContents, current: Path) -> Toolbox:
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    python = _python(contents.modules)
    programs = {name: find(name) for name in contents.programs}
    extensions = [module for module in python.modules if not module.endswith(".py")]
    libraries = _libraries([python.program, *programs.values(), *extensions])
    sources = {path: path for path in (python.program, *programs.values(), *extensions, *libraries)}
    sources |= {_place(module): module for module in python.modules if module.endswith(".py")}
    with tempfile.TemporaryDirectory(dir=cache) as made:
        root = Path(made) / "root"
        for seen, source in sources.items():
            _copy(Path(source), root / seen[1:])
        _compile(python.program, root, sources)
        for directory in ("run/belljar/door", "tmp", "proc", "sys", "dev", "etc", _extensions_of_python()[1:]):
            (root / directory).mkdir(parents=True, exist_ok=True)
        described: dict[str, Any] = {
            "loader": next(path for path in libraries if Path(path).name.startswith("ld-")),
            "libraries": sorted({str(Path(path).parent) for path in libraries}),
            "python": python.program,
            "programs": programs,
            "place": contents.place,
        }
        _write_commands(root / "bin", Toolbox(root, digest="", **described), contents.commands)
        for path in (root, *root.rglob("*")):  # for whatever user a container has, and whatever umask we have
            path.chmod((path.stat().st_mode | (0o555 if path.is_dir() else 0o444)) & ~0o022)
        described["digest"] = _digest(root)
        place = cache / described["digest"]
        try:
            root.rename(place)
        except OSError:
            if not place.is_dir():  # otherwise it was there, or somebody else was quicker
                raise
    sources_now = _as_they_are([*sources.values(), __file__])
    _write(current, {"toolbox": described, "contents": _plain(contents), "sources": sources_now})
    return Toolbox(place, **described)


def _write_commands(directory: Path, toolbox: Toolbox, commands: Mapping[str, str]) -> None:
    for name, module in commands.items():
        words = shlex.join(toolbox.calling(module, f"main([{name!r}, *sys.argv[1:]])"))
        directory.mkdir(exist_ok=True)
        (directory / name).write_text(
            f'#!/bin/sh\nunset LD_PRELOAD  # it names libraries of the image\nexec {words} "$@"\n'
        )
        (directory / name).chmod(0o755)


def _python(modules: Sequence[str]) -> _Python:
    """Return the Python that runs us, and the files that our programs import."""
    program = os.path.realpath(f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    command = [program, "-I", "-S", "-c", _LIST_MODULES, str(_our_modules()), *modules]
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


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    content = source.read_bytes()
    if target.name.startswith("ld-"):
        for file in _ORDERS:
            content = content.replace(file, bytes(len(file)))  # an empty name, which no file has
    target.write_bytes(content)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)  # for whatever user a container has


def _compile(python: str, root: Path, sources: Iterable[str]) -> None:
    """Compile the modules that are seen at some places, to the same bytes wherever that is done."""
    orders = []
    for seen in sorted(source for source in sources if source.endswith(".py")):
        module = root / seen[1:]
        compiled = module.parent / "__pycache__" / f"{module.stem}.{sys.implementation.cache_tag}.pyc"
        orders.append((str(module), str(compiled), seen))
    command = [python, "-I", "-S", "-B", "-c", _COMPILE]
    subprocess.run(command, input=json.dumps(orders), text=True, check=True, capture_output=True, env=ENVIRONMENT)  # noqa: S603


def _digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def _as_they_are(sources: Iterable[str]) -> dict[str, list[int]]:
    found = {source: Path(source).stat() for source in sources}
    return {source: [status.st_size, status.st_mtime_ns] for source, status in found.items()}


def _plain(contents: ToolboxContents) -> Any:
    """Return contents as JSON has them."""
    return json.loads(json.dumps(contents._asdict()))


def _write(path: Path, content: Any) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(content, file)
    Path(file.name).rename(path)
