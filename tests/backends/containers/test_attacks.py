"""What images and agents try against containers, or make others do to them."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from os import uname
from pathlib import Path
from typing import Any

import pytest

from belljar.backends import treestreams
from belljar.backends.containers import leftovers, making, users
from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.exec import inside as inside_programs
from belljar.backends.containers.exec.memoryfiles import room, written
from belljar.backends.containers.inventory import OWNER, SANDBOX
from belljar.backends.containers.making import ContainerMaker
from belljar.backends.containers.toolbox import open_toolbox
from belljar.backends.interface import LostError, MachineError, PathError, SpecError
from belljar.linux.lives import Life, runs_own_program
from belljar.linux.sharedmemory import can_be_bounded
from belljar.sandbox.spec import Bind, Command, ResourceLimits, SandboxSpec
from belljar.testing import conformance
from tests import engines
from tests.backends.containers.conftest import program, until
from tests.engines import BUSYBOX, Directory, File, Link, busybox, make_image
from tests.engines.images import Files, _layer

pytestmark = pytest.mark.long

JAR = "jar"
ODD = "odd:latest"
ALLOW_ALL = b64encode(b"\x06\0\0\0\0\0\xff\x7f").decode()
"""A system call filter that refuses nothing."""


class Owner:
    """Root with an engine, and somebody's directories."""

    def __init__(self, engine: engines.Engine, place: Path, cache: Path) -> None:
        self.engine, self.place = engine, place
        self.backend = ContainerBackend(Engine(engine.kind, engine.socket), place / "state", cache / "belljar/toolbox")

    def create(self, image: str = BUSYBOX, **wanted: Any) -> None:
        self.backend.create(JAR, SandboxSpec(image=image, **wanted)).close()

    def run(self, script: str) -> str:
        return conformance.run(self.backend, JAR, "sh", "-c", f"{{ {script}\n}} 2>&1").out

    def inspect(self) -> Any:
        return self.engine.api.call("GET", f"/containers/{self.backend._containers.name(JAR)}/json")

    def containers(self) -> list[str]:
        return [found["Id"] for found in self.engine.api.call("GET", "/containers/json?all=true")]


@pytest.fixture
def docker(docker_engine, cache):
    with owned(docker_engine, cache) as owner:
        yield owner


@pytest.fixture
def podman(podman_engine, cache):
    with owned(podman_engine, cache) as owner:
        yield owner


@pytest.fixture(params=["docker", "podman"])
def owner(request):
    return request.getfixturevalue(request.param)


@contextmanager
def owned(engine: engines.Engine, cache: Path) -> Iterator[Owner]:
    """Have a backend; nothing of its sandboxes is left."""
    place = Path(tempfile.mkdtemp(prefix="belljar-attacks-", dir="/var/tmp"))
    owner = Owner(engine, place, cache)
    before = owner.containers()
    yield owner
    owner.backend.destroy(JAR)
    assert owner.containers() == before
    shutil.rmtree(place)


