"""The README's commands, run as printed, with stand-ins for what they reach; NOT_RUN lists the others with a reason."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from belljar.cli.main import cli
from tests.backends.local.conftest import PATIENCE, Cli, own_cli
from tests.control.conftest import server
from tests.docs.test_docs import DOCS, ROOT
from tests.docs.test_sdk_docs import in_memory
from tests.universe import addresses
from tests.universe.zone import at

__all__ = ["own_cli", "server"]

README = DOCS["README.md"]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
BELLJAR = "belljar "
MAKE = "make "
NOT_RUN = {
    "pipx install": "needs a package index",
    "uv tool install": "needs a package index",
    "make demo": "tests/test_demo.py runs what it runs",
    "make test": "runs this test",
    "belljar verify": "tests/verify/test_verify.py runs it, and tests/verify/test_verify_containers.py with Docker",
    "belljar run --backend docker": "needs Docker and an image; tests/backends/containers/test_run.py runs others",
    "belljar run --backend podman": "needs Podman and an image; tests/backends/containers/test_run.py runs others",
}
"""By how a command begins. Those of Belljar are parsed all the same, and targets are looked for in the Makefile."""


class Shown(NamedTuple):
    """A command, and what the README says it prints."""

    command: str
    output: list[str]


def _shown() -> Iterator[Shown]:
    for language, block in BLOCKS:
        text = block.replace("\\\n", "")
        if language == "console":
            for part in filter(None, re.split(r"^\$ ", text, flags=re.MULTILINE)):
                command, *output = part.splitlines()
                yield Shown(command, output)
        elif language == "sh":
            for line in text.splitlines():
                yield Shown(re.sub(r"\s+# .*", "", line), [])


SHOWN = list(_shown())
RUN = [each for each in SHOWN if not each.command.startswith(tuple(NOT_RUN))]
CLAUDE = """\
#!/bin/sh
curl -s -o /dev/null -w '%{http_code}' -H "x-api-key: $ANTHROPIC_API_KEY" "$ANTHROPIC_BASE_URL/v1/models"
env >environment
"""


def test_what_is_not_run_is_still_in_the_readme():
    assert [start for start in NOT_RUN if not any(each.command.startswith(start) for each in SHOWN)] == []


@pytest.mark.parametrize("command", [each.command for each in SHOWN if each.command.startswith(BELLJAR)])
def test_each_command_is_one_of_belljars(command):
    words = shlex.split(command)[1:]
    found: click.Command = cli
    context = click.Context(cli)
    while isinstance(found, click.Group):
        _, found, words = found.resolve_command(context, words)  # type: ignore[assignment]
    found.make_context("belljar", words).close()


@pytest.mark.parametrize("command", [each.command for each in SHOWN if each.command.startswith(MAKE)])
def test_each_target_is_in_the_makefile(command):
    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


class Desk:
    """Where a user follows the README: a machine whose internet is a stand-in."""

    def __init__(self, cli: Cli) -> None:
        self._universe, self.workdir = cli.universe, cli.workdir
        names = ("example.org", "github.com", "api.anthropic.com")
        self._universe.zone.update({name: at(addresses.PUBLIC) for name in names})
        self.variables = cli.environment(
            PATH=f"{Path(sys.executable).parent}:{self.workdir}:/usr/bin:/bin",
            HOME="/home/you",
            ANTHROPIC_API_KEY="sk-the-real-key",
            SSL_CERT_FILE=str(self._universe.certificates.path),
        )
        (self.workdir / "claude").write_text(CLAUDE)
        (self.workdir / "claude").chmod(0o755)
        (self.workdir / "examples").symlink_to(ROOT / "examples")
        (self.workdir / "Makefile").write_text("test:\n\t@curl -s -o /dev/null http://plain.test/\n")
        policy = next(block for language, block in BLOCKS if language == "yaml")
        (self.workdir / "policy.yaml").write_text(policy)

    def type(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command as a shell does."""
        return self._universe.gateway.call(
            subprocess.run,
            ["bash", "-c", command],
            cwd=self.workdir,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


@pytest.fixture
def desk(own_cli):
    return Desk(own_cli)


def _without_details(line: str) -> str:
    """Leave out how many bytes there are, how often a resolver asks, and where the home directory is."""
    return re.sub(r"\d+ B| \(\d+ times\)|/\S+(?=/\.ssh)", "", line)


def first_minute(desk: Desk, shown: Shown) -> None:
    done = desk.type(shown.command)
    assert done.returncode == 1, "as cat fails"
    printed = done.stdout.splitlines() + done.stderr.splitlines()
    assert list(map(_without_details, printed)) == list(map(_without_details, shown.output))


def keeps_the_key_outside(desk: Desk, shown: Shown) -> None:
    desk.variables["HTTPS_PROXY"] = (
        f"http://{addresses.PUBLIC}:{addresses.PROXY}"  # no resolver of the system's answers
    )
    done = desk.type(shown.command)
    assert (done.returncode, done.stdout) == (0, "200"), done.stderr
    assert "sk-the-real-key" not in (desk.workdir / "environment").read_text()


def learns(desk: Desk, shown: Shown) -> None:
    done = desk.type(shown.command)
    assert done.returncode == 0, done.stderr
    assert "allowed_domains:\n    - plain.test\n" in done.stderr


def opens_a_shell(desk: Desk, shown: Shown) -> None:
    fetch = "curl -s -o /dev/null -w '%{http_code}' http://github.com"
    done = desk.type(f"echo {shlex.quote(fetch)} | {shown.command}")
    assert (done.returncode, done.stdout) == (0, "200"), done.stderr


def looks_at_the_machine(desk: Desk, shown: Shown) -> None:
    done = desk.type(shown.command)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("STATE  WHAT")


def explains(desk: Desk, shown: Shown) -> None:
    done = desk.type(shown.command)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(shown.output)
    for line, expected in zip(lines, shown.output, strict=True):
        beginning, cut, _ = expected.partition("…")
        assert line.split()[: len(beginning.split())] == beginning.split()
        assert cut or line.rstrip() == expected


def evaluates(desk: Desk, shown: Shown) -> None:
    done = desk.type(f"{shown.command} --state {desk.workdir}/state")
    assert done.returncode == 0, done.stderr
    assert "100.0" in done.stdout


def installs(desk: Desk, _: Shown) -> None:
    """The target, but for the set-up that has made what runs this test."""
    home = desk.workdir / "home"

    def install(path: str) -> "subprocess.CompletedProcess[str]":
        command = ["make", "-o", "setup", "install"]
        environment = {**os.environ, "HOME": str(home), "PATH": path}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    link = home / ".local/bin/belljar"
    done = install(os.environ["PATH"])
    assert (done.returncode, link.readlink()) == (0, ROOT / ".venv/bin/belljar"), done.stderr
    assert 'is not on your PATH; add this line to ~/.profile, and log in again:\n    export PATH="$HOME/' in done.stdout
    assert subprocess.run([link, "--version"], check=True, capture_output=True).stdout.startswith(b"belljar ")
    assert "PATH" not in install(f"{link.parent}:{os.environ['PATH']}").stdout
    link.unlink()
    link.write_text("another")
    refused = install(os.environ["PATH"])
    assert refused.returncode != 0
    assert "belongs to another installation; remove it" in refused.stderr
    assert link.read_text() == "another"


CHECKS: dict[str, Callable[[Desk, Shown], None]] = {
    "make install": installs,
    "belljar run --allow example.org": first_minute,
    "belljar run --broker anthropic": keeps_the_key_outside,
    "belljar run --learn": learns,
    "belljar shell": opens_a_shell,
    "belljar doctor": looks_at_the_machine,
    "belljar policy explain": explains,
    "belljar eval": evaluates,
}
"""By how a command begins."""


@pytest.mark.parametrize("shown", RUN, ids=[each.command for each in RUN])
def test_a_command_does_what_the_readme_says(desk, shown):
    [check] = [check for start, check in CHECKS.items() if shown.command.startswith(start)]
    check(desk, shown)


def test_the_program_runs(server, monkeypatch, capsys):
    monkeypatch.setenv("BELLJAR_SERVER", str(server.state))
    in_memory(monkeypatch)
    [program] = [block for language, block in BLOCKS if language == "python"]
    exec(program, {})
    assert capsys.readouterr().out.endswith("[]\n")
