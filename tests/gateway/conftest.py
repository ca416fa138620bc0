import pytest

from tests.gateway.serving import Serving


@pytest.fixture(scope="module")
def serving(whole_universe):
    """A gateway at work; each test makes the sandboxes it needs."""
    running = Serving(whole_universe)
    yield running
    running.close()