class TestImages:
    """An image is somebody else's: not one instruction of it runs before its container is sealed."""

    @pytest.fixture
    def loader(self, cache):
        return open_toolbox(cache / "belljar/toolbox").loader[1:]

    def test_libraries_that_are_to_be_loaded_first(self, owner):
        library = next(file for path, file in program("curl").items() if "libz" in path)
        files = {**busybox(), "evil.so": library, "etc/ld.so.preload": File(b"/evil.so\n")}
        self.assert_first_process_is_ours(owner, files)

    def test_a_volume_where_our_programs_are(self, owner, loader):
        files = {**busybox(), f"run/belljar/toolbox/{loader}": busybox()["bin/busybox"]}
        volumes: dict[str, Any] = {f"/run/belljar/toolbox/{loader.rpartition('/')[0]}": {}}
        self.assert_first_process_is_ours(owner, files, {"Volumes": volumes})

    def test_a_link_that_leads_elsewhere_when_the_engine_follows_it(self, docker, loader):
        files = {**busybox(), "run": Link("/proc/self/cwd/evil")}
        files[f"evil/belljar/toolbox/{loader}"] = busybox()["bin/busybox"]
        self.assert_first_process_is_ours(docker, files)

    def test_nobody_knows_where_our_programs_will_be(self, docker):
        docker.create()
        first = docker.inspect()["Path"]
        docker.backend.destroy(JAR)
        docker.create()
        assert docker.inspect()["Path"] != first

    @staticmethod
    def assert_first_process_is_ours(owner: Owner, files: Files, config: Mapping[str, Any] | None = None) -> None:
        make_image(owner.engine, ODD, files, config)
        owner.create(ODD)
        found = owner.inspect()
        until(lambda: runs_own_program(found["State"]["Pid"]))
        maps = Path(f"/proc/{found['State']['Pid']}/maps").read_text().splitlines()
        place = found["Path"].split("/")[1]
        assert {line.split("/")[1] for line in maps if "/" in line} == {place}
        assert Path(found["Path"]).name in "".join(maps)
        assert "0" in owner.run("id -u")

    def test_a_check_of_health(self, podman):
        make_image(podman.engine, ODD, busybox(), {"Healthcheck": {"Test": ["CMD-SHELL", "true"], "Interval": 10**9}})
        podman.create(ODD)
        found = podman.inspect()
        assert found["Config"]["Healthcheck"]["Test"] == ["NONE"]
        assert (found["State"].get("Health") or {}).get("Status", "") in ("", "none")

    def test_annotations_that_are_orders_to_the_runtime(self, podman):
        for annotations in ({"run.oci.seccomp_bpf_data": ALLOW_ALL}, {"org.systemd.property.CPUWeight": "1"}):
            load_annotated(podman.engine, annotations)
            with pytest.raises(SpecError, match=f"{next(iter(annotations))}\nTake them away: podman save"):
                podman.create("localhost/annotated")
        load_annotated(podman.engine, {"org.opencontainers.image.title": "harmless"})
        podman.create("localhost/annotated")
        assert "not permitted" in podman.run("unshare -U true")

    def test_a_list_of_users_that_is_a_link(self, docker):
        files = {**busybox(), "etc/passwd": Link("../real/passwd"), "real/passwd": busybox()["etc/passwd"]}
        make_image(docker.engine, ODD, files, {"User": "agent"})
        docker.create(ODD)
        assert docker.run("id -u; touch made && echo made").split() == ["1000", "made"]

    def test_a_list_of_users_without_end(self, docker, monkeypatch):
        monkeypatch.setattr(users, "_MOST_BYTES", 1024)
        endless = File(b"agent:x:1000:1000::/:/bin/sh\n" + b"#\n" * 10_000)
        make_image(docker.engine, ODD, {**busybox(), "etc/passwd": endless}, {"User": "agent"})
        docker.create(ODD)
        assert docker.run("id -u; pwd").split() == ["1000", "/workspace"]

    @pytest.mark.parametrize("number", ["9" * 5000, "4294967295"])
    def test_a_user_whose_number_is_none(self, docker, number):
        for line in (f"agent:x:{number}:1000::/:/bin/sh\n", f"agent:x:1000:{number}::/:/bin/sh\n"):
            files = {**busybox(), "etc/passwd": File(line.encode())}
            make_image(docker.engine, ODD, files, {"User": "agent"})
            with pytest.raises(SpecError, match=f"runs as agent, and says .* {number[:10]}.*mend its /etc/passwd"):
                docker.create(ODD)

    def test_a_list_of_users_behind_a_name_that_is_no_text(self, docker):
        files = {**busybox(), "etc/passwd": Link("/no\udcfftext")}
        make_image(docker.engine, ODD, files, {"User": "1000"})
        docker.create(ODD)
        make_image(docker.engine, ODD, files, {"User": "agent"})
        docker.backend.destroy(JAR)
        with pytest.raises(MachineError, match="agent"):
            docker.create(ODD)


