import pytest

from tests.gateway.serving import Serving


@pytest.fixture(scope="module")
def serving(universe):
    """A gateway at work; each test makes the sandboxes it needs."""
    running = Serving(universe)
    yield running
    running.close()
