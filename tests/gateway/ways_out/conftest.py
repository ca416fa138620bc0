from contextlib import ExitStack
from functools import cache

import pytest

from belljar.gateway.audit.log import AuditLog, open_log
from tests.gateway.serving import Serving
from tests.gateway.ways_out.agents import Agent

GRANTS = """
mode: block-all
egress:
  allowed_domains:
    - plain.test
    - "plain.test:22"
    - "plain.test:5432"
    - "plain.test:6000"
    - "plain.test:6001"
    - v4.test
    - "v4.test:8080"
    - v6.test
    - one.cdn.test
    - "*.wild.test"
  allowed_cidrs: [203.0.113.12, "2001:db8::12"]
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The path of the audit log."""
    return tmp_path_factory.mktemp("audit") / "audit.ndjson"


@pytest.fixture(scope="module")
def serving(whole_universe, log):
    """A gateway at work, whose audit log can be read."""
    audit = AuditLog(open_log(str(log)))
    running = Serving(whole_universe, audit=audit)
    yield running
    running.close()
    audit.close()


@pytest.fixture
def enter(serving, universe, log):
    """Make a sandbox with a policy, for one test."""
    with ExitStack() as stack:

        def enter(policy: str, **limits: int) -> Agent:
            sandbox, jar = stack.enter_context(serving.sandbox(policy, **limits))
            return Agent(serving, sandbox, jar, log)

        yield enter


@pytest.fixture(scope="module")
def shared_sandboxes(serving):
    """Makes sandboxes that the tests of a module share, one for each policy."""
    with ExitStack() as stack:
        yield cache(lambda policy: stack.enter_context(serving.sandbox(policy)))


@pytest.fixture
def share(serving, universe, shared_sandboxes, log):
    """Make a sandbox with a policy, or take the one that another test has made; for tests that leave it as it is."""

    def share(policy: str) -> Agent:
        sandbox, jar = shared_sandboxes(policy)
        return Agent(serving, sandbox, jar, log)

    return share


@pytest.fixture
def agent(share):
    """An agent in a sandbox with ordinary grants."""
    return share(GRANTS)
