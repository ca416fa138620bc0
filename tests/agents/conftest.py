import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agents import api
from tests.agents.model import Model
from tests.backends.local.conftest import PATIENCE, ROOT, Cli, cli
from tests.universe import Universe, addresses, web
from tests.universe.zone import at

__all__ = ["cli"]

AGENTS = ROOT / ".cache" / "agents"
PLACEHOLDER = "sk-placeholder"
OTHER_SECRET = "s3cret"


class Desk:
    """Where somebody follows the recipes of docs/agents.md: a home directory, a project, and a shell."""

    def __init__(self, cli: Cli, universe: Universe, home: Path) -> None:
        self._cli, self._home = cli, home
        self._audit = home / "audit.ndjson"
        self.notes = cli.workdir / "notes.txt"
        self.notes.write_text("hello world\n")
        authority = str(shutil.copy(universe.certificates.path, home))
        for place in ("claude", "codex", "opencode"):
            (home / ".belljar" / place).mkdir(parents=True)
        for path in (self.notes, home, *home.rglob("*")):
            os.chown(path, cli.workdir.stat().st_uid, cli.workdir.stat().st_gid)
        options = ["--ro-bind", str(AGENTS), "--ro-bind", authority, "--audit", str(self._audit)]
        options += [f"--env={name}={authority}" for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")]
        self._belljar = shlex.join([*cli.command("run"), *options])

    def follow(self, recipe: str) -> str:
        """Type a recipe into a shell, in which `belljar` is the one under test; return what is said."""
        variables = self._cli.environment(HOME=str(self._home), OTHER_SECRET=OTHER_SECRET)
        variables["PATH"] = f"{AGENTS}/node_modules/.bin:{variables['PATH']}"
        variables |= dict.fromkeys(("ANTHROPIC_API_KEY", "CODEX_API_KEY"), PLACEHOLDER)
        done = self._cli.universe.gateway.call(
            subprocess.run,
            ["sh", "-euc", f'belljar() {{ shift; {self._belljar} "$@"; }}\n{recipe}'],
            cwd=self._cli.workdir,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def denied(self) -> set[str]:
        """Return the names and addresses that were denied, as the audit says."""
        events = map(json.loads, self._audit.read_text().splitlines())
        denied = (event for event in events if event["event"] in ("dns.denied", "flow.denied"))
        return {event["name"] or event["addresses"][0] for event in denied}


@pytest.fixture
def desk(cli, universe):
    if not (AGENTS / ".ready").exists():
        pytest.skip("the agents are not installed: make test-agents")
    home = Path(f"/var/tmp/belljar-home-{os.getpid()}")
    home.mkdir()
    yield Desk(cli, universe, home)
    shutil.rmtree(home)


@pytest.fixture
def model(universe, monkeypatch):
    """A model whose APIs are in the universe, under their real names."""
    model = Model()
    monkeypatch.setitem(web.PAGES, "/v1", api.page(model))
    for name in ("api.anthropic.com", "api.openai.com"):
        universe.zone[name] = at(addresses.PUBLIC)
    return model
