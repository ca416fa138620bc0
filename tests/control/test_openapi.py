"""The published description is right: an independent tool makes requests from it, and judges the answers."""

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from belljar.control.http.api import OPERATIONS
from belljar.control.http.openapi import describe
from belljar.control.http.problems import KINDS

pytestmark = pytest.mark.filterwarnings("ignore")  # of the tool's own

STREAMS = {"/api/v1/events", "/api/v1/sandboxes/{id}/events"}
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
REQUESTS = 15
RIGHT, WRONG = "positive", "negative"
TRIALS = [
    pytest.param(operation, mode, id=f"{operation.name} {mode}")
    for operation in OPERATIONS
    if operation.path not in STREAMS
    for mode in (RIGHT, WRONG)
    if mode == RIGHT or operation.query or operation.body or operation.headers
]


def test_names_are_unique_and_codes_exist():
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert {code for operation in OPERATIONS for code in operation.problems} <= set(KINDS)


@pytest.fixture(scope="module")
def tool():
    """The independent tool. It takes seconds to load, which those who collect tests need not wait for."""
    import schemathesis  # noqa: PLC0415

    return schemathesis


@pytest.fixture(scope="module")
def schema(tool):
    return tool.openapi.from_dict(describe())


@pytest.mark.parametrize(("operation", "mode"), TRIALS)
def test_answers_are_as_described(server, tool, schema, operation, mode):
    """What is asked for is made up from the description, right or wrong, of a sandbox that is there."""
    described = schema[operation.path][operation.method]
    checks = [getattr(tool.checks, name) for name in CHECKS]
    headers = {"authorization": f"Bearer {server.token}"}
    names = {"id": server.sandbox(), "grant": "none"}
    parameters = {name: value for name, value in names.items() if f"{{{name}}}" in operation.path}

    @given(case=described.as_strategy(tool.GenerationMode(mode), path_parameters=parameters or None))
    @settings(
        max_examples=REQUESTS,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def judge(case):
        # The tool takes a number for no list; but in a query it is text, and a list of one.
        assume(not isinstance((case.query or {}).get("label"), int | float))
        case.call_and_validate(base_url=f"http://127.0.0.1:{server.port}", headers=headers, checks=checks)

    judge()
