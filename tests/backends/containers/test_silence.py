"""Engines that leave some questions without an answer, as agents can have them do: who waits for that, and who not."""

import subprocess
import sys

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