class TestMounts:
    """An engine follows a path later than we look at it, and an agent in another sandbox may be quicker."""

    @pytest.fixture
    def workdir(self, owner):
        (owner.place / "work/.git/hooks").mkdir(parents=True)
        (owner.place / "work/.git/config").touch()
        (owner.place / "elsewhere/hooks").mkdir(parents=True)
        (owner.place / "elsewhere/config").write_text("secret")
        (owner.place / "work/link").symlink_to(owner.place / "elsewhere")
        return owner.place / "work"

    @pytest.fixture
    def workdir_of_git(self, podman):
        (podman.place / "work/.git/hooks").mkdir(parents=True)
        return podman.place / "work"

    def test_a_directory_that_becomes_a_link(self, owner, workdir, monkeypatch):
        if owner.engine.kind == "podman":  # looked at from inside, as everybody has to who is not root
            monkeypatch.setattr(making, "is_here", lambda *_: False)
        owner.create(workdir=workdir)
        assert owner.run(f"echo changed >{workdir}/.git/HEAD; touch {workdir}/.git/hooks/new").endswith("file system\n")
        owner.backend.destroy(JAR)
        assert (workdir / ".git/HEAD").read_text() == "changed\n"
        inside = {f"{owner.place}/elsewhere/{name}"[1:]: entry for name, entry in
                  (("hooks", Directory()), ("config", File()))}  # fmt: skip
        make_image(owner.engine, ODD, {**busybox(), **inside})

        def swap_and_create(*arguments: Any) -> Any:
            (workdir / ".git").rename(workdir / "moved")
            (workdir / "link").rename(workdir / ".git")
            return create(*arguments)

        create = ContainerMaker._create
        monkeypatch.setattr(ContainerMaker, "_create", swap_and_create)
        with pytest.raises(MachineError, match=r"something else in place of .*/\.git"):
            owner.create(ODD, workdir=workdir)

    def test_an_image_that_has_a_path_mean_something_else_meanwhile(self, owner):
        """What is mounted first is behind links, and a volume takes them away before what is protected is mounted."""
        workdir, policy = owner.place / "of/some/project", owner.place / "of/some/project/policy.yaml"
        (workdir / ".git/hooks").mkdir(parents=True)
        (workdir / ".git/config").touch()
        policy.touch()
        up = "/proc/self/root" if owner.engine.kind == "docker" else "/"  # crun notices the former
        deep = "/".join("s1234567"[: len(workdir.parts) - 2])
        links: Files = {"var": Link("/L/k"), "L/k": Link("/X0"), deep: Link(up), "X0": Directory(), "proc": Directory()}
        make_image(owner.engine, ODD, {**busybox(), **links}, {"Volumes": {f"/{deep}/L": {}}})
        before = owner.containers()
        with pytest.raises(
            MachineError, match=f"{workdir} is not what was meant inside: it is at /.*; take another image"
        ):
            owner.create(ODD, workdir=workdir, keep=(policy,))
        assert owner.containers() == before
        assert owner.backend.sandboxes() == []
        make_image(owner.engine, ODD, busybox(), {"Volumes": {f"/{deep}/L": {}}})
        owner.create(ODD, workdir=workdir, keep=(policy,))
        said = owner.run("for file in .git/hooks/new .git/config policy.yaml; do echo evil >$file; done; echo >new")
        assert said.count("Read-only file system") == 3
        assert (workdir / "new").exists()

    def test_an_image_that_tells_of_mounts_itself(self, podman, workdir_of_git, monkeypatch):
        """Who may not look at a container's processes has a program of ours look, inside; crun mounts over anything."""
        monkeypatch.setattr(making, "is_here", lambda *_: False)
        podman.create(workdir=workdir_of_git)
        real = podman.run("cat /proc/self/mountinfo").splitlines()
        podman.backend.destroy(JAR)
        fake = "".join(f"{line}\n" for line in real if "/.belljar-" not in line)
        files = {**busybox(), "proc/self/mountinfo": File(fake.encode()), "s/1/2": Link("/")}
        files["proc/self/setgroups"] = File(b"allow\n")  # crun wants to see it
        make_image(podman.engine, ODD, files, {"Volumes": {"/s/1/2/proc": {}}})
        with pytest.raises(MachineError, match="a volume over /proc"):
            podman.create(ODD, workdir=workdir_of_git)

    def test_a_link_of_the_image_on_the_way(self, owner):
        """It is refused for what can be written to; a program to read may be behind that of /bin."""
        (owner.place / "shown").mkdir()
        make_image(owner.engine, ODD, {**busybox(), "usr/lib": Directory(), "lib": Link("usr/lib")})
        owner.create(ODD, binds=(Bind(owner.place / "shown", Path("/lib/shown"), writable=False),))
        assert "Read-only" in owner.run("touch /usr/lib/shown/new")
        owner.backend.destroy(JAR)
        with pytest.raises(MachineError, match="/lib/shown is not what was meant inside: it is at /usr/lib/shown"):
            owner.create(ODD, binds=(Bind(owner.place / "shown", Path("/lib/shown"), writable=True),))

    @pytest.mark.parametrize("name", ["a\x0bb", "a\u2028b", "a\rb"])
    def test_a_volume_whose_name_looks_like_two_lines(self, docker, name):
        (docker.place / "work").mkdir()
        make_image(docker.engine, ODD, busybox(), {"Volumes": {f"/{name}": {}}})
        docker.create(ODD, workdir=docker.place / "work")
        assert docker.run("touch new && ls") == "new\n"

    def test_another_file_system_below_what_is_read_only(self, docker):
        shown, below = docker.place / "shown", docker.place / "shown/below"
        below.mkdir(parents=True)
        enter = ["nsenter", f"--mount=/proc/{docker.engine.pid}/ns/mnt"]
        subprocess.run([*enter, "mount", "-t", "tmpfs", "below", below], check=True)
        try:
            with pytest.raises(MachineError, match="--ro-bind SRC:/shown/below"):
                docker.create(binds=(Bind(shown, Path("/shown"), writable=False),))
        finally:
            subprocess.run([*enter, "umount", below], check=True)
        docker.create(binds=(Bind(shown, Path("/shown"), writable=False),))
        assert "Read-only" in docker.run("touch /shown/below/x")


