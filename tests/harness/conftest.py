import shutil
import tempfile
from pathlib import Path

import pytest

from tests.harness.judges import ServedJudge


@pytest.fixture
def serve():
    """Serves judges, in a directory whose name is short enough for a socket in it."""
    directory = Path(tempfile.mkdtemp(prefix="belljar-judge-"))
    served: list[ServedJudge] = []

    def serve(*tasks, **options):
        served.append(ServedJudge(directory, *tasks, **options))
        return served[-1]

    yield serve
    for each in served:
        each.stop()
    shutil.rmtree(directory)


@pytest.fixture
def judge(serve):
    """A judge whose task scores what the file `score` says."""
    return serve()


@pytest.fixture
def evaluations(universe):
    """Runs `belljar eval` in the universe."""
    from tests.harness.evaluations import Evaluations  # noqa: PLC0415 - needs the universe

    directory = Path(tempfile.mkdtemp(prefix="belljar-eval-", dir="/var/tmp"))
    evaluations = Evaluations(universe, directory)
    yield evaluations
    evaluations.close()
    shutil.rmtree(directory)
