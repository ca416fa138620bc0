import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from tests.agents import api
from tests.agents.model import Model
from tests.backends.containers import conftest as containers
from tests.backends.containers.conftest import cache, docker_as_root
from tests.backends.local.conftest import PATIENCE, ROOT, Cli, cli
from tests.engines import File, make_image
from tests.engines.images import Directory, Files
from tests.universe import Universe, addresses, web
from tests.universe.zone import at

__all__ = ["cache", "cli", "docker_as_root"]

AGENTS = ROOT / ".cache" / "agents"
OTHER_SECRET = "s3cret"
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")


class Desk:
    """Where somebody follows the recipes of docs/agents.md: a home directory, a project, and a shell.

    The providers are in the universe, under their real names, and are reached like anything else from a machine that
    has a proxy: the broker verifies who they are.
    """

    def __init__(self, cli: Cli | containers.Cli, command: Sequence[str], home: Path) -> None:
        self._universe, self.workdir, self._home = cli.universe, cli.workdir, home
        self.key = f"sk-{uuid4().hex}{uuid4().hex}"
        """Nobody has ever seen it."""
        self.audit = home / "audit.ndjson"
        self.notes = self.workdir / "notes.txt"
        self.notes.write_text("hello world\n")
        authority = str(shutil.copy(self._universe.certificates.path, home))
        for place in ("claude", "codex", "opencode"):
            (home / ".belljar" / place).mkdir(parents=True)
        owner = self.workdir.stat()
        for path in (self.notes, home, *home.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        options = ["--quiet", "--ro-bind", str(AGENTS), "--ro-bind", authority, "--audit", str(self.audit)]
        options += [f"--env=NODE_EXTRA_CA_CERTS={authority}"]
        self._belljar = shlex.join([*command, *options])
        self.variables = cli.environment() | {
            "HOME": str(home),
            "OTHER_SECRET": OTHER_SECRET,
            "SSL_CERT_FILE": authority,
            "HTTPS_PROXY": f"http://{addresses.PUBLIC}:{addresses.PROXY}",
            **dict.fromkeys(KEY_VARIABLES, self.key),
        }
        self.variables["PATH"] = f"{AGENTS}/node_modules/.bin:{self.variables['PATH']}"

    def start(self, recipe: str) -> "subprocess.Popen[str]":
        """Type a recipe into a shell, in which `belljar` is the one under test."""
        return self._universe.gateway.call(
            lambda: subprocess.Popen(
                ["sh", "-euc", f'belljar() {{ shift; {self._belljar} "$@"; }}\n{recipe}'],
                cwd=self.workdir,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def follow(self, recipe: str, code: int = 0) -> str:
        """Type it, and return what is said."""
        with self.start(recipe) as process:
            output, errors = process.communicate(timeout=2 * PATIENCE)
        assert process.returncode == code, output + errors
        return output + errors * bool(code)

    def events(self, *kinds: str) -> list[dict[str, object]]:
        """Return what the audit tells of some kinds."""
        events = map(json.loads, self.audit.read_text().splitlines())
        return [event for event in events if event["event"] in kinds]

    def denied(self) -> set[str]:
        """Return the names and addresses that were denied, as the audit says."""
        denied = self.events("dns.denied", "flow.denied")
        return {str(event["name"] or event["addresses"][0]) for event in denied}  # type: ignore[index]


@pytest.fixture
def home():
    if not (AGENTS / "node_modules").exists():
        pytest.skip("the agents are not installed: make test-agents")
    home = Path(f"/var/tmp/belljar-home-{os.getpid()}")
    home.mkdir()
    yield home
    shutil.rmtree(home)


@pytest.fixture
def desk(cli, home):
    return Desk(cli, cli.command("run"), home)


@pytest.fixture
def docker_desk(docker_as_root, home):
    """The same in containers, whose image has nothing but places for this machine's programs."""
    passwd = File(b"root:x:0:0:root:/root:/bin/sh\n")
    files: Files = {"etc/passwd": passwd, "root": Directory(), "tmp": Directory(0o1777)}
    image = make_image(docker_as_root.engine, "agents", files)
    binds = [f"--ro-bind={place}" for place in SYSTEM if Path(place).is_dir()]
    variables = [f"--env=PATH={AGENTS}/node_modules/.bin:/usr/bin:/bin", "--env=IS_SANDBOX=1"]
    return Desk(docker_as_root, docker_as_root.words(*binds, *variables, image=image), home)


@pytest.fixture
def model(universe: Universe, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model whose APIs are in the universe, under their real names."""
    model = Model()
    monkeypatch.setitem(web.PAGES, "/v1", api.page(model))
    for name in ("api.anthropic.com", "api.openai.com"):
        universe.zone[name] = at(addresses.PUBLIC)
    return model