class TestOthers:
    """What is not ours is not touched, whatever it says of itself."""

    def test_labels_of_an_image_have_nothing_swept(self, docker_engine, tmp_path):
        make_image(
            docker_engine, ODD, busybox(), {"Labels": {leftovers.LIFE: '[1, 1, "another boot", 1]'}, "Cmd": ["sh"]}
        )
        bystander = docker_engine.api.call("POST", "/containers/create", {"Image": ODD})["Id"]
        assert leftovers.sweep(Engine("docker", docker_engine.socket), tmp_path) == 0
        docker_engine.api.call("DELETE", f"/containers/{bystander}")

    @pytest.mark.parametrize("pid", ["-1", "0", str(1 << 64), '"x"', "null", "[]"])
    def test_labels_that_nobody_understands_are_left_alone(self, pid):
        boot, namespace = Life.of(os.getpid()).boot, leftovers._namespace("self")
        for label in (f'[{pid}, 1, "{boot}", {namespace}]', pid):
            assert not leftovers._is_over(label)
            leftovers._is_ours({"Labels": {leftovers.LIFE: label}, "Names": ["/x"]})

    def test_a_container_is_not_ours_by_its_image(self, docker):
        labels = {OWNER: docker.backend._containers.labels[OWNER], SANDBOX: JAR}
        make_image(docker.engine, ODD, busybox(), {"Labels": labels, "Cmd": ["sh"]})
        bystander = docker.engine.api.call("POST", "/containers/create", {"Image": ODD})["Id"]
        assert docker.backend.sandboxes() == []
        docker.backend.destroy(JAR)
        docker.engine.api.call("DELETE", f"/containers/{bystander}")

    def test_a_life_that_is_hidden_is_not_over(self, monkeypatch):
        def hidden(pid: int) -> Life:
            if pid == os.getpid():
                return Life(pid, 1, "boot")
            raise ProcessLookupError

        monkeypatch.setattr(Life, "of", hidden)
        assert not leftovers._is_over(json.dumps([1, 1, "boot", leftovers._namespace("self")]))


