"""The published description is right: an independent tool makes requests from it, and judges the answers."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from belljar.control.api import OPERATIONS
from belljar.control.openapi import describe
from belljar.control.problems import KINDS

pytestmark = pytest.mark.filterwarnings("ignore")  # of the tool's own

SCHEMA = schemathesis.openapi.from_dict(describe())
STREAMS = {"/api/v1/events", "/api/v1/sandboxes/{id}/events"}
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_headers_conformance,
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.negative_data_rejection,
]
REQUESTS = 15
RIGHT, WRONG = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
TRIALS = [
    pytest.param(operation, mode, id=f"{operation.name} {mode.value}")
    for operation in OPERATIONS
    if operation.path not in STREAMS
    for mode in (RIGHT, WRONG)
    if mode is RIGHT or operation.query or operation.body or operation.headers
]


def test_names_are_unique_and_codes_exist():
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert {code for operation in OPERATIONS for code in operation.problems} <= set(KINDS)


@pytest.mark.parametrize(("operation", "mode"), TRIALS)
def test_answers_are_as_described(server, operation, mode):
    """What is asked for is made up from the description, right or wrong, of a sandbox that is there."""
    described = SCHEMA[operation.path][operation.method]
    headers = {"authorization": f"Bearer {server.token}"}
    names = {"id": server.sandbox(), "grant": "none"}
    parameters = {name: value for name, value in names.items() if f"{{{name}}}" in operation.path}

    @given(case=described.as_strategy(mode, path_parameters=parameters or None))
    @settings(
        max_examples=REQUESTS,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def judge(case):
        case.call_and_validate(base_url=f"http://127.0.0.1:{server.port}", headers=headers, checks=CHECKS)

    judge()
