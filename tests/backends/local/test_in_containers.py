"""Local sandboxes inside containers of real engines: with what docs/in-containers.md says, and without each part of it.

The image has next to nothing; programs are this machine's, mounted. The engine lives in a universe, and containers have
its network, so that a sandbox's gateway finds the internet there, and whoever gets past it is seen.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import privileges
from tests.engines import (
    Directory,
    Engine,
    File,
    Link,
    make_image,
    start_docker,
    start_podman,
    start_rootless_podman,
    users,
)
from tests.universe import Contact, Universe, addresses

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/in-containers.md").read_text()
PATIENCE = 120

USER = ("--user", "1000:1000")
FILTER = ("--security-opt", "seccomp=unconfined")
PODMANS_FILTER = ("--security-opt", "seccomp=/usr/share/containers/seccomp.json")
PATHS = ("--security-opt", "systempaths=unconfined")
UNMASK = ("--security-opt", "unmask=/proc/*")
NEEDED = {"docker": (USER, FILTER, PATHS), "podman": (USER, UNMASK)}
LESS = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "apparmor=unconfined")
"""What can be taken away besides; and where there is no AppArmor, its absence can be asked for as anywhere."""

AS_ROOT = ("--cap-add", "SYS_ADMIN", "--tmpfs", "/work")

STARTS: dict[str, Any] = {"docker": start_docker, "rootless": start_rootless_podman}
STARTS |= {"podman": start_podman} if privileges.EVERY_ENGINE else {}

PYTHON, PACKAGES, SOURCE = Path(sys.base_prefix), sysconfig.get_path("purelib"), ROOT / "src"
INTERPRETER = Path(sys.executable).resolve()
ACCOUNTS = b"root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"
IMAGE: dict[str, File | Link | Directory] = {
    **{name: Link(f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")},
    "etc/passwd": File(ACCOUNTS),
    "etc/group": File(b"root:x:0:\nagent:x:1000:\n"),
    "home/agent": Directory(0o777),
    "work": Directory(0o777),
    "tmp": Directory(0o1777),
    "var/tmp": Directory(0o1777),
    **{name: Directory() for name in {"usr", "run", "packages", "source", str(PYTHON).lstrip("/")}},
}
CLI = "from belljar.cli.main import main; main()"
API = """
from pathlib import Path
from belljar.backends.interface import Streams
from belljar.sandbox.spec import Command, SandboxSpec
from belljar.backends.local.backend import LocalBackend
with LocalBackend(Path("/tmp/state")) as backend:
    backend.create("jar", SandboxSpec())
    code = backend.start("jar", Command(("sh", "-c", "echo /proc/[0-9]*; exit 7")), Streams(0, 1, 2)).wait(60)
    backend.destroy("jar")
print(code, backend.sandboxes())
"""
SHOW_SYSTEM = f"""
import sys
from pathlib import Path
sys.path.append({str(SOURCE)!r})
from belljar.linux.files import mounts
tree, user = mounts.copy_of(Path("/usr")), int(sys.argv[1])
if user:
    with mounts.user_namespace(mounts.Owners((0, user), (0, user))) as namespace:
        mounts.show_as(tree, namespace)
mounts.attach(tree, Path("/mnt/usr"))
"""
"""Has the system belong to whoever is root in a container of the engine's, as in an image."""

SHOWN = {"usr": "/usr", "python": str(PYTHON), "packages": "/packages", "source": "/source"}
if PYTHON.is_relative_to("/usr"):
    del SHOWN["python"]


class Containers(NamedTuple):
    """An engine in a universe, and its command line."""

    engine: Engine
    universe: Universe

    def run(
        self, *words: str, flags: tuple[tuple[str, ...], ...], program: str = CLI
    ) -> "subprocess.CompletedProcess[str]":
        """Run `belljar`, or another program of Python's, in a container."""
        client = ("docker", "--host") if self.engine.kind == "docker" else ("podman", "--url")
        mounts = [word for name, place in SHOWN.items() for word in ("--volume", f"/mnt/{name}:{place}:ro")]
        command = [
            *(*client, self.engine.url, "run", "--rm", "--network", "host"),
            *("--env", f"BELLJAR_RESOLVER={addresses.RESOLVER}", *(word for flag in flags for word in flag)),
            *(*mounts, "tools", str(INTERPRETER), "-P", "-c", program, *words),
        ]
        return self.engine.run_as_user(*command, timeout=PATIENCE)


