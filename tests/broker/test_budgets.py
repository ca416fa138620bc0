"""How much of a service may be used, and what is counted."""

import json
import os
import re
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from belljar.broker.spending.ledger import NAME, Amounts, SpendingLedger
from belljar.broker.spending.sharedledger import SharedLedger
from belljar.broker.starting import GROUPS
from belljar.policy.services import Budget, SharedBudget
from tests.broker.running import Running, answer_of, service
from tests.broker.standin import Call, Page, StandIn

USAGE = {"input_tokens": 100, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5, "output_tokens": 50}
PRICES = """
claude-priced: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}
claude-dear: {input: 300, output: 1500}
claude-options:
  input: 3
  output: 15
  options:
    speed=fast: {input: 30, output: 150}
    cache_control.ttl=1h: {cache_write: 6}
    anthropic-beta=context-1m*: {input: 6, output: 22.5}
"gpt-*": {input: 1, output: 2}
"gemini-dear": {input: 100, output: 100}
"gemini-cheap": {input: 1, output: 1}
"""


@pytest.fixture(scope="module")
def environ(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    prices = tmp_path_factory.mktemp("prices") / "prices.yaml"
    prices.write_text(PRICES)
    return {**environ, "BELLJAR_PRICES": str(prices)}


def answering(data: Any) -> Page:
    async def page(call: Call) -> None:
        await call.answer(json.dumps(data).encode())

    return page


def streaming(*events: Any) -> Page:
    async def page(call: Call) -> None:
        await call.stream()
        for event in events:
            await call.event(event)
        await call.chunk(b"data: [DONE]\n\n")
        await call.chunk(b"")

    return page


@pytest.fixture(autouse=True)
def _pages(provider: StandIn):
    provider.pages["/v1/messages"] = answering({"model": "claude-priced", "usage": USAGE})
    yield
    provider.pages.clear()


def spent(broker: Running, sandbox: str) -> dict[str, Any]:
    used: dict[str, Any] = broker.event(sandbox=sandbox)["used"]
    return used


@pytest.mark.parametrize(
    ("budget", "asks"),
    [
        (Budget(requests=3), 3),
        (Budget(input_tokens=200), 2),
        (Budget(output_tokens=101), 3),
        (Budget(bytes=1), 1),
        (Budget(dollars=0.003), 3),
    ],
    ids=str,
)
def test_what_is_used_up_is_refused(broker: Running, provider: StandIn, budget: Budget, asks: int):
    used, sandbox = service(provider.url, budget=budget), f"used-up-{asks}-{budget}"
    for _ in range(asks):
        assert broker.ask(used, body={"model": "claude-priced"}, sandbox=sandbox).status == 200
    before = len(provider.seen)
    answer = broker.ask(used, body={"model": "claude-priced"}, sandbox=sandbox)
    assert answer.status == 429
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json["error"]["type"] == "rate_limit_error"
    assert "budget is used up" in answer.json["error"]["message"]
    assert len(provider.seen) == before
    assert broker.ask(used, body={"model": "claude-priced"}, sandbox=f"not-{sandbox}").status == 200


def test_tokens_and_dollars_are_told(broker: Running, provider: StandIn):
    used = service(provider.url, budget=Budget(dollars=1))
    broker.ask(used, body={"model": "claude-priced"}, sandbox="told")
    event = broker.event(sandbox="told")
    dollars = (100 * 3 + 20 * 0.3 + 5 * 3.75 + 50 * 15) / 1e6
    assert (event["input_tokens"], event["output_tokens"], event["model"]) == (125, 50, "claude-priced")
    assert event["dollars"] == pytest.approx(dollars)
    assert event["used"]["dollars"] == pytest.approx(dollars)
    assert event["budget"] == {"dollars": 1}


def test_without_a_price_there_is_no_budget_in_dollars(broker: Running, provider: StandIn, environ: dict[str, str]):
    used, before = service(provider.url, budget=Budget(dollars=1)), len(provider.seen)
    for body in ({"model": "unheard-of"}, {}):
        answer = broker.ask(used, body=body)
        assert answer.status == 403
        assert environ["BELLJAR_PRICES"] in answer.json["error"]["message"]
    assert "unheard-of" in broker.ask(used, body={"model": "unheard-of"}).json["error"]["message"]
    assert len(provider.seen) == before
    assert broker.ask(used, body={"model": "gpt-of-tomorrow"}).status == 200


@pytest.mark.parametrize(
    ("request_model", "answer_model", "price"),
    [
        ("claude-priced", "claude-dear", (300, 1500)),
        ("claude-dear", "claude-priced", (300, 1500)),
        ("claude-priced", "claude-priced-20260101", (3, 15)),
        ("claude-priced", "unheard-of", (300, 1500)),
    ],
)
def test_the_most_expensive_model_has_its_price_paid(
    broker: Running, provider: StandIn, request_model: str, answer_model: str, price: tuple[int, int]
):
    """The agent writes the request; and which model has answered, only the provider says."""
    usage = {"input_tokens": 100, "output_tokens": 50}
    provider.pages["/v1/messages"] = answering({"model": answer_model, "usage": usage})
    sandbox = f"{request_model} {answer_model}"
    used = service(provider.url, budget=Budget(dollars=1))
    assert broker.ask(used, body={"model": request_model}, sandbox=sandbox).status == 200
    assert spent(broker, sandbox)["dollars"] == pytest.approx((100 * price[0] + 50 * price[1]) / 1e6)


def test_the_price_of_the_model_in_the_path_counts(broker: Running, provider: StandIn):
    path = "/v1beta/models/gemini-dear:generateContent"
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 50}
    provider.pages[path] = answering({"usageMetadata": usage})
    used = service(provider.url, "gemini", budget=Budget(dollars=1))
    assert broker.ask(used, path=path, body={"model": "gemini-cheap"}, sandbox="path").status == 200
    assert spent(broker, "path")["dollars"] == pytest.approx(150 * 100 / 1e6)


