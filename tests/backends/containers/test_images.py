"""Images that are odd, and images that mean harm: each is sealed before anything of it runs, or it is refused."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.interface import MachineError, SpecError
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.conformance import Done, run
from tests import privileges
from tests.backends.containers.conftest import PATIENCE, program, until
from tests.engines import Directory, File, Link, busybox, images, make_image
from tests.engines.images import Files
from tests.universe import addresses

pytestmark = pytest.mark.long

IMAGE = "odd"
FILES = busybox()
WITHOUT_ETC = {path: entry for path, entry in FILES.items() if not path.startswith("etc/")}
WITHOUT_TMP = {path: entry for path, entry in FILES.items() if path != "tmp"}
PROGRAM = File(b"#!/bin/sh\nexec /bin/sleep 100000\n", 0o755)


@dataclass
class Odd:
    """An image, and where its commands run."""

    files: Files
    config: dict[str, Any] = field(default_factory=dict)
    workdir: str = "/workspace"
    user: str = "0"


RUNNING = {
    "no /etc": Odd(WITHOUT_ETC),
    "no /tmp": Odd(WITHOUT_TMP),
    "/etc is a link": Odd({**WITHOUT_ETC, "real/group": FILES["etc/group"], "etc": Link("/real")}),
    "/etc/resolv.conf is a link into /run": Odd({**FILES, "etc/resolv.conf": Link("/run/resolved/stub.conf")}),
    "/etc/resolv.conf is a link out": Odd({**FILES, "etc/resolv.conf": Link("../" * 9 + "var/tmp/belljar-out")}),
    "/tmp is a link": Odd({**WITHOUT_TMP, "tmp": Link("/other")}),
    "/run/belljar is a link": Odd({**FILES, "run/belljar": Link("/etc")}),
    "/workspace is a link": Odd({**FILES, "workspace": Link("/etc")}),
    "a user by name": Odd(FILES, {"User": "agent"}, user="1000"),
    "a user by number": Odd(FILES, {"User": "4321:99"}, user="4321"),
    "a directory of its own": Odd({**FILES, "srv/app": Directory(0o777)}, {"WorkingDir": "/srv/app"}, "/srv/app"),
    "a volume": Odd({**FILES, "data/file": File(b"")}, {"Volumes": {"/data": {}}}),
    "volumes where we are": Odd(
        {**FILES, "run/belljar/policy.json": File(b"theirs"), "etc/resolv.conf": File(b"nameserver 203.0.113.99\n")},
        {"Volumes": {place: {} for place in ("/tmp", "/workspace", "/run", "/run/belljar", "/etc", "/etc/hosts")}},
    ),
}


@pytest.fixture(scope="module", params=["docker", *(["podman"] if privileges.EVERY_ENGINE else [])])
def engine(request):
    """Both, unless a test has enough of one."""
    return request.getfixturevalue(f"{request.param}_engine")


BOTH_WAYS = [
    pytest.param(odd, read_only, id=f"{name}-{'read-only' if read_only else 'writable'}")
    for name, odd in RUNNING.items()
    for read_only in (False, True)
]
IN_TURN = [both[number % 2] for number, both in enumerate(zip(BOTH_WAYS[::2], BOTH_WAYS[1::2], strict=True))]
"""One image as it is, the next with files that cannot be changed."""

on_docker = pytest.mark.parametrize("engine", ["docker"], indirect=True)


@pytest.fixture(scope="module")
def backend(engine, cache) -> Iterator[ContainerBackend]:
    state = Path(tempfile.mkdtemp(prefix="belljar-images-", dir="/var/tmp"))
    with ContainerBackend(Engine(engine.kind, engine.socket), state, cache / "belljar/toolbox") as backend:
        yield backend
    shutil.rmtree(state)


class Jar:
    """A sandbox that was made of an image."""

    def __init__(self, engine: Any, backend: ContainerBackend) -> None:
        self._engine, self._backend = engine, backend

    def run(self, *words: str) -> Done:
        return run(self._backend, "jar", *words)

    def sh(self, script: str) -> str:
        return self.run("sh", "-c", script).out

    @property
    def known(self) -> Any:
        """What the engine knows of it."""
        return self._engine.api.call("GET", f"/containers/{self._backend._containers.name('jar')}/json")

    def first_process(self) -> Path:
        """Return where the kernel tells of the container's first process, once that is ours or the image's."""
        place, given_up = Path(f"/proc/{self.known['State']['Pid']}"), time.monotonic() + PATIENCE
        while (place / "exe").readlink().name in ("runc", "crun", "memfd:runc_cloned:/proc/self/exe (deleted)"):
            assert time.monotonic() < given_up
        return place


@pytest.fixture
def make(engine, backend) -> Iterator[Callable[..., Jar]]:
    """What makes a sandbox of an image that the engine is given, and leaves nothing behind."""

    def make(files: Files, config: dict[str, Any] | None = None, **wanted: Any) -> Jar:
        make_image(engine, IMAGE, files, config)
        backend.create("jar", SandboxSpec(image=IMAGE, **wanted)).close()
        return Jar(engine, backend)

    before = left_of(engine)
    yield make
    backend.destroy("jar")
    assert backend.sandboxes() == []
    until(lambda: left_of(engine) == before)


def left_of(engine: Any) -> list[object]:
    """Return what an engine has: containers and volumes."""
    containers, volumes = engine.api.call("GET", "/containers/json?all=true"), engine.api.call("GET", "/volumes")
    return [sorted(container["Id"] for container in containers), volumes["Volumes"]]


LOOK = """
id -u; pwd; cat /etc/resolv.conf | head -1
for place in . /tmp; do touch $place/made && echo written; done
tail -n +3 /proc/net/dev | cut -d: -f1
"""


class TestOddImages:
    @pytest.mark.parametrize(("odd", "read_only"), BOTH_WAYS if privileges.EVERY_ENGINE else IN_TURN)
    def test_are_sealed_and_run(self, make, odd, read_only):
        jar = make(odd.files, odd.config, read_only=read_only)
        done = jar.run("sh", "-c", LOOK)
        writable = 1 if read_only and odd.workdir != "/workspace" else 2
        assert done.out.split() == [odd.user, odd.workdir, "nameserver", "127.0.0.1", *["written"] * writable, "lo"]

    def test_of_one_program(self, make):
        """No shell, no library, no directory but those that engines make."""
        jar = make({"busybox": FILES["bin/busybox"]})
        assert jar.run("/busybox", "ls", "/sys/class/net").out == "lo\n"
        assert jar.run("sh").code == 127

    @on_docker
    def test_say_what_is_wrong_with_them(self, make):
        refused: list[tuple[Files, dict[str, Any], str]] = [
            (FILES, {"User": "nobody-knows"}, "nobody-knows"),
            (FILES, {"Volumes": {"/": {}}}, "mount|proc|root"),
            ({**FILES, "etc/resolv.conf/directory": File()}, {}, "resolv.conf"),
            ({**WITHOUT_TMP, "tmp": File()}, {}, "tmp"),
        ]
        for files, config, culprit in refused:
            with pytest.raises((MachineError, SpecError), match=culprit):
                make(files, config)

    @on_docker
    @pytest.mark.parametrize("place", ["/not/there", "/proc/self/fd/7", "/link", "/etc/passwd"])
    def test_with_a_directory_that_nobody_can_work_in(self, make, place):
        """The links are to where engines have had their own descriptors."""
        done = make({**FILES, "link": Link("/proc/self/fd/8")}, {"WorkingDir": place}).run("sh", "-c", "echo ran")
        assert (done.code, done.out) == (126, "")
        assert place in done.err

    @on_docker
    def test_with_more_variables_than_a_program_can_have(self, make):
        jar = make(FILES, {"Env": [f"V{number}={'x' * 100_000}" for number in range(30)]})
        with pytest.raises(SpecError, match="variables are too long"):
            jar.run("true")

    @on_docker
    def test_for_other_processors(self, make, monkeypatch):
        monkeypatch.setattr(images, "uname", lambda: SimpleNamespace(machine="s390x"))
        with pytest.raises(SpecError, match="s390x"):
            make(FILES)

    @on_docker
    def test_say_nothing_that_a_terminal_would_obey(self, make, monkeypatch):
        evil, escaped = "evil\x1b]0;owned\x07", r"evil\x1b]0;owned\x07"
        with pytest.raises((MachineError, SpecError)) as caught:
            make(FILES, {"User": evil})
        assert "evil" in str(caught.value)
        assert str(caught.value).isprintable()
        monkeypatch.setattr(images, "uname", lambda: SimpleNamespace(machine=evil))
        with pytest.raises(SpecError) as caught:
            make(FILES)
        assert escaped in str(caught.value)
        assert str(caught.value).isprintable()

    @on_docker
    def test_whose_program_cannot_be_run(self, make):
        jar = make({**FILES, "entry": File(b"#!/bin/sh\n", 0o644)})
        assert jar.run("/entry").code == 126
        assert jar.run("/nowhere").code == 127


ENTRY = f"""#!/bin/sh
echo $$ >>ran
cat /proc/net/route
for address in {addresses.EVIL} {addresses.PUBLIC}; do
    printf "GET / HTTP/1.0\\r\\nHost: $address\\r\\n\\r\\n" | nc -w 5 $address 80
