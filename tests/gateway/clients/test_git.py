"""git over HTTPS, HTTP and SSH: what is cloned, changed and pushed is there when it is cloned again."""

import random
import shlex

import pytest

from tests.gateway.clients import servers
from tests.universe import addresses
from tests.universe.machines import USER

FILE = random.Random(1).randbytes(2_000_000)
"""More than git sends in one piece: a push over HTTP goes in chunks."""

PORTS = {"https": 443, "http": 80, "ssh": 22}


@pytest.fixture(scope="module")
def remotes(machine, whole_universe):
    """Serve repositories in every way; this is what git has to know in order to trust the servers and to be let in."""
    with servers.apache(machine, whole_universe.certificates), servers.dropbear(machine) as key:
        options = {"UserKnownHostsFile": key.parent / "known_hosts", "IdentityFile": key, "BatchMode": "yes"}
        ssh = ["ssh", "-F", "none", *(f"-o{name}={value}" for name, value in options.items())]
        yield {
            "GIT_SSH_COMMAND": shlex.join(ssh),
            "GIT_SSL_CAINFO": str(whole_universe.certificates.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            # Over HTTP/2, curl 7.88 of Debian 12 damages one large upload in twenty, or hangs, also without a gateway.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.version",
            "GIT_CONFIG_VALUE_0": "HTTP/1.1",
            "EMAIL": "somebody@machine.test",
        }


@pytest.mark.parametrize("scheme", PORTS)
def test_git(remotes, machine, enter, tmp_path, scheme):
    repository = machine.home / f"{scheme}.git"
    machine.run("git", "init", "--quiet", "--bare", "--initial-branch=main", str(repository))
    machine.run("git", "-C", str(repository), "config", "http.receivepack", "true")

    def url(host: str) -> str:
        return f"ssh://{USER}@{host}{repository}" if scheme == "ssh" else f"{scheme}://{host}/git/{repository.name}"

    def clone(host: str, name: str) -> list[str]:
        return ["git", "clone", "--quiet", url(host), str(tmp_path / name)]

    inside = enter(f"web.machine.test:{PORTS[scheme]}")
    inside.works(*clone("web.machine.test", "first"), **remotes)
    (tmp_path / "first" / "file").write_bytes(FILE)
    for command in ("add file", "commit --quiet --message=Change", "push --quiet origin HEAD:main"):
        inside.works("git", "-C", str(tmp_path / "first"), *command.split(), **remotes)
    inside.works(*clone("web.machine.test", "second"), **remotes)
    assert (tmp_path / "second" / "file").read_bytes() == FILE
    assert inside.has_reached(PORTS[scheme])

    inside.is_denied(*clone("other.machine.test", "third"), **remotes)
    inside.is_denied(*clone(addresses.MACHINE, "fourth"), **remotes)