OPTIONS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("/v1/messages", {"speed": "fast"}, {}),
    ("/v1/messages", {"service_tier": "priority"}, {}),
    ("/v1/messages", {"inference_geo": "us"}, {}),
    ("/v1/messages", {"system": [{"type": "text", "text": "x", "cache_control": {"ttl": "1h"}}]}, {}),
    ("/v1/messages", {"tools": [{"name": "a", "input_schema": {}, "cache_control": {"ttl": "1h"}}]}, {}),
    ("/v1/messages", {}, {"anthropic-beta": "files-api-2025-04-14, context-1m-2025-08-07"}),
    ("/v1/messages", {}, {"anthropic-beta": "Context-1M-2025-08-07"}),
    ("/v1/messages", {"betas": ["context-1m-2025-08-07"]}, {}),
    (
        "/v1/responses",
        {"input": [{"content": [{"type": "input_text", "text": "x", "cache_control": {"ttl": "1h"}}]}]},
        {},
    ),
    ("/v1/chat/completions", {"modalities": ["text", "image"]}, {}),
    ("/v1/chat/completions", {"service_tier": "priority"}, {}),
    ("/v1/responses", {"background": True}, {}),
]


@pytest.mark.parametrize(("path", "options", "headers"), OPTIONS, ids=lambda each: str(each)[:40])
def test_what_changes_the_price_is_refused_without_one(
    broker: Running, provider: StandIn, path: str, options: dict[str, Any], headers: dict[str, str]
):
    model = "claude-priced" if path == "/v1/messages" else "gpt-5"
    used = service(provider.url, paths=(f"POST {path}",), budget=Budget(dollars=1))
    before = len(provider.seen)
    refused = broker.ask(used, path=path, body={"model": model, **options}, headers=headers)
    assert (refused.status, len(provider.seen)) == (403, before)
    assert broker.ask(used, path=path, body={"model": model}).status == 200
    unbounded = service(provider.url, paths=(f"POST {path}",))
    assert broker.ask(unbounded, path=path, body={"model": model, **options}, headers=headers).status == 200


