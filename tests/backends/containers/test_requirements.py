"""What is found out about an engine, from real ones and from what others would say."""

import os

import pytest

from belljar.backends.containers.engine.requirements import findings
from tests.backends.containers.listening import answering, docker, http
from tests.engines import BUSYBOX
from tests.engines.api import ApiError

KERNEL = os.uname().release
ROOTLESS = ["name=seccomp,profile=default", "name=rootless"]
REMAPPED = ["name=seccomp,profile=default", "name=userns"]


def look(kind, url: str, trial=None):
    variable = "DOCKER_HOST" if kind == "docker" else "CONTAINER_HOST"
    return {finding.what: finding for finding in findings(kind, {variable: url}, trial)}


class TestRealEngines:
    def test_what_it_is(self, engine):
        found = look(engine.kind, engine.url)[engine.kind]
        assert found.holds
        assert str(engine.socket) in found.detail
        assert ("rootless" in found.detail) == engine.rootless
        assert engine.api.call("GET", "/info")["ServerVersion"] in found.detail

    def test_it_is_on_this_machine(self, engine):
        assert look(engine.kind, engine.url)[f"{engine.kind}: this machine"].holds

    def test_whose_root_a_containers_root_is(self, engine):
        found = look(engine.kind, engine.url)[f"{engine.kind}: root in a container"]
        assert found.holds == engine.rootless
        assert not found.needed

    def test_that_limits_are_promised_only_where_a_container_can_have_them(self, engine):
        host = {"NetworkMode": "none", "Memory": 64 << 20, "NanoCpus": 500_000_000, "PidsLimit": 50}
        show = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
        wanted = {"Image": BUSYBOX, "Cmd": ["sh", "-c", show], "Tty": True, "HostConfig": host}
        assert look(engine.kind, engine.url)[f"{engine.kind}: containers"].holds == is_limited(engine, wanted)


def is_limited(engine, wanted) -> bool:
    container = engine.api.call("POST", "/containers/create", wanted)["Id"]
    try:
        engine.api.call("POST", f"/containers/{container}/start")
        engine.api.call("POST", f"/containers/{container}/wait")
        return str(64 << 20) in engine.api.send("GET", f"/containers/{container}/logs?stdout=1").decode()
    except ApiError:
        return False
    finally:
        engine.api.call("DELETE", f"/containers/{container}?force=true")


class TestTrial:
    @pytest.mark.parametrize(("failure", "detail"), [(None, "was made, sealed"), ("no helper", "no helper")])
    def test_comes_last(self, tmp_path, failure, detail):
        with answering(tmp_path / "s", answers()):
            *_, (what, found) = look("docker", f"unix://{tmp_path}/s", lambda: failure).items()
        assert (what, found.holds, found.needed) == ("docker: a sandbox", failure is None, True)
        assert detail in found.detail

    def test_is_not_made_without_an_engine(self, tmp_path):
        def trial():
            pytest.fail("there is nothing to try")

        found = look("docker", f"unix://{tmp_path}/none", trial)
        assert list(found) == ["docker"]
        assert not found["docker"].holds
        assert found["docker"].needed
        assert "sudo systemctl start docker" in found["docker"].remedy


class TestAnswers:
    def test_an_engine_in_a_virtual_machine_is_no_engine_of_this_machine(self, tmp_path):
        with answering(tmp_path / "s", answers(kernel="6.10.14-linuxkit")):
            found = look("docker", f"unix://{tmp_path}/s")["docker: this machine"]
        assert (found.holds, found.needed) == (False, True)
        assert "6.10.14-linuxkit" in found.detail

    def test_an_engine_that_says_no_is_quoted(self, tmp_path):
        with answering(tmp_path / "s", {"/_ping": docker("28.0.0", "1.48"), "": http(403, '{"message": "not today"}')}):
            found = look("docker", f"unix://{tmp_path}/s")
        assert list(found) == ["docker"]
        assert (found["docker"].holds, found["docker"].detail) == (False, "not today")

    @pytest.mark.parametrize(
        ("groups", "remedy"), [("1", "systemd.unified_cgroup_hierarchy=1"), ("2", "Delegate=cpu cpuset io memory pids")]
    )
    def test_a_rootless_docker_without_controllers(self, tmp_path, groups, remedy):
        said = answers(MemoryLimit=False, CpuCfsQuota=False, CgroupVersion=groups, SecurityOptions=ROOTLESS)
        with answering(tmp_path / "s", said):
            found = look("docker", f"unix://{tmp_path}/s")
        assert not found["docker: containers"].holds
        assert not found["docker: containers"].needed
        assert "cannot be limited in cpu, memory" in found["docker: containers"].detail
        assert remedy in found["docker: containers"].remedy
        assert found["docker: root in a container"].holds

    def test_a_docker_that_maps_users(self, tmp_path):
        with answering(tmp_path / "s", answers(SecurityOptions=REMAPPED)):
            assert look("docker", f"unix://{tmp_path}/s")["docker: root in a container"].holds

    @pytest.mark.parametrize(
        ("number", "holes"),
        [
            ("1.0.0-rc93", ["CVE-2024-21626", "CVE-2025-31133"]),
            ("1.1.5+ds1", ["CVE-2024-21626", "CVE-2025-31133"]),
            ("1.1.12", ["CVE-2025-31133"]),
            ("1.2.7", ["CVE-2025-31133"]),
            ("1.2.8", []),
            ("1.3.2", ["CVE-2025-31133"]),
            ("1.3.3", []),
            ("1.4.0", []),
            ("2.0.0", []),
        ],
    )
    @pytest.mark.parametrize("said", ["{}", "runc version {}\ncommit: x\nspec: 1.0.2-dev"])
    def test_an_old_runc_is_a_note(self, tmp_path, number, holes, said):
        name = "runc" if said == "{}" else "OCI Runtime (runc)"
        with answering(tmp_path / "s", answers(runc={"Name": name, "Version": said.format(number)})):
            found = look("docker", f"unix://{tmp_path}/s")["docker: runc"]
        assert f"is {number}" in found.detail
        assert [hole for hole in ("CVE-2024-21626", "CVE-2025-31133") if hole in found.detail] == holes
        assert (found.holds, found.needed) == (not holes, False)


def answers(kernel: str = KERNEL, runc: object = None, **info: object) -> dict[str, object]:
    """Return what a Docker says that lacks nothing."""
    abilities = dict.fromkeys(("MemoryLimit", "CpuCfsQuota", "PidsLimit"), True)
    components = [{"Name": "Engine", "Version": "28.0.0"}, *([runc] if runc else [])]
    version = {"Version": "28.0.0", "ApiVersion": "1.48", "KernelVersion": kernel, "Components": components}
    usual = {"ServerVersion": "28.0.0", "CgroupVersion": "2", "Driver": "overlay2", "SecurityOptions": []}
    return {"/_ping": docker("28.0.0", "1.48"), "/version": version, "/info": {**abilities, **usual, **info}}
