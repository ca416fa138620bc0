"""What a provider may not be asked for by a sandbox that has no network."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.broker.dialects import ApiDialect
from belljar.broker.refusals import RefusedRequest
from belljar.broker.tools.judging import judge
from tests.broker.running import Running, service
from tests.broker.standin import Call, StandIn

A, C, R, G = ApiDialect.ANTHROPIC, ApiDialect.CHAT, ApiDialect.RESPONSES, ApiDialect.GEMINI
PNG = "data:image/png;base64,AAAA"


def tools(*types: str) -> dict[str, Any]:
    return {"tools": [{"type": each, "name": "x"} for each in types]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def given_input(*items: Any) -> dict[str, Any]:
    return {"input": list(items)}


def parts(*each: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(each)}]}


def image(**source: str) -> dict[str, Any]:
    return {"type": "image", "source": source}


REFUSED: list[tuple[ApiDialect, dict[str, Any]]] = [
    (A, tools("web_search_20250305")),
    (A, tools("web_search_20270101")),
    (A, tools("web_fetch_20250910")),
    (A, tools("code_execution_20250825")),
    (A, tools("bash_20250124", "web_search_20250305")),
    (A, tools("mcp_toolset")),
    (A, tools("advisor_of_tomorrow")),
    (A, tools("bash")),
    (A, {"mcp_servers": []}),
    (A, {"container": "c"}),
    (A, {"something_new": 1}),
    (A, {"model": "anthropic/claude:online"}),
    (A, user(image(type="url", url="https://leak.test/"))),
    (A, user(image(type="file", file_id="f"))),
    (A, user({"type": "document", "source": {"type": "url", "url": "https://leak.test/"}})),
    (A, user({"type": "tool_result", "content": [image(type="url", url="https://leak.test/")]})),
    (
        A,
        user(
            {
                "type": "document",
                "source": {"type": "content", "content": [image(type="url", url="https://leak.test/")]},
            }
        ),
    ),
    (A, user({"type": "container_upload", "file_id": "f"})),
    (A, user({"type": "server_tool_use", "name": "web_search"})),
    (A, user({"type": "mcp_tool_use", "name": "x"})),
    (A, {"system": [image(type="url", url="https://leak.test/")]}),
    (R, tools("web_search")),
    (R, tools("web_search_preview")),
    (R, tools("web_search_preview_2025_03_11")),
    (R, tools("file_search")),
    (R, tools("code_interpreter")),
    (R, tools("image_generation")),
    (R, tools("mcp")),
    (R, {"tools": [{"type": "mcp", "connector_id": "connector_gmail"}]}),
    (R, {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}),
    (R, {"tools": [{"type": "shell"}]}),
    (R, {"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}),
    (R, {"background": True}),
    (R, {"prompt": {"id": "pmpt_1"}}),
    (R, {"conversation": "conv_1"}),
    (R, {"model": "o3-deep-research"}),
    (R, given_input({"role": "user", "content": [{"type": "input_image", "image_url": "https://leak.test/"}]})),
    (R, given_input({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]})),
    (R, given_input({"role": "user", "content": [{"type": "input_file", "file_url": "https://leak.test/"}]})),
    (R, given_input({"type": "web_search_call"})),
    (R, given_input({"type": "mcp_approval_response"})),
    (R, given_input({"type": "tool_search_output", "tools": [{"type": "mcp"}]})),
    (R, given_input({"type": "additional_tools", "tools": [{"type": "web_search"}]})),
    (R, given_input({"type": "additional_tools", "tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]})),
    (
        R,
        given_input(
            {"type": "function_call_output", "output": [{"type": "input_image", "image_url": "https://leak.test/"}]}
        ),
    ),
    (
        R,
        given_input(
            {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "http://leak.test"}}
        ),
    ),
    (C, {"web_search_options": {}}),
    (C, {"plugins": [{"id": "web"}]}),
    (C, {"model": "gpt-4o-search-preview"}),
    (C, {"model": "openai/gpt-4o:online"}),
    (C, {"model": "perplexity/sonar-pro"}),
    (C, {"model": "perplexity/llama-3.1-sonar-large-128k-online"}),
    (C, {"model": "perplexity/llama-3-sonar-small-32k-chat"}),
    (C, {"model": "openrouter/auto"}),
    (C, {"models": ["a", "b:online"]}),
    (C, {"model": "@preset/mine"}),
    (C, {"model": "openai/gpt-5@preset/mine"}),
    (C, {"model": "A\n:ONLINE"}),
    (C, tools("web_search")),
    (C, tools("openrouter:web_search")),
    (C, user({"type": "image_url", "image_url": {"url": "https://leak.test/"}})),
    (C, user({"type": "image_url", "image_url": "HTTPS://leak.test/"})),
    (C, user({"type": "video_url", "video_url": {"url": "https://leak.test/"}})),
    (C, user({"type": "file", "file": {"file_id": "f"}})),
    (C, user({"type": "file", "file": {"file_data": "https://leak.test/a.pdf"}})),
    (C, user({"type": "file", "file": {"file_data": " https://leak.test/a.pdf"}})),
    (C, user({"type": "file", "file": {"file_data": "gs://leak/a.pdf"}})),
    (C, user({"type": "file", "file_data": "AAAA", "file": {"file_data": "https://leak.test/a.pdf"}})),
    (C, user({"type": "input_audio", "input_audio": {"data": "https://leak.test/a.mp3"}})),
    (C, user({"type": "text", "text": "x", "Type": "image_url", "Image_URL": {"url": "https://leak.test/"}})),
    (C, user({"type": "image_url", "image_url": {"url": PNG, "URL": "https://leak.test/"}})),
    (C, {"tools": [{"type": "function", "TYPE": "web_search"}]}),
    (C, {"model": " perplexity/sonar "}),
    (A, {"tools": [{"Type": "web_search_20250305"}]}),
    (A, user({"type": "image", "source": {"type": "base64", "data": "", "Type": "url", "Url": "https://leak.test/"}})),
    (A, user({"type": "image", "source": {"type": "base64"}, "\u017fource": {"type": "url"}})),
    (A, {"messages": [{"content": "x", "Content": [image(type="url", url="https://leak.test/")]}]}),
    (R, given_input({"type": "function_call_output", "output": [{"image_url": "https://leak.test/"}]})),
    (R, given_input({"type": "shell_call_output", "output": [{"stdout": "", "image_url": "https://leak.test/"}]})),
    (
        R,
        given_input(
            {"type": "function_call_output", "output": {"type": "input_image", "image_url": "https://leak.test/"}}
        ),
    ),
    # Below the top: wherever a URL or a tool can hide.
    (A, {"messages": [{"role": "user", "content": "x", "container": "c"}]}),
    (A, {"tools": [{"name": "x", "server_url": "https://leak.test/"}]}),
    (A, {"tools": [{"name": "x", "input_schema": {"properties": {"a": {"$ref": "https://leak.test/"}}}}]}),
    (A, {"tool_choice": {"type": "auto", "mcp_server": "x"}}),
    (A, {"context_management": {"edits": [{"type": "fetch", "url": "x"}]}}),
    (A, {"thinking": {"type": "enabled", "webhookUrl": "x"}}),
    (A, user({"type": "text", "text": "x", "source": {"type": "url", "url": "https://leak.test/"}})),
    (A, user({"type": "document", "source": {"type": "text", "data": "x", "url": "https://leak.test/"}})),
    (A, user({"type": "search_result", "source": {"url": "https://leak.test/"}})),
    (C, {"messages": [{"role": "assistant", "images": [{"type": "image_url", "image_url": "https://leak.test/"}]}]}),
    (C, {"messages": [{"role": "assistant", "content": [{"type": "image_url", "image_url": "https://leak.test/"}]}]}),
    (C, {"messages": [{"role": "assistant", "annotations": [{"url_citation": {"url": "https://leak.test/"}}]}]}),
    (C, {"messages": [{"role": "assistant", "audio": {"id": "of-another"}}]}),
    (C, {"messages": [{"role": "tool", "content": "x", "plugins": [{"id": "web"}]}]}),
    (C, {"provider": {"order": ["x"], "plugins": [{"id": "web"}]}}),
    (C, {"provider": {"order": [{"url": "https://leak.test/"}]}}),
    (C, {"tools": [{"type": "function", "function": {"name": "x"}, "server_url": "https://leak.test/"}]}),
    (C, {"tools": [{"type": "function", "function": {"name": "x", "endpoint": "https://leak.test/"}}]}),
    (C, {"reasoning": {"effort": "high", "plugins": []}}),
    (C, {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "https://leak.test/"}}}}),
    (C, {"prediction": {"content": [{"type": "image_url", "image_url": "https://leak.test/"}]}}),
    (C, {"user": {"url": "https://leak.test/"}}),
    (R, {"tools": [{"type": "function", "name": "x", "server_url": "https://leak.test/"}]}),
    (R, {"tools": [{"type": "shell", "environment": {"type": "local", "skills": [{"url": "https://leak.test/"}]}}]}),
    (R, {"text": {"format": {"type": "json_schema", "schema": {"$dynamicRef": "https://leak.test/"}}}}),
    (R, {"reasoning": {"effort": "high", "mcp": {}}}),
    (R, given_input({"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": [{}]}]})),
    (R, given_input({"type": "function_call", "name": "x", "arguments": "{}", "server_url": "https://leak.test/"})),
    (R, given_input({"type": "reasoning", "summary": [{"type": "input_image", "image_url": "https://leak.test/"}]})),
    (G, {"generationConfig": {"temperature": 1, "tools": [{"googleSearch": {}}]}}),
    (G, {"generation_config": {"speech_config": {"voice": {"file_uri": "x"}}}}),
    (G, {"generationConfig": {"responseSchema": {"$ref": "https://leak.test/"}}}),
    (G, {"toolConfig": {"googleSearch": {}}}),
    (G, {"tools": [{"functionDeclarations": [{"name": "x", "serverUrl": "https://leak.test/"}]}]}),
    (G, parts({"text": "x", "fileUri": "https://leak.test/"})),
    (G, parts({"inlineData": {"mimeType": "text/plain", "fileUri": "https://leak.test/"}})),
    (G, {"Tools": [{"googleSearch": {}}], "tools": []}),
    (G, {"contents": [{"Parts": [{"fileData": {}}], "parts": []}]}),
    (G, {"tools": [{"googleSearch": {}}]}),
    (G, {"tools": [{"google_search": {}}]}),
    (G, {"tools": [{"urlContext": {}}]}),
    (G, {"tools": [{"codeExecution": {}}]}),
    (G, {"tools": [{"googleMaps": {}}]}),
    (G, {"tools": [{"fileSearch": {}}]}),
    (G, {"tools": [{"retrieval": {}}]}),
    (G, {"tools": [{"functionDeclarations": [], "googleSearchRetrieval": {}}]}),
    (G, {"tools": {"googleSearch": {}}}),
    (G, {"cachedContent": "cachedContents/1"}),
    (G, parts({"fileData": {"fileUri": "https://youtube.test/"}})),
    (G, parts({"file_data": {"file_uri": "https://youtube.test/"}})),
    (G, parts({"functionResponse": {"parts": [{"fileData": {"fileUri": "x"}}]}})),
    (G, {"contents": {"parts": {"fileData": {}}}}),
    (G, {"generateContentRequest": {"tools": [{"googleSearch": {}}]}}),
    (G, {"systemInstruction": {}, "system_instruction": {"parts": [{"fileData": {}}]}}),
]

SCHEMA = {
    "type": "object",
    "$schema": "http://json-schema.org/draft-07/schema#",
    "properties": {"url": {"$ref": "#/a"}},
}

ALLOWED: list[tuple[ApiDialect, dict[str, Any]]] = [
    (A, {"tools": [{"name": "x", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}),
    (A, {"context_management": {"edits": [{"type": "clear_tool_uses", "exclude_tools": ["web_search"]}]}}),
    (A, {"metadata": {"user_id": "https://x.test"}, "output_config": {"effort": "high"}}),
    (C, {"tools": [{"type": "function", "function": {"name": "x", "parameters": SCHEMA, "strict": True}}]}),
    (C, {"tool_choice": {"type": "function", "function": {"name": "web_search"}}, "provider": {"order": ["x"]}}),
    (C, {"messages": [{"role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None}]}),
    (C, {"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"arguments": '{"url": "x"}'}}]}]}),
    (R, {"reasoning": {"effort": "high", "summary": "auto"}, "text": {"verbosity": "low"}, "tool_choice": "auto"}),
    (R, {"tools": [{"type": "function", "name": "x", "parameters": SCHEMA, "strict": False}]}),
    (R, given_input({"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]})),
    (G, {"generationConfig": {"temperature": 1, "thinkingConfig": {"thinkingBudget": 1}, "responseSchema": SCHEMA}}),
    (G, {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["googleSearch"]}}}),
    (A, tools("custom", "bash_20250124", "text_editor_20250728", "computer_20250124", "memory_20250818")),
    (A, {"tools": [{"name": "x", "input_schema": {"type": "web_search_20250305"}}]}),
    (A, {"tools": [{"type": None, "name": "x"}]}),
    (A, tools("tool_search_tool_regex_20251119")),
    (A, user({"type": "text", "text": "web_search https://x.test"}, image(type="base64", data="AAAA"))),
    (A, user({"type": "tool_use", "input": {"source": {"type": "url", "url": "https://x.test"}}})),
    (A, user({"type": "server_tool_use", "name": "tool_search_tool_regex"}, {"type": "tool_search_tool_result"})),
    (A, {"system": [{"type": "text", "text": "x"}], "thinking": {"type": "adaptive"}, "stream": True}),
    (R, tools("function", "custom", "local_shell", "apply_patch")),
    (R, {"tools": [{"type": "shell", "environment": {"type": "local"}}]}),
    (R, {"tools": [{"type": "namespace", "tools": [{"type": "function"}]}]}),
    (R, given_input({"type": "additional_tools", "tools": [{"type": "namespace", "tools": [{"type": "custom"}]}]})),
    (R, {"input": "look at https://x.test", "store": False, "include": ["reasoning.encrypted_content"]}),
    (R, given_input({"role": "user", "content": [{"type": "input_image", "image_url": PNG}]})),
    (R, given_input({"type": "function_call_output", "output": "https://x.test"}, {"type": "reasoning"})),
    (R, given_input({"type": "shell_call_output", "output": [{"stdout": "x"}]})),
    (R, given_input({"type": "function_call_output", "output": [{"type": "input_text", "text": "x"}]})),
    (C, user({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "file_id": None}})),
    (C, user({"type": "file", "file": {"file_data": "AAAA"}}, {"type": "input_audio", "input_audio": {"data": "AA"}})),
    (C, {**tools("function"), "model": "gpt-5", "stream_options": {"include_usage": True}}),
    (C, user({"type": "image_url", "image_url": {"url": PNG}}, {"type": "text", "text": "x"})),
    (C, {"messages": [{"role": "user", "content": "x"}], "models": ["a", "b"], "model": "research-model"}),
    (G, {"tools": [{"functionDeclarations": [{"name": "googleSearch"}]}], "toolConfig": {}}),
    (G, {"tools": [{"function_declarations": []}], "generation_config": {}, "system_instruction": {"parts": []}}),
    (G, parts({"text": "x"}, {"inlineData": {}}, {"functionResponse": {"response": {"fileData": 1}}})),
]
PATHS = {
    A: ("anthropic", "/v1/messages"),
    C: ("openai", "/v1/chat/completions"),
    R: ("openai", "/v1/responses"),
    G: ("gemini", "/v1beta/models/gemini-3:generateContent"),
}


def _name(case: Any) -> str:
    return case.value if isinstance(case, ApiDialect) else json.dumps(case)[:60]


@pytest.mark.parametrize(("dialect", "request_data"), REFUSED, ids=_name)
def test_what_reaches_for_the_network_is_refused(dialect: ApiDialect, request_data: dict[str, Any]):
    with pytest.raises(RefusedRequest) as refusal:
        judge(dialect, request_data)
    assert refusal.value.code == "server_tools"


@pytest.mark.parametrize(("dialect", "request_data"), ALLOWED, ids=_name)
def test_what_stays_between_client_and_model_is_not(dialect: ApiDialect, request_data: dict[str, Any]):
    judge(dialect, request_data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "tools",
                    "messages",
                    "content",
                    "input",
                    "source",
                    "parts",
                    "contents",
                    "models",
                    "output",
                    "file",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=30)
@given(
    st.sampled_from([A, C, R, G]), st.dictionaries(st.sampled_from(["tools", "messages", "input", "contents"]), JSON)
)
def test_whatever_it_is_there_is_an_answer(dialect: ApiDialect, request_data: dict[str, Any]):
    try:
        judge(dialect, request_data)
    except RefusedRequest as refusal:
        assert refusal.status in {400, 403}


def test_the_provider_sees_nothing_of_what_is_refused(broker: Running, provider: StandIn):
    before = len(provider.raw)
    for dialect, request_data in REFUSED:
        name, path = PATHS[dialect]
        answer = broker.ask(service(provider.url, name), path=path, body=request_data, refuse_tools=True)
        assert answer.status == 403, request_data
        message = answer.json["error"]["message"]
        assert "Retrying is no use" in message
    assert len(provider.raw) == before
    for dialect, request_data in ALLOWED:
        name, path = PATHS[dialect]
        body = json.dumps(request_data).replace(" ", "  ")
        assert broker.ask(service(provider.url, name), path=path, body=body, refuse_tools=True).status == 200
        assert provider.seen[-1].body.decode() == body  # as it was judged, byte by byte


async def _streamed(call: Call) -> None:
    await call.stream()
    await call.event({"type": "response.created", "response": {"id": "resp_1", "model": "m"}})
    await call.event({"type": "response.output_item.done", "item": {"type": "message", "id": "msg_1"}})
    await call.chunk(b"")


STORED = {
    "one answer": lambda call: call.answer(b'{"id": "resp_1", "output": [{"type": "message", "id": "msg_1"}]}'),
    "a stream": _streamed,
}


@pytest.mark.parametrize("form", STORED)
def test_a_stored_answer_belongs_to_the_sandbox_that_has_it(broker: Running, provider: StandIn, form: str):
    """Sandboxes share an account, in which the provider keeps the conversations of all of them."""
    owner, used = f"owner of {form}", service(provider.url, "openai")
    provider.pages["/v1/responses"] = STORED[form]

    def ask(sandbox: str, **request: Any) -> int:
        return broker.ask(used, path="/v1/responses", body=request, sandbox=sandbox, refuse_tools=True).status

    try:
        assert ask(owner, input="x", store=True) == 200
        referring = [
            {"previous_response_id": "resp_1"},
            given_input({"type": "item_reference", "id": "msg_1"}),
            given_input({"id": "msg_1"}),
            given_input({"type": None, "id": "msg_1", "role": "assistant"}),
            given_input({"type": "message", "id": "msg_1", "role": "assistant", "content": []}),
            given_input({"type": "reasoning", "id": "msg_1", "summary": [], "encrypted_content": None}),
        ]
        before = len(provider.seen)
        for request in referring:
            assert ask("another", **request) == 403
        assert len(provider.seen) == before
        for request in referring:
            assert ask(owner, **request) == 200
    finally:
        provider.pages.clear()


def test_an_identifier_of_the_request_is_not_received(broker: Running, provider: StandIn):
    """A compacted conversation has items of the request in it, with the identifiers that they had there."""
    used, sandbox = service(provider.url, "openai"), "compacting"

    async def page(call: Call) -> None:
        await call.answer(json.dumps({"id": "resp_2", "output": json.loads(call.seen.body)["input"]}).encode())

    def ask(path: str, **request: Any) -> int:
        return broker.ask(used, path=path, body=request, sandbox=sandbox, refuse_tools=True).status

    provider.pages["/v1/responses/compact"] = page
    try:
        item = {"type": "message", "role": "user", "id": "msg_2", "content": "x"}
        assert ask("/v1/responses/compact", **given_input(item)) == 200
        assert ask("/v1/responses", **given_input(item)) == 200
        assert ask("/v1/responses", **given_input({"type": "item_reference", "id": "msg_2"})) == 403
    finally:
        provider.pages.clear()


def test_references_have_a_bound(broker: Running, provider: StandIn):
    """They go from the process that reads a body to the one that serves all sandboxes."""
    used, before = service(provider.url, "openai"), len(provider.raw)
    body = given_input(*({"type": "item_reference", "id": f"{each}" * 100} for each in range(2000)))
    answer = broker.ask(used, path="/v1/responses", body=body, refuse_tools=True)
    assert (answer.status, len(provider.raw)) == (400, before)
    assert "too many stored answers" in answer.json["error"]["message"]


def test_a_model_that_the_path_names_is_judged_too(broker: Running, provider: StandIn):
    before = len(provider.raw)
    used = service(provider.url, "gemini")
    for model, status in (("deep-research-pro", 403), ("gemini-3", 200)):
        path = f"/v1beta/models/{model}:generateContent"
        assert broker.ask(used, path=path, body={"contents": []}, refuse_tools=True).status == status
        assert (len(provider.raw) > before) == (status == 200)


def test_who_may_have_it_has_it(broker: Running, provider: StandIn):
    searching = tools("web_search_20250305")
    assert broker.ask(service(provider.url), body=searching).status == 200
    assert broker.ask(service(provider.url, server_tools=True), body=searching, refuse_tools=True).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"tools": [], "tools": [{"type": "web_search_20250305"}]}', {}, 400),
        (b'{"messages": [{"content": "", "content": []}]}', {}, 400),
        (b'{"max_tokens": NaN}', {}, 400),
        (b'{"max_tokens": Infinity}', {}, 400),
        (b'{"model": "\xff"}', {}, 400),
        (b'\xef\xbb\xbf{"model": "m"}', {}, 400),
        (b"{'model': 'm'}", {}, 400),
        (b"not json", {}, 400),
        (b"", {"content-length": "1"}, 400),
        (b"[]", {}, 400),
        (b'{"model": ["m"]}', {}, 400),
        (rb'{"model": "\ud800"}', {}, 400),
        (b'{"model": "' + b"m" * 300 + b'"}', {}, 400),
        (b'{"messages": ' + b"[" * 101 + b"]" * 101 + b"}", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"messages": [' + b"{}," * 250_001 + b"{}]}", {}, 400),
        (b'{"stop_sequences": [' + b"0," * 500_001 + b"0]}", {}, 400),
        (b'{"models": ["' + b"m" * 300 + b'"]}', {}, 400),
        (b'{"max_tokens": ' + b"9" * 10_000 + b"}", {}, 400),
        (b"\x1f\x8b\x08", {"content-encoding": "gzip"}, 415),
        (b"{}", {"content-encoding": "zstd"}, 415),
    ],
)
def test_what_others_may_read_differently_is_not_sent(
    broker: Running, provider: StandIn, body: bytes, headers: dict[str, str], status: int
):
    before = len(provider.raw)
    if "content-length" in headers:
        body = b"x"
    answer = broker.ask(service(provider.url), body=body, headers=headers, refuse_tools=True)
    assert answer.status == status
    assert len(provider.raw) == before
    assert broker.ask(service(provider.url), body=b'{"model": "m"}', refuse_tools=True).status == 200


def test_an_unknown_api_is_let_through_if_it_is_named(broker: Running, provider: StandIn):
    before = len(provider.raw)
    known = service(provider.url, paths=("POST /v1/*",))
    assert broker.ask(known, path="/v1/files", body="{}", refuse_tools=True).status == 403
    assert broker.ask(known, path="/v1/messages/batches", body="{}", refuse_tools=True).status == 403
    default = service(provider.url, "other", paths=("POST /*/chat/completions",))
    assert broker.ask(default, path="/v1/files", body="{}", refuse_tools=True).status == 403
    assert len(provider.raw) == before
    own = service(provider.url, "other", paths=("POST /v1/*",))
    for path in ("/v1/Chat/Completions", "/v1/chat/completions/", "/v1/messages%20"):
        assert broker.ask(own, path=path, body={"plugins": []}, refuse_tools=True).status == 403
    assert len(provider.raw) == before
    named = service(provider.url, paths=("POST /v1/files",))
    assert broker.ask(named, path="/v1/files", body="{}", refuse_tools=True).status == 200
    own = service(provider.url, "tickets", paths=("POST /api/*",))
    assert broker.ask(own, path="/api/issues", body="not json", refuse_tools=True).status == 200
    embedding = service(provider.url, "openai")
    assert broker.ask(embedding, path="/v1/embeddings", body="{}", refuse_tools=True).status == 200