@pytest.mark.parametrize(
    ("options", "headers", "price"),
    [
        ({}, {}, (3, 15)),
        ({"service_tier": "standard_only", "speed": "standard"}, {}, (3, 15)),
        ({"speed": "fast"}, {}, (30, 150)),
        ({}, {"anthropic-beta": "context-1m-2025-08-07"}, (6, 22.5)),
    ],
    ids=str,
)
def test_an_option_has_the_price_that_the_file_gives_it(
    broker: Running,
    provider: StandIn,
    options: dict[str, Any],
    headers: dict[str, str],
    price: tuple[float, float],
):
    usage = {"input_tokens": 100, "output_tokens": 50}
    provider.pages["/v1/messages"] = answering({"model": "claude-options", "usage": usage})
    used, sandbox = service(provider.url, budget=Budget(dollars=1)), f"{options}{headers}"
    assert broker.ask(used, body={"model": "claude-options", **options}, headers=headers, sandbox=sandbox).status == 200
    assert spent(broker, sandbox)["dollars"] == pytest.approx((100 * price[0] + 50 * price[1]) / 1e6)


@pytest.mark.parametrize("background", [[], {}, "yes"], ids=repr)
def test_no_value_sends_a_request_to_the_background(broker: Running, provider: StandIn, background: Any):
    used, before = service(provider.url, "openai", budget=Budget(output_tokens=1000)), len(provider.seen)
    answer = broker.ask(used, path="/v1/responses", body={"model": "m", "background": background})
    assert (answer.status, len(provider.seen)) == (403, before)


def test_a_client_that_leaves_before_the_answer_has_used_tokens(broker: Running, provider: StandIn):
    """The provider has the request, and answers it, whether or not anybody reads that."""

    async def silent(call: Call) -> None:
        await call.reader.read(1)

    provider.pages["/v1/messages"] = silent
    used = service(provider.url, budget=Budget(input_tokens=5000, output_tokens=2500))
    body = json.dumps({"model": "claude-priced", "max_tokens": 1000, "system": "x" * 4000})
    for asked in range(1, 4):
        seen = len(provider.seen)
        client = broker.client(used, "leaves early")
        client.request("POST", "/v1/messages", body)
        assert provider.wait(lambda seen=seen: len(provider.seen) > seen)  # type: ignore[misc]
        client.close()
        event = broker.event(sandbox="leaves early")
        assert (event["status"], event["output_tokens"], event["used"]["output_tokens"]) == (499, 1000, asked * 1000)
        assert 1000 <= event["input_tokens"] <= 1100
    before = len(provider.seen)
    assert broker.ask(used, body=body, sandbox="leaves early").status == 429
    assert len(provider.seen) == before


def test_a_body_that_is_not_read_says_its_size(broker: Running, provider: StandIn):
    """Otherwise a hundred such requests are sent at the same time."""
    body = {"input": "x" * 4000}
    used, before = service(provider.url, "openai", budget=Budget(input_tokens=10)), len(provider.seen)
    for sent, status in ((iter([json.dumps(body).encode()]), 411), (body, 200)):  # an iterator is sent in chunks
        assert broker.ask(used, path="/v1/embeddings", body=sent).status == status
    assert len(provider.seen) == before + 1


@pytest.mark.parametrize(
    ("name", "path", "bounds", "tokens"),
    [
        ("openai", "/v1/chat/completions", {"max_tokens": 1000, "n": 8}, 8000),
        ("openai", "/v1/chat/completions", {"max_tokens": 1000, "n": 10**60}, 128_000),
        ("openai", "/v1/chat/completions", {"max_completion_tokens": 9000.0}, 9000),
        ("openai", "/v1/chat/completions", {"max_tokens": 1, "max_completion_tokens": "9000"}, 9000),
        ("openai", "/v1/chat/completions", {"max_tokens": -5, "n": -5}, 4096),
        ("gemini", "/v1beta/models/m:generateContent", {"generationConfig": {"maxOutputTokens": "9000"}}, 9000),
        ("gemini", "/v1beta/models/m:generateContent", {"generation_config": {"candidate_count": 2}}, 8192),
    ],
    ids=str,
)
def test_the_bound_of_an_answer_is_that_which_a_provider_reads(
    broker: Running, provider: StandIn, name: str, path: str, bounds: dict[str, Any], tokens: int
):
    async def breaking(call: Call) -> None:
        call.writer.transport.abort()

    provider.pages[path] = breaking
    used, sandbox = service(provider.url, name, budget=Budget(output_tokens=10**9)), f"bounds {bounds}"
    assert broker.ask(used, path=path, body={"model": "m", **bounds}, sandbox=sandbox).status == 502
    assert broker.event(sandbox=sandbox)["output_tokens"] == tokens