class TestResources:
    def test_memory_for_files_is_bounded(self, docker):
        docker.create(read_only=True)
        mounts = [line.split() for line in docker.run("cat /proc/mounts").splitlines()]
        options = {place: words.split(",") for _, place, kind, words, *_ in mounts if kind == "tmpfs"}
        sizes = [word for place in ("/tmp", "/workspace") for word in options[place] if word.startswith("size=")]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert sum(int(size[5:-1]) << 10 for size in sizes) < memory / 2
        assert len(sizes) == 2
        files = [int(word[10:]) for place in ("/tmp", "/workspace") for word in options[place] if "nr_inodes=" in word]
        assert len(files) == 2
        assert sum(files) < memory / 2 / 16384

    def test_nothing_is_left_of_an_empty_directory(self, owner):
        def volumes() -> list[str]:
            return [found["Name"] for found in owner.engine.api.call("GET", "/volumes")["Volumes"] or []]

        before = volumes()
        owner.create(scratch=Path("/root"))
        assert owner.run("pwd; ls -A; stat -c %u .; echo 1 >file; cat file") == "/root\n0\n1\n"
        assert len(volumes()) == len(before) + 1
        owner.backend.destroy(JAR)
        assert volumes() == before

    def test_memory_is_bounded_without_being_asked_for(self, owner):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        owner.create()
        asked = owner.inspect()["HostConfig"]
        assert (asked["Memory"], asked["MemorySwap"]) == (memory * 3 // 4,) * 2
        owner.backend.destroy(JAR)
        owner.create(limits=ResourceLimits(memory_bytes=256 << 20))
        assert owner.inspect()["HostConfig"]["Memory"] == 256 << 20

    @pytest.mark.skipif(not can_be_bounded(), reason="before Linux 6.9 the limit on memory is the bound")
    def test_shared_memory_is_bounded(self, owner):
        """It stays when the programs that made it have ended."""
        owner.create()
        found = owner.run("cd /proc/sys/kernel; cat shmmax shmall msgmni sem; echo 1000000 >shmmax || echo refused")
        most, pages, queues, *semaphores = found.split("sh:")[0].split()
        assert int(most) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 64
        assert int(pages) == os.sysconf("SC_PHYS_PAGES") // 64
        assert (queues, semaphores) == ("1024", ["1000", "32000", "500", "1024"])
        assert found.endswith("refused\n")

    def test_the_first_process_has_no_log_to_fill(self, owner):
        owner.create()
        owner.run("echo flood >/proc/1/fd/1")
        assert owner.inspect()["HostConfig"]["LogConfig"]["Type"] == "none"

    def test_what_is_said_in_the_name_of_our_programs_is_bounded(self):
        with room(10) as descriptor:
            os.write(descriptor, b"12345678")
            with pytest.raises(PermissionError):
                os.write(descriptor, b"90abc")
            assert written(descriptor) == b"12345678"

    def test_a_program_of_ours_that_is_held_up(self, docker, monkeypatch):
        monkeypatch.setattr(inside_programs, "_SECONDS_TO_TELL", 0.5)
        docker.create()
        with pytest.raises(LostError, match="does not come to an end"):
            docker.backend._inside.hear(JAR, docker.inspect(), Command(("sleep", "1000")))

    def test_a_program_that_carries_a_tree_is_held_up(self, owner, monkeypatch):
        """An agent stops it, as it can stop whatever has its own rights."""
        monkeypatch.setattr(treestreams, "_STALL_TIMEOUT", 2.0)
        owner.create()
        owner.run("mkdir tree; head -c 50000000 /dev/zero >tree/file")
        archive = conformance.get(owner.backend, JAR, "tree")
        find = "grep -ls 'sandbox.tree[s]' /proc/[0-9]*/cmdline | cut -d/ -f3"
        stop = f"for p in $({find}); do kill -STOP $p; done"
        with conformance.started(owner.backend, JAR, "sh", "-c", f"echo; while :; do {stop}; done") as agent:
            assert agent.read()
            for carry in (
                lambda: conformance.get(owner.backend, JAR, "tree"),
                lambda: conformance.put(owner.backend, JAR, "tree", archive),
            ):
                with pytest.raises(LostError):
                    carry()
            agent.process.signal(signal.SIGKILL)
        assert conformance.get(owner.backend, JAR, "tree", names=()), "another one works"
        until(lambda: not owner.run(find))

    def test_an_agent_that_writes_to_an_archive_itself(self, owner):
        """It gets at the descriptors of its own programs; the bound is not theirs to keep."""
        owner.create()
        owner.run("mkdir -p tree && truncate -s 4000000 tree/file")
        loop = "echo; while :; do for f in /proc/[2-9]*/fd/1; do head -c 100000 /dev/zero >$f & done; wait; done"
        with conformance.started(owner.backend, JAR, "sh", "-c", f"{{ {loop}; }} 2>/dev/null") as agent:
            assert agent.read()
            for _ in range(10):
                with suppress(PathError, LostError):
                    assert len(conformance.get(owner.backend, JAR, "tree", limit=5_000_000)) <= 5_000_000
            agent.process.signal(signal.SIGKILL)


def test_whatever_our_umask_is_everybody_inside_can_use_our_programs(tmp_path):
    before = os.umask(0o077)
    try:
        made = open_toolbox(tmp_path / "toolbox")
    finally:
        os.umask(before)
    closed = [path for path in (made.directory, *made.directory.rglob("*")) if path.stat().st_mode & 0o055 == 0]
    assert closed == []


def load_annotated(engine: engines.Engine, annotations: Mapping[str, str]) -> None:
    """Give Podman an image in the format that has annotations."""
    layer = _layer({**busybox(), "annotations": File(json.dumps(annotations).encode())})
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(uname().machine, uname().machine)
    root = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = json.dumps({"architecture": machine, "os": "linux", "config": {}, "rootfs": root}).encode()
    blobs = {hashlib.sha256(blob).hexdigest(): blob for blob in (layer, config)}
    parts = [
        {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(blob)}
        for kind, (digest, blob) in zip(("layer.v1.tar", "config.v1+json"), blobs.items(), strict=True)
    ]
    manifest = {"schemaVersion": 2, "config": parts[1], "layers": parts[:1], "annotations": annotations}
    kind = "application/vnd.oci.image.manifest.v1+json"
    written_down = json.dumps({**manifest, "mediaType": kind}).encode()
    digest = hashlib.sha256(written_down).hexdigest()
    named = {"org.opencontainers.image.ref.name": "localhost/annotated:latest"}
    entry = {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(written_down), "annotations": named}
    files = {
        "oci-layout": File(b'{"imageLayoutVersion": "1.0.0"}'),
        "index.json": File(json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()),
        **{f"blobs/sha256/{name}": File(blob) for name, blob in {**blobs, digest: written_down}.items()},
    }
    engine.api.send("POST", "/images/load?quiet=true", _layer(files))