done
"""


class TestHostileImages:
    def test_have_no_part_in_the_first_process(self, make):
        [library] = [entry for path, entry in program("curl").items() if "/libz." in path]
        orders = {"LD_PRELOAD": "/evil/lib.so", "LD_LIBRARY_PATH": "/evil", "BASH_ENV": "/evil/sh", "ENV": "/evil/sh"}
        config = {"Env": [f"{name}={value}" for name, value in {**orders, "PATH": "/evil:/bin"}.items()]}
        jar = make({**FILES, "evil/lib.so": library, "evil/sleep": PROGRAM}, config)
        done = jar.run("env")
        assert {f"{name}={value}" for name, value in orders.items()} <= set(done.out.splitlines())
        assert done.err == ""
        first = jar.first_process()
        assert b"evil" not in (first / "environ").read_bytes().replace(b"PATH=/evil:/bin", b"")
        mapped = {Path(line.split()[5]).parts[1] for line in (first / "maps").read_text().splitlines() if " /" in line}
        assert [part for part in mapped if not part.startswith(".belljar-")] == []
        children = (first / f"task/{first.name}/children").read_text().split()
        assert [Path(f"/proc/{child}/exe").readlink().parts[1] for child in children] == [*mapped]

    @on_docker
    def test_gain_nothing_by_a_program_of_roots(self, engine, make):
        files = {**FILES, "secret": File(b"secret", 0o600)}
        files |= {
            path: File(entry.content, 0o4755) for path, entry in program("cat").items() if isinstance(entry, File)
        }
        assert make(files, {"User": "agent"}).run("/usr/bin/cat", "/secret").out == ""
        control = {"Image": IMAGE, "Cmd": ["/usr/bin/cat", "/secret"], "Tty": True}
        assert output_of(engine, {**control, "HostConfig": {"NetworkMode": "none"}}) == b"secret"

    def test_are_not_asked_for_their_health(self, make):
        check = {"Test": ["CMD-SHELL", f"nc {addresses.EVIL} 80"], "Interval": 1_000_000, "Timeout": 1_000_000_000}
        known = make(FILES, {"Healthcheck": check}).known
        assert (known["State"].get("Health") or {"Status": "none"})["Status"] in ("", "none")
        assert known["Config"]["Healthcheck"]["Test"] == ["NONE"]

    def test_do_not_run_before_they_are_sealed(self, docker_as_user):
        """The entry point finds a default route at once, which there is in no container before; and reaches nothing."""
        files = {**FILES, "entry": File(ENTRY.encode(), 0o755)}
        image = make_image(docker_as_user.engine, IMAGE, files, {"Entrypoint": ["/entry"]})
        done = docker_as_user.run("--allow-cidr", addresses.PUBLIC, image=image)
        assert "lo\t00000000" in done.stdout
        assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("HTTP/")] == ["403", "200"]
        universe = docker_as_user.universe
        assert {contact.address for contact in universe.wire.contacts()} == {addresses.PUBLIC}
        assert len((docker_as_user.workdir / "ran").read_text().splitlines()) == 1


def output_of(engine: Any, wanted: dict[str, Any]) -> bytes:
    """Run a container as anybody does, and return what it says."""
    container = engine.api.call("POST", "/containers/create", wanted)["Id"]
    engine.api.call("POST", f"/containers/{container}/start")
    engine.api.call("POST", f"/containers/{container}/wait")
    said: bytes = engine.api.send("GET", f"/containers/{container}/logs?stdout=1")
    engine.api.call("DELETE", f"/containers/{container}?force=true")
    return said