def test_requests_under_way_are_reserved_against_the_budget(broker: Running, provider: StandIn):
    """So that a hundred requests at the same time do not use a hundred times what is left."""

    async def silent(call: Call) -> None:
        await call.reader.read(1)

    provider.pages["/v1/messages"] = silent
    used = service(provider.url, budget=Budget(output_tokens=3000))
    body = {"model": "claude-priced", "max_tokens": 2000}
    with ExitStack() as clients:
        for _ in range(2):
            seen = len(provider.seen)
            client = clients.enter_context(closing(broker.client(used, "reserving")))
            client.request("POST", "/v1/messages", json.dumps(body))
            assert provider.wait(lambda seen=seen: len(provider.seen) > seen)  # type: ignore[misc]
        refused = broker.ask(used, body=body, sandbox="reserving")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "requests under way" in refused.json["error"]["message"]
        assert broker.ask(service(provider.url), "GET", "/v1/models", sandbox="reserving").status == 200


def test_a_group_uses_its_budget_together(broker: Running, provider: StandIn):
    used = service(provider.url, shared=SharedBudget("team", Budget(requests=2)))
    assert [broker.ask(used, body="{}", sandbox=each).status for each in ("t1", "t2", "t3")] == [200, 200, 429]
    assert broker.ask(service(provider.url), body="{}", sandbox="t3").status == 200


@pytest.fixture
def sharing(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    """Starts brokers, each with a place of its own and the same groups."""
    (tmp_path / GROUPS).mkdir()
    with ExitStack() as stack:

        def start(name: str) -> Running:
            (tmp_path / name / "state").mkdir(parents=True)
            (tmp_path / name / "state" / GROUPS).symlink_to(tmp_path / GROUPS)
            running = Running(tmp_path / name, environ)
            stack.callback(running.stop)
            return running

        yield start


def test_brokers_that_share_a_group_use_its_budget_together(
    sharing: Callable[[str], Running], provider: StandIn, tmp_path: Path
):
    used = service(provider.url, shared=SharedBudget("team", Budget(requests=10)))
    brokers = [sharing("one"), sharing("two")]
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(brokers[number % 2].ask, used, body="{}") for number in range(20)]
    assert sorted(each.result().status for each in asked) == [200] * 10 + [429] * 10
    brokers[0].process.kill()
    brokers[1].process.terminate()
    (tmp_path / GROUPS / "team.json.new").write_text('{"requ')  # as a broker leaves it that is killed there
    later = sharing("three")
    assert later.ask(used, body="{}").json["error"]["message"].startswith("Belljar: the budget is used up: the")
    assert later.ask(used._replace(shared=SharedBudget("other", Budget(requests=1))), body="{}").status == 200
    sums = json.loads((tmp_path / GROUPS / "team.json").read_text())
    assert (sums["requests"], sums["input_tokens"], sums["output_tokens"]) == (10, 1250, 500)


def test_a_request_is_let_through_and_counted_before_another_broker_may_do_so(
    sharing: Callable[[str], Running], provider: StandIn, tmp_path: Path
):
    used = service(provider.url, shared=SharedBudget("team", Budget(requests=1)))
    broker, before = sharing("one"), len(provider.seen)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / GROUPS).symlink_to(tmp_path / GROUPS)
    with ThreadPoolExecutor(1) as pool, closing(SharedLedger(tmp_path / "here")) as ours:
        with ours.held():
            asked = pool.submit(broker.ask, used, body="{}")
            waiting = re.compile(rf"-> FLOCK +ADVISORY +WRITE +{broker.process.pid} ")
            while not waiting.search(Path("/proc/locks").read_text()):
                assert not asked.done()
            ours.add(("group", "team"), Amounts(requests=1))
        assert asked.result().status == 429
    assert len(provider.seen) == before


