"""Which requests are let through: by rules, and by paths that everyone reads the same."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.broker.asking.paths import AmbiguousPathError, decoded, is_below, matches
from belljar.policy import Syntax, read_policy
from belljar.policy.services import Budget
from tests.broker.running import Running, service
from tests.broker.standin import StandIn

LETTERS = st.text(alphabet="ab*", max_size=6)


@given(st.lists(LETTERS, min_size=1, max_size=4), st.lists(LETTERS, min_size=1, max_size=4), st.booleans())
def test_a_star_stays_in_its_segment_and_two_stand_for_segments(pattern: list[str], path: list[str], deep: bool):
    pattern = [re.sub(r"\*+", "*", segment) for segment in pattern]
    if deep:
        pattern[len(pattern) // 2] = "**"
    where = "/" + "/".join(segment.replace("*", "c") or "c" for segment in path)
    meaning = {"**": "[^/]+(?:/[^/]+)*", "*": "[^/]*"}
    rule = "/" + "/".join(pattern)
    oracle = re.fullmatch("".join(meaning.get(each, each) for each in re.findall(r"\*\*|.", rule)), where)
    assert matches(f"GET {rule}", "GET", where) == bool(oracle)


def test_a_rule_is_for_a_method():
    assert matches("GET /a", "GET", "/a")
    assert not matches("GET /a", "POST", "/a")


def test_matching_takes_linear_time():
    assert not matches("GET " + "a*" * 5_000 + "b", "GET", "a" * 200_000)
    assert not matches("GET /**/b", "GET", "/a" * 100_000)


@pytest.mark.parametrize(
    ("path", "base", "below"),
    [("/v1", "/v1", True), ("/v1/a", "/v1", True), ("/v12", "/v1", False), ("/a", "", True), ("/", "/v1", False)],
)
def test_a_target_has_a_base(path: str, base: str, below: bool):
    assert is_below(path, base) == below


AMBIGUOUS = [
    "/v1//messages",
    "/v1/./messages",
    "/v1/../messages",
    "/v1/x/../messages",
    "/v1/%2e%2e/messages",
    "/v1/%2E/messages",
    "/v1%2fmessages",
    "/v1%2Fmessages",
    "/v1/%5cmessages",
    "/v1\\messages",
    "/v1/messages%00",
    "/v1/messages%0d%0a",
    "/v1/messages%23",
    "/v1/messages%3f",
    "/v1/messages;x=1",
    "/v1/messages%3bx",
    "/v1/%252e%252e/messages",
    "/v1/%6dessages",
    "/v1/messages%",
    "/v1/messages%zz",
    "/v1/messages%ff",
    "/v1/messages%C2%A0",
    "/v1/mess%C3%A4ges",
    "/v1/messages%20",
    "/v1/%20messages",
    "/v1/messages.",
    "/v1/...",
    "/v1/m|essages",
    'v1/"messages',
    "http://localhost/v1/messages",
    "*",
    "//v1/messages",
]


@pytest.mark.parametrize("path", AMBIGUOUS)
def test_what_has_two_readings_is_none(path: str):
    with pytest.raises(AmbiguousPathError):
        decoded(path)


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/v1beta/models/gemini:generateContent", "/v1beta/models/gemini:generateContent"),
        ("/v1beta/models/gemini%3AgenerateContent", "/v1beta/models/gemini:generateContent"),
        ("/v1/models/a%20b", "/v1/models/a b"),
        ("/v1/.well-known", "/v1/.well-known"),
    ],
)
def test_what_has_one_reading_is_decoded(path: str, read: str):
    assert decoded(path) == read


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/Models", "/v1/MODELS", "/v1/x:generatecontent"])
def test_a_star_grants_nothing_that_servers_put_right(path: str):
    for rule in ("GET /v1/*", "GET /v1/**", "GET /**"):
        assert not matches(rule, "GET", path)
    assert matches("GET /v1/*", "GET", "/v1/models")
    assert matches(f"GET {path}", "GET", path)


def _sent(path: str, method: str = "POST", host: str = "anthropic.belljar.internal") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}".encode()


def test_only_what_is_allowed_reaches_the_provider(broker: Running, provider: StandIn):
    used = service(provider.url)
    before = len(provider.raw)
    denied = [*AMBIGUOUS, "/v1/complete", "/v1/messages/batches", "/v1/messages#x", "/v1/messages?#x", "/"]
    for path in denied:
        answer = broker.raw(used, _sent(path))
        assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), path
    assert broker.raw(used, _sent("/v1/messages", "PUT")).startswith(b"HTTP/1.1 403")
    assert broker.raw(used, "POST /v1/mess\u00e4ges HTTP/1.1\r\nHost: a\r\n\r\n".encode()).startswith(b"HTTP/1.1 400")
    assert len(provider.raw) == before
    assert broker.raw(used, _sent("/v1/messages")).startswith(b"HTTP/1.1 200")
    assert len(provider.raw) > before


def test_a_refusal_says_what_is_allowed(broker: Running, provider: StandIn):
    answer = broker.ask(service(provider.url), path="/v1/complete", body={})
    assert answer.status == 403
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json["error"]["type"] == "permission_error"
    assert "POST /v1/messages" in answer.json["error"]["message"]


def test_a_request_is_for_the_service_that_it_came_to(broker: Running, provider: StandIn):
    used, before = service(provider.url), len(provider.raw)
    for host in ("localhost", "api.anthropic.com", "anthropic.belljar.internal:81", "anthropic.belljar.internal.", ""):
        assert broker.raw(used, _sent("/v1/messages", host=host)).startswith(b"HTTP/1.1 403"), host
    assert len(provider.raw) == before
    for host in ("anthropic.belljar.internal", "anthropic.belljar.internal:80", "Anthropic.Belljar.Internal"):
        assert broker.raw(used, _sent("/v1/messages", host=host)).startswith(b"HTTP/1.1 200"), host


SEARCH = {"requests": [{"params": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}}]}


def _documented() -> tuple[str, ...]:
    """Return the rules of the service in the first example of a policy in the documentation."""
    text = (Path(__file__).parents[2] / "docs/broker.md").read_text()
    [example] = re.findall(r"```yaml\n(mode: .*?)```", text, re.DOTALL)
    [found] = [each for each in read_policy(example, Syntax.YAML).policy.services if each.name == "models"]
    return found.paths


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(_documented(), id="documented"),
        pytest.param(("POST /v1/messages*", "POST /v1/messages/*", "POST /v1/responses*"), id="segments"),
        pytest.param(("POST /v1/**",), id="deep"),
        pytest.param(("* /**",), id="all"),
    ],
)
@pytest.mark.parametrize(("refuse_tools", "budget"), [(True, Budget()), (False, Budget(output_tokens=9))])
def test_what_nothing_judges_or_counts_is_not_granted_by_a_star(
    broker: Running, provider: StandIn, rules: tuple[str, ...], refuse_tools: bool, budget: Budget
):
    used = service(provider.url, "models", paths=rules, budget=budget)
    before = len(provider.raw)
    for path in (
        "/v1/messages/batches",
        "/v1/messages_batches",
        "/v1/messages%C2%A0",
        "/v1/messages%20",
        "/v1/messages.",
        "/v1/messages/",
        "/v1/Messages",
        "/v1/messages/batches/",
        "/v1/Messages/Batches",
        "/v1/messages;x",
        "/v1/responses/x/cancel",
        "/v1/batches",
        "/v1/files",
    ):
        assert broker.ask(used, path=path, body=SEARCH, refuse_tools=refuse_tools).status == 403, path
    assert len(provider.raw) == before
    body = {"model": "m", "max_tokens": 1, "messages": []}
    assert broker.ask(used, path="/v1/messages", body=body, refuse_tools=refuse_tools).status == 200


def test_what_is_named_is_granted(broker: Running, provider: StandIn):
    named = service(provider.url, "models", paths=("POST /v1/**", "POST /v1/messages/batches"))
    assert broker.ask(named, path="/v1/messages/batches", body=SEARCH, refuse_tools=True).status == 200
    free = service(provider.url, "models", paths=("POST /v1/**",), server_tools=True)
    assert broker.ask(free, path="/v1/messages/batches", body=SEARCH, refuse_tools=True).status == 200


def test_a_star_grants_no_stored_answers(broker: Running, provider: StandIn):
    """They may be another sandbox's. Lists of models are nobody's."""
    used = service(provider.url, "models", paths=("* /**",))
    before = len(provider.raw)
    for method, path in (
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/messages"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/files"),
    ):
        assert broker.ask(used, method, path, refuse_tools=True).status == 403, path
    assert len(provider.raw) == before
    for path in ("/v1/models", "/v1/models/some-model", "/tickets/7"):
        assert broker.ask(used, "GET", path, refuse_tools=True).status == 200, path
