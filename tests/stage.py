"""Where the tests run: as root, with mounts of their own, in which everybody can read the checkout and its Python.

Only root can start container engines, and become the ordinary users as whom much is tried. So whoever is not root asks
`sudo` for it, once, and the whole run is done over.

Those ordinary users have to run this very Python and these very sources, and neither is theirs to read if the checkout
is in root's home, or was cloned with a umask of 077. A copy of the sources that everybody can read is therefore mounted
over them, and whatever on the way there is closed gives way to a directory that shows the checkout and the Python
alone. Paths stay what they were. Nothing of this is seen outside, and it ends with the run: nor does root leave
anything behind among the files of whoever has the checkout, but caches, which are theirs again in the end.
"""

import compileall
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from belljar.linux.files.mounts import enter_private_mount_namespace
from belljar.linux.programs import run
from tests import privileges

CHECKOUT = Path(__file__).resolve().parents[1]
CACHE = CHECKOUT / ".cache"
_VENV = CHECKOUT / ".venv"
_WRITTEN = (CACHE, CHECKOUT / ".pytest_cache")
"""What is kept from one run to the next."""
_MARK = CHECKOUT / ".staged"
_KEPT_VARIABLES = ("BELLJAR_", "PYTEST_", "PYTHON", "HYPOTHESIS_", "CI", "LANG", "LC_", "TERM", "TMPDIR", "COLUMNS")


def enter() -> None:
    """Go there, or as far as an ordinary user gets. For the start of the first process, when there is one thread."""
    if _MARK.exists():
        return
    become_root()
    if os.geteuid() == 0:
        _show_to_everybody()
    else:
        privileges.gain()


def become_root() -> None:
    """Start this program over through `sudo`, unless it runs as root or `sudo` does not work."""
    if os.geteuid() != 0 and (sudo := _sudo()):
        sys.stderr.write("tests: going on as root by sudo, to start container engines and to become other users\n")
        kept = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(_KEPT_VARIABLES)]
        os.execvp(sudo[0], [*sudo, "--", "env", *kept, sys.executable, *sys.orig_argv[1:]])


def behave() -> None:
    """Have this process, and those it starts, be the same whatever it was started by.

    A shell ignores signals on behalf of what it starts in the background, and a umask may close new files to others.
    """
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # by nohup: we go on, and what we start has no such favour
        signal.signal(signal.SIGHUP, lambda *_: None)
    os.umask(0o022)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode, whatever starts takes a second
    sys.dont_write_bytecode = False


def leave() -> None:
    """Give what was written, byte code included, to whoever has the checkout."""
    owner = _VENV.stat() if _VENV.exists() else CHECKOUT.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        for place in (*_WRITTEN, _VENV):
            for path in (place, *place.rglob("*")):
                with suppress(FileNotFoundError):  # another run has just removed it
                    os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _sudo() -> list[str] | None:
    """Return how to become root, after asking for a password if that is what it takes and somebody is there."""
    if shutil.which("sudo") is None:
        return None
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
        return ["sudo", "-n"]
    if os.isatty(0) and subprocess.run(["sudo", "-v"], check=False).returncode == 0:
        return ["sudo"]
    return None


def _show_to_everybody() -> None:
    workdir = Path.cwd()
    try:
        enter_private_mount_namespace()
    except PermissionError:
        return  # root of a container that may do nothing; the tests say what they miss
    os.umask(0o022)
    for place in _WRITTEN:
        place.mkdir(exist_ok=True)
    with _somewhere() as stage:
        _copy(CHECKOUT, stage / "checkout")
        for made in (_VENV, *_WRITTEN):
            _mount(made, stage / "checkout" / made.name)
        pythons = {Path(prefix) for prefix in (sys.base_prefix, os.path.realpath(sys.base_prefix))}
        _show(stage / "open", {CHECKOUT: stage / "checkout", **{python: python for python in pythons}})
    run("mount", "--make-rshared", "/")  # as it is on a machine
    os.chdir(workdir if workdir.exists() else CHECKOUT)
    _MARK.touch()
    compileall.compile_dir(CHECKOUT / "src", quiet=2)


@contextmanager
def _somewhere() -> Iterator[Path]:
    """Have an empty file system. What is mounted elsewhere from it stays when it has gone from here."""
    place = tempfile.mkdtemp(prefix="belljar-stage-", dir="/tmp")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tests", place)
    try:
        yield Path(place)
    finally:
        run("umount", "--lazy", place)
        Path(place).rmdir()


def _copy(source: Path, target: Path) -> None:
    """Copy what is in a directory and not hidden there, for everybody to read."""

    def hidden(directory: str, names: list[str]) -> list[str]:
        return [name for name in names if directory == str(source) and name.startswith(".")]

    shutil.copytree(source, target, symlinks=True, ignore=hidden)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


def _show(opened: Path, shown: Mapping[Path, Path]) -> None:
    """Mount what is to be seen at each path. What closes the way gives place to a directory that has nothing else."""
    closed = {path: _first_closed(path) for path in shown}
    for door in {door for door in closed.values() if door is not None}:
        substitute = opened / door.relative_to("/")
        for path in (path for path in shown if closed[path] == door):
            _mount(shown[path], substitute / path.relative_to(door))
        _mount(substitute, door)
    for path in (path for path in shown if closed[path] is None and shown[path] != path):
        _mount(shown[path], path)


def _first_closed(path: Path) -> Path | None:
    ways = [*reversed(path.parents), path]
    return next((way for way in ways if not way.stat().st_mode & 0o001), None)


def _mount(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    run("mount", "--rbind", str(source), str(target))
