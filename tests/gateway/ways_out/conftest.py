from contextlib import ExitStack

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
def shared_sandbox(serving):
    with serving.sandbox(GRANTS) as made:
        yield made


@pytest.fixture
def agent(serving, universe, shared_sandbox, log):
    """An agent in a sandbox with ordinary grants, which the tests of a module share."""
    sandbox, jar = shared_sandbox
    return Agent(serving, sandbox, jar, log)
