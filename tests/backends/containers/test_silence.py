"""Engines that leave some questions without an answer, as agents can have them do: who waits for that, and who not."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from belljar.backends.containers import inventory
from belljar.backends.containers.engine.client import Engine, EngineLostError
from belljar.backends.containers.inventory import OWNER, Containers
from belljar.linux.lives import children_of, has_ended
from tests import privileges
from tests.backends.containers.listening import docker, http, silent

PATIENCE = 60
"""Half of what an engine is given to answer."""


def test_a_run_does_not_wait_until_an_engine_tells_what_is_left_of_others(tmp_path):
    engine, nothing = tmp_path / "engine.sock", http(404, '{"message": "no such container"}')
    answers = {"/_ping": docker("24.0.0", "1.43"), **dict.fromkeys(("/any/json", "-run/json", "-run"), nothing)}
    with silent(engine, answers) as unanswered:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "belljar",
                "run",
                "--backend",
                "docker",
                "--image",
                "any",
                "--no-workdir",
                "--",
                "true",
            ],
            env={"DOCKER_HOST": f"unix://{engine}", "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert "docker pull any" in done.stderr
        assert any("/containers/json" in path for path in unanswered)


@contextmanager
def first_process():
    """Have something that is the first process of a PID namespace; yield its number here, and a descriptor of it."""
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "sleep", "1000"]) as outside:
        try:
            while not (children := children_of(outside.pid)):
                assert outside.poll() is None
            held = os.pidfd_open(children[0])
            try:
                yield children[0], held
            finally:
                os.close(held)
        finally:
            outside.kill()


@pytest.mark.skipif(privileges.missing() is not None, reason=str(privileges.missing()))
def test_a_container_is_killed_although_its_engine_tells_nothing_of_it_any_more(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "_SECONDS_TO_REMOVE", 0.1)
    with first_process() as (pid, held):
        found = {"Id": "id", "Config": {"Labels": {OWNER: "us"}}, "State": {"Pid": pid}}
        answers: dict[str, object] = {"-jar/json": found}
        with silent(tmp_path / "engine.sock", answers) as unanswered:
            engine = Engine("podman", tmp_path / "engine.sock", patience=1.0)
            containers = Containers(engine, "us", {})
            containers.inspect("jar")
            answers.clear()
            with pytest.raises(EngineLostError):
                containers.remove("jar")
            assert has_ended(held, PATIENCE)
            assert unanswered
