"""Fixtures for every test that needs a network of its own. The universe is imported by those alone: it takes time."""

import pytest

from belljar.linux.namespaces import NetworkNamespace
from tests import privileges


def pytest_configure(config):
    """Before there are threads, and in the first process only: the workers of a parallel run are its children."""
    if not hasattr(config, "workerinput"):
        privileges.gain()


@pytest.fixture(scope="session")
def privileged():
    """Skip where network namespaces cannot be made."""
    if reason := privileges.missing():
        pytest.skip(reason)


@pytest.fixture
def namespace(privileged):
    """A bare network namespace: a loopback interface that is down, and nothing else."""
    with NetworkNamespace.create() as namespace:
        yield namespace


@pytest.fixture(scope="session")
def whole_universe(privileged):
    """The universe that all tests of a session share."""
    from tests.universe import Universe  # noqa: PLC0415

    with Universe() as universe:
        yield universe


@pytest.fixture
def universe(whole_universe):
    """The universe, with witnesses that have seen nothing."""
    whole_universe.forget()
    return whole_universe


@pytest.fixture
def sandbox(universe):
    """A sealed sandbox whose doors nobody serves yet, and where UDP is refused."""
    with universe.sandbox() as sandbox:
        yield sandbox