@pytest.fixture(scope="module", params=STARTS)
def containers(request):
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    with Universe() as universe, STARTS[request.param](universe.gateway.namespace) as engine:
        variables = ["PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin", "PYTHONPATH=/source:/packages"]
        make_image(engine, "tools", IMAGE, {"Env": variables, "WorkingDir": "/work"})
        _show_our_programs(engine)
        yield Containers(engine, universe)


def _show_our_programs(engine: Engine) -> None:
    """Mount them where the engine's user can see them; an interpreter may be in root's home."""
    sources = {"python": PYTHON, "packages": PACKAGES, "source": SOURCE}
    sources = {name: source for name, source in sources.items() if name in SHOWN}
    _in_mounts_of(engine, "sh", "-euc", "mount -t tmpfs -o mode=755 tools /mnt; mkdir /mnt/usr")
    _in_mounts_of(engine, sys.executable, "-P", "-c", SHOW_SYSTEM, str(users.NUMBER if engine.rootless else 0))
    script = "mount -o remount,bind,ro /mnt/usr\n" + "".join(
        f"mkdir /mnt/{name} && mount --bind {source} /mnt/{name} && mount -o remount,bind,ro /mnt/{name}\n"
        for name, source in sources.items()
    )
    _in_mounts_of(engine, "sh", "-euc", script)


def _in_mounts_of(engine: Engine, *command: str) -> None:
    subprocess.run(["nsenter", f"--mount=/proc/{engine._keeper.pid}/ns/mnt", *command], check=True)


def flags_of(containers: Containers) -> tuple[tuple[str, ...], ...]:
    return NEEDED[containers.engine.kind]


def assert_policy_holds(containers: Containers, flags: tuple[tuple[str, ...], ...]) -> None:
    fetch = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 20"
    script = (
        f"{fetch} http://plain.test/; {fetch} http://evil.test/; {fetch} http://{addresses.EVIL}/; echo /proc/[0-9]*"
    )
    containers.universe.forget()
    done = containers.run("run", "--allow", "plain.test", "--", "sh", "-c", script, flags=flags)
    assert done.stdout.split() == ["200", "000", "403", "/proc/1", "/proc/2"], done.stderr
    reached = {contact.address for contact in containers.universe.wire.contacts() if contact.protocol == "tcp"}
    assert reached
    assert reached <= {addresses.PUBLIC, addresses.PUBLIC_V6}
    assert Contact("tcp", addresses.EVIL, 80) not in containers.universe.wire.contacts()


def written(flag: tuple[str, ...]) -> str:
    """Return a flag as it is typed."""
    return " ".join(f"'{word}'" if "*" in word else word for word in flag)


def test_what_the_documentation_says_is_enough(containers):
    flags = flags_of(containers)
    assert [flag for flag in flags if written(flag) not in PAGE] == []
    assert_policy_holds(containers, flags)
    told = containers.run("doctor", "--backend", "local", flags=flags)
    assert told.returncode == 0, told.stdout
    done = containers.run(flags=flags, program=API)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("7 []", "")
    assert_policy_holds(containers, (*flags, LESS))


def test_less_is_enough_for_docker_and_more_for_root(containers):
    flags = flags_of(containers)
    if containers.engine.kind == "docker":
        assert written(PODMANS_FILTER) in PAGE
        flags = (USER, PODMANS_FILTER, PATHS)
        assert_policy_holds(containers, flags)
    assert written(AS_ROOT[:2]) in PAGE
    assert_policy_holds(containers, (*flags[1:], AS_ROOT))


@pytest.mark.parametrize("containers", STARTS if privileges.EVERY_ENGINE else ["docker"], indirect=True)
def test_every_way_out_is_closed(containers):
    done = containers.run("verify", flags=flags_of(containers))
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_missing_is_named_and_nothing_starts(containers):
    for missing in flags_of(containers):
        flags = tuple(flag for flag in flags_of(containers) if flag is not missing)
        done = containers.run("run", "--", "echo", "started", flags=flags)
        assert (done.returncode, done.stdout) == (125, "")
        complaint, hint, *_ = done.stderr.splitlines()
        assert complaint.startswith("belljar: the kernel ")
        assert hint.endswith(f": {written(missing)}")
        told = containers.run("doctor", "--backend", "local", flags=flags)
        assert told.returncode == 1
        assert hint in told.stdout
        assert complaint.removeprefix("belljar: ") in told.stdout
