import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.gateway.clients.inside import Inside
from tests.universe.machines import Machine


@pytest.fixture(scope="module")
def machine(whole_universe):
    """A machine in the internet, for the servers of a module."""
    with TemporaryDirectory(prefix="machine-") as home, Machine(whole_universe.internet, Path(home)) as machine:
        yield machine


@pytest.fixture
def enter(serving, universe):
    """Make a sandbox in which nothing is granted but some domains, for one test."""
    with ExitStack() as stack:

        def enter(*domains: str) -> Inside:
            policy = json.dumps({"mode": "block-all", "egress": {"allowed_domains": domains}})
            sandbox, _ = stack.enter_context(serving.sandbox(policy))
            return Inside(universe, sandbox)

        yield enter
