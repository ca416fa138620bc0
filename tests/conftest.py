"""Fixtures for every test that needs a network of its own. The universe is imported by those alone: it takes time."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

from belljar.linux.namespaces import NetworkNamespace
from tests import privileges, stage

pytest.register_assert_rewrite("belljar.testing.conformance")
set_hypothesis_home_dir(stage.CACHE / "hypothesis")  # tables of Unicode, which take five seconds to make
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_TAKE_LONG = {"engine", "docker_engine", "podman_engine", "rootless_engine", "browser"}


def pytest_configure(config):
    """Before there are threads. The workers of a parallel run are children of the first process, where that is."""
    if not hasattr(config, "workerinput"):
        stage.enter()
    stage.behave()


def pytest_unconfigure(config):
    """Leave no files of root's."""
    if not hasattr(config, "workerinput"):
        stage.leave()


def pytest_collection_modifyitems(items):
    """Mark the tests that start container engines or a browser. Whatever else takes long says so itself."""
    for item in items:
        if not _TAKE_LONG.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.long)


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


@pytest.fixture(scope="session")
def docker_engine():
    """Docker with the busybox image, for all tests of a session: one that stops the engine starts its own."""
    yield from _with_busybox("start_docker")


@pytest.fixture(scope="session")
def podman_engine():
    """Podman as root, likewise."""
    yield from _with_busybox("start_podman")


@pytest.fixture(scope="session")
def rootless_engine():
    """Podman as an ordinary user, likewise."""
    yield from _with_busybox("start_rootless_podman")


def _with_busybox(start: str) -> Iterator[Any]:
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    from tests import engines  # noqa: PLC0415

    with getattr(engines, start)() as engine:
        engines.make_image(engine, engines.BUSYBOX, engines.busybox())
        yield engine


PODMAN = ["podman_engine"] if privileges.EVERY_ENGINE else []
"""As root it has little that it has not as a user."""


@pytest.fixture(params=["docker_engine", *PODMAN, "rootless_engine"])
def engine(request):
    """Each of the engines in turn."""
    return request.getfixturevalue(request.param)
