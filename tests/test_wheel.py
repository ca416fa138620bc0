"""What people install: the wheel, with what it depends on and nothing else."""

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.stage import CHECKOUT

_PATIENCE = 120

PROXY = ["proxy", "--target", "https://api.anthropic.com"]


class Environment:
    """A virtual environment that has Belljar's wheel, and the distributions that it depends on."""

    def __init__(self, place: Path, wheel: Path, extras: Iterable[str] = ()) -> None:
        venv.create(place, with_pip=False, symlinks=True)
        packages = next(place.glob("lib/python*/site-packages"))
        _pip("install", "--no-compile", "--target", str(packages), str(wheel))
        for name in _needed("belljar", set(extras)):
            _show(name, packages)
        self._python = place / "bin" / "python"

    def belljar(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.python("-m", "belljar", *words)

    def python(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self._python), "-I", *words]
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, timeout=_PATIENCE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(place), str(CHECKOUT))
    return next(place.glob("belljar-*.whl"))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("plain"), wheel)


@pytest.mark.parametrize("command", ["run", "shell", "verify", "policy", "doctor"])
def test_what_needs_no_extra_is_there_without_one(plain: Environment, command: str) -> None:
    done = plain.belljar(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_runs_in_a_sandbox(plain: Environment) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as workdir:
        done = plain.belljar("run", "--workdir", workdir, "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "name"), [(["serve", "--port", "0"], "server"), (["ps"], "client"), (PROXY, "broker")]
)
def test_a_missing_extra_is_named_with_its_remedy(plain: Environment, words: list[str], name: str) -> None:
    done = plain.belljar(*words)
    assert done.returncode == 125
    assert done.stderr.startswith(f"belljar: this needs Belljar's {name}, and ")
    assert done.stderr.endswith(f"pip install 'belljar[{name}]'\n")


def test_a_program_is_told_of_the_missing_client(plain: Environment) -> None:
    trying = "import belljar, belljar.errors as e\ntry: belljar.Client()\nexcept e.MissingExtraError as x: print(x)"
    assert "pip install 'belljar[client]'" in plain.python("-c", trying).stdout


def test_the_client_alone_finds_out_that_nobody_serves(wheel: Path, tmp_path: Path) -> None:
    done = Environment(tmp_path / "env", wheel, ["client"]).belljar("ps", "--server", str(tmp_path))
    assert done.returncode == 125
    assert "no server answers" in done.stderr


def test_the_server_has_its_dashboard(wheel: Path, tmp_path: Path) -> None:
    source = CHECKOUT / "src"
    shown = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(source)) for path in shown} <= set(zipfile.ZipFile(wheel).namelist())
    importing = "import belljar.control.serving, belljar.control.backends; print('ready')"
    assert Environment(tmp_path / "env", wheel, ["server"]).python("-c", importing).stdout == "ready\n"


def _needed(name: str, extras: set[str], found: set[str] | None = None) -> set[str]:
    """Return the distributions that one depends on, directly or not."""
    found = set() if found is None else found
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        marker, applies = requirement.marker, [{"extra": extra} for extra in extras or {""}]
        if marker is None or any(marker.evaluate(each) for each in applies):
            other = _canonical(requirement.name)
            if other not in found:
                found.add(other)
                _needed(other, requirement.extras, found)
    return found


def _pip(command: str, *words: str) -> None:
    alone = ("--quiet", "--no-index", "--no-deps")
    subprocess.run([sys.executable, "-m", "pip", command, *alone, *words], check=True, timeout=_PATIENCE)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _show(name: str, packages: Path) -> None:
    """Have a distribution of ours in another environment, too."""
    files = distribution(name).files or []
    for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(distribution(name).locate_file(top))))
