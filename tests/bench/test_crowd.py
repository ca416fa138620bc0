"""What the benchmark says of many sandboxes at once is so: they have run, and nothing of them lives on."""

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.crowd import Crowd
from bench.running import BELLJAR, environment


@pytest.fixture
def crowd_of(universe):
    """Makes a crowd of a command."""
    with TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory:
        project = Path(directory) / "project"
        project.mkdir()
        yield lambda *command: Crowd(universe.gateway, command, project, environment(Path(directory)))


def test_nothing_of_many_sandboxes_lives_on(crowd_of):
    with crowd_of(*BELLJAR, "sh", "-c", "echo ready; exec sleep infinity") as crowd:
        crowd.start(8)
        assert len(crowd.survivors()) > 8
        crowd.stop()
        assert crowd.survivors() == [], "a run waits for the last of its processes"


def test_what_lives_on_is_found(crowd_of):
    with crowd_of("sh", "-c", "setsid sleep 60 >/dev/null & echo ready; wait") as crowd:
        crowd.start(1)
        crowd.stop()
        [survivor] = crowd.survivors()
    os.kill(survivor, signal.SIGKILL)