@pytest.mark.parametrize("text", ["", "[]", '{"requests": "none"}', '{"requests": NaN}'])
def test_sums_of_a_group_that_cannot_be_read_let_nothing_through(
    sharing: Callable[[str], Running], provider: StandIn, tmp_path: Path, text: str
):
    (tmp_path / GROUPS / "team.json").write_text(text)
    answer = sharing("one").ask(service(provider.url, shared=SharedBudget("team", Budget(requests=1))), body="{}")
    assert answer.status == 503
    assert f"{GROUPS}/team.json is damaged; remove it to begin anew" in answer.json["error"]["message"]


def test_requests_at_once_are_bounded(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.stream()
        await call.chunk(b"data: {}\n\n")
        await call.reader.read(1)

    provider.pages["/v1/messages"] = page
    used = service(provider.url, budget=Budget(at_once=1))
    client = broker.client(used, "at-once")
    client.request("POST", "/v1/messages", "{}")
    response = client.getresponse()
    assert response.read1(100)
    refused = broker.ask(used, body="{}", sandbox="at-once")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    response.close()
    client.close()
    broker.event(sandbox="at-once", status=200)
    provider.pages["/v1/messages"] = answering({})
    assert broker.ask(used, body="{}", sandbox="at-once").status == 200


CHUNKS = (
    {"model": "gpt-5", "choices": [{"delta": {"content": "a"}}]},
    {"model": "gpt-5", "choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 7}},
)


def test_a_stream_of_chat_is_asked_for_its_usage(broker: Running, provider: StandIn):
    provider.pages["/v1/chat/completions"] = streaming(*CHUNKS)
    used = service(provider.url, "openai", budget=Budget(output_tokens=100))
    body = '{"model": "gpt-5", "stream": true} '
    answer = broker.ask(used, path="/v1/chat/completions", body=body, sandbox="chat")
    assert json.loads(provider.seen[-1].body) == {
        "model": "gpt-5",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert b"prompt_tokens" not in answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert spent(broker, "chat")["output_tokens"] == 7


@pytest.mark.parametrize("options", [{"stream_options": {"include_usage": True}}, {"stream": False}])
def test_who_asks_for_usage_has_it(broker: Running, provider: StandIn, options: dict[str, Any]):
    provider.pages["/v1/chat/completions"] = streaming(*CHUNKS)
    used = service(provider.url, "openai", budget=Budget(output_tokens=100))
    body = {"stream": True, **options}
    answer = broker.ask(used, path="/v1/chat/completions", body=body)
    assert json.loads(provider.seen[-1].body) == body
    assert b"prompt_tokens" in answer.body


def test_who_forbids_usage_is_refused_where_there_is_a_budget(broker: Running, provider: StandIn):
    used = service(provider.url, "openai", budget=Budget(output_tokens=100))
    before = len(provider.seen)
    body: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": False}}
    for refused in (body, {**body, "stream_options": None}):  # a second key would have to be added beside null
        assert broker.ask(used, path="/v1/chat/completions", body=refused).status == 403
    assert len(provider.seen) == before
    assert broker.ask(service(provider.url, "openai"), path="/v1/chat/completions", body=body).status == 200


def test_an_encoded_answer_cannot_be_counted(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.answer(b"\x1f\x8b", headers="content-encoding: gzip\r\n")

    provider.pages["/v1/messages"] = page
    answer = broker.ask(service(provider.url, budget=Budget(output_tokens=9)), body="{}")
    assert answer.status == 502


@pytest.mark.parametrize("stream", [1, "true", "on"], ids=repr)
def test_a_stream_that_only_some_take_for_one_is_refused(broker: Running, provider: StandIn, stream: Any):
    """Lenient servers would stream, and tell nothing of tokens."""
    before = len(provider.raw)
    used = service(provider.url, "openai", budget=Budget(output_tokens=9))
    answer = broker.ask(used, path="/v1/chat/completions", body={"stream": stream})
    assert (answer.status, len(provider.raw)) == (400, before)
    assert broker.ask(used, path="/v1/chat/completions", body={"stream": False}).status == 200


def test_an_answer_is_not_asked_to_leave_its_usage_out(broker: Running, provider: StandIn):
    query = "fields=candidates&alt=sse&%66ields=x&alt=proto&alt=json"
    path = "/v1beta/models/gemini-3:generateContent"
    masks = {"x-goog-fieldmask": "candidates", "X_Goog_FieldMask": "candidates"}
    broker.ask(service(provider.url, "gemini"), path=f"{path}?{query}", body="{}", headers=masks)
    assert provider.seen[-1].target == f"{path}?alt=sse&alt=json"
    assert "candidates" not in str(provider.seen[-1].headers)


def test_an_answer_in_a_form_that_cannot_be_counted_is_not_passed_on(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.answer(b"\x0a\x04BLOB", kind="application/x-protobuf")

    provider.pages["/v1/messages"] = page
    assert broker.ask(service(provider.url), body="{}").status == 200
    answer = broker.ask(service(provider.url, budget=Budget(output_tokens=9)), body="{}")
    assert (answer.status, b"BLOB" in answer.body) == (502, False)


def test_a_model_to_fall_back_to_has_no_other_price(broker: Running, provider: StandIn):
    before = len(provider.raw)
    used = service(provider.url, "openai", budget=Budget(dollars=1))
    body = {"model": "gpt-cheap", "models": ["dear"]}
    answer = broker.ask(used, path="/v1/chat/completions", body=body)
    assert (answer.status, len(provider.raw)) == (403, before)
    assert broker.ask(used, path="/v1/chat/completions", body={"model": "gpt-cheap"}).status == 200


@pytest.mark.parametrize("leaves", [True, False])
def test_a_stream_that_tells_nothing_counts_what_was_asked(broker: Running, provider: StandIn, leaves: bool):
    """A client may leave with the answer, just before it would be told what that took."""

    async def page(call: Call) -> None:
        await call.stream()
        for _ in range(60):
            await call.event({"choices": [{"delta": {"content": "x"}}]})
        if leaves:
            await call.reader.read()
        await call.chunk(b"")

    provider.pages["/v1/chat/completions"] = page
    sandbox = f"leaving {leaves}"
    used = service(provider.url, "openai", budget=Budget(input_tokens=1000))
    client = broker.client(used, sandbox)
    client.request("POST", "/v1/chat/completions", json.dumps({"stream": True, "user": "x" * 4000}))
    response = client.getresponse()
    while b"x" not in response.readline():
        pass
    if not leaves:
        response.read()
    response.close()
    client.close()
    event = broker.event(sandbox=sandbox)
    assert 1000 <= event["input_tokens"] <= 1100
    assert event["output_tokens"] >= 1
    assert broker.ask(used, path="/v1/chat/completions", body="{}", sandbox=sandbox).status == 429


def test_a_stream_that_is_cut_off_counts_what_was_seen(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.stream()
        await call.event({"type": "message_start", "message": {"usage": USAGE}})
        for _ in range(60):
            await call.event({"type": "content_block_delta"})
        for text in ("four" * 50, "many" * 1000):
            await call.event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}})
        call.writer.transport.abort()

    provider.pages["/v1/messages"] = page
    client = broker.client(service(provider.url), "cut")
    client.request("POST", "/v1/messages", "{}")
    with pytest.raises(Exception, match=r"IncompleteRead|0 bytes"):
        answer_of(client)
    client.close()
    event = broker.event(sandbox="cut")
    assert (event["status"], event["refused"]) == (200, "cut.off")
    assert event["input_tokens"] == 125
    assert 61 + 50 + 1000 <= event["output_tokens"] <= 61 + 50 + 1100


def test_a_killed_broker_resets_no_budget(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    async def page(call: Call) -> None:
        await call.stream()
        await call.event({"type": "message_start", "message": {"usage": USAGE}})
        await call.reader.read(1)

    used = service(provider.url, budget=Budget(requests=2))
    first = Running(tmp_path, environ)
    assert first.ask(used, body="{}", sandbox="s").status == 200
    provider.pages["/v1/messages"] = page
    client = first.client(used, "s")
    client.request("POST", "/v1/messages", "{}")
    assert client.getresponse().read1(100)
    first.stop(kill=True)
    client.close()
    with (first.state / NAME).open("ab") as ledger:
        ledger.write(b'{"key":["sandbox","s"')  # as a crash would leave it
    second = Running(tmp_path, environ)
    try:
        told = second.event(event="used", sandbox="s", service="anthropic")["used"]
        assert (told["requests"], told["input_tokens"], told["output_tokens"]) == (2, 250, 100)
        assert second.ask(used, body="{}", sandbox="s").status == 429
        assert (first.state / NAME).read_bytes().count(b"\n") == 1
    finally:
        second.stop()


def test_what_cannot_be_written_down_is_not_let_through(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    running = Running(tmp_path, environ)
    try:
        assert running.ask(service(provider.url), body="{}", sandbox="s").status == 200
        before = len(provider.seen)
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (1, 1))  # as a full disk
        assert running.ask(service(provider.url), body="{}", sandbox="s").status == 503
        assert len(provider.seen) == before
    finally:
        running.stop()


def test_a_ledger_that_cannot_be_written_anew_writes_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("belljar.broker.spending.ledger._LINES_BETWEEN", 2)
    ledger = SpendingLedger(tmp_path)
    (tmp_path / "budgets.new").mkdir()
    key = ("sandbox", "a", "b")
    for _ in range(3):
        ledger.add(key, Amounts(requests=1))
    with pytest.raises(OSError, match="directory"):
        ledger.add(key, Amounts(requests=1))
    with (tmp_path / "of another").open("wb") as next_file, suppress(OSError):
        ledger.add(key, Amounts(requests=1))
        assert os.fstat(next_file.fileno()).st_size == 0
    assert (tmp_path / "of another").read_bytes() == b""
    (tmp_path / "budgets.new").rmdir()
    ledger.close()
    again = SpendingLedger(tmp_path)
    assert again.used(key) == Amounts(requests=5)
    again.close()


@pytest.mark.parametrize("name", ["budgets.new", "budgets.lock"])
def test_a_ledger_follows_no_link(tmp_path: Path, name: str):
    (tmp_path / "of another").write_text("kept")
    state = tmp_path / "state"
    state.mkdir()
    (state / name).symlink_to(tmp_path / "of another")
    with pytest.raises(OSError, match="symbolic"):
        SpendingLedger(state)
    assert (tmp_path / "of another").read_text() == "kept"


def test_a_long_ledger_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("belljar.broker.spending.ledger._LINES_BETWEEN", 10)
    ledger = SpendingLedger(tmp_path)
    for _ in range(100):
        ledger.add(("sandbox", "a", "b"), Amounts(requests=1, dollars=0.5))
    assert len((tmp_path / NAME).read_text().splitlines()) <= 12
    ledger.close()
    again = SpendingLedger(tmp_path)
    assert again.used(("sandbox", "a", "b")) == Amounts(requests=100, dollars=50)
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0
    again.close()


def test_a_busy_provider_is_left_alone_by_all(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.answer(b'{"error": "busy"}', 529, "retry-after: 300\r\n")

    used = service(provider.url, header=(("x-api-key", "busy-key"),))
    provider.pages["/v1/messages"] = page
    body = {"model": "busy"}
    first = broker.ask(used, body=body, sandbox="b1", refuse_tools=True)
    assert (first.status, first.headers["retry-after"]) == (529, "300")
    before = len(provider.seen)
    second = broker.ask(used, body=body, sandbox="b2", refuse_tools=True)
    assert second.status == 429
    seconds = second.headers["retry-after"]
    assert 0 < int(seconds) <= 61, "a provider does not keep all sandboxes waiting for longer"
    assert f"ask again in {seconds} s" in second.json["error"]["message"]
    assert len(provider.seen) == before
    provider.pages["/v1/messages"] = answering({})
    assert broker.ask(used, body={"model": "idle"}, sandbox="b2", refuse_tools=True).status == 200
    assert broker.ask(service(provider.url), body=body, sandbox="b2", refuse_tools=True).status == 200
