import pytest

from tests.gateway.driving import Driver, nothing_left_behind
from tests.gateway.serving import Serving


@pytest.fixture(scope="module")
def serving(whole_universe):
    """A gateway at work; each test makes the sandboxes it needs."""
    running = Serving(whole_universe)
    yield running
    running.close()


@pytest.fixture
def driver():
    """A loop that is driven by hand, and that a test leaves as it found it."""
    driver = Driver()
    with nothing_left_behind(driver):
        yield driver
    driver.loop.close()
