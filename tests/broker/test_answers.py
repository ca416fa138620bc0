"""What an answer says of itself, however it is cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.broker.asking.streamoptions import WithoutUsage
from belljar.broker.spending.answers import Answer
from belljar.broker.spending.usage import TokenUsage

DECOY = {"usage": {"input_tokens": 9999, "output_tokens": 9999}, "model": "decoy"}


def sse(*events: Any, end: str = "\n") -> bytes:
    return "".join(f"event: x{end}data: {json.dumps(event)}{end}{end}" for event in events).encode()


ANTHROPIC = sse(
    {
        "type": "message_start",
        "message": {
            "model": "claude",
            "content": [],
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 5,
                "cache_read_input_tokens": 100,
                "output_tokens": 1,
            },
        },
    },
    {"type": "content_block_delta", "delta": {"text": 'say "usage": {"input_tokens": 7}', "input": DECOY}},
    {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 42}},
    {"type": "message_stop"},
)
CHAT = (
    sse(
        {"model": "gpt", "choices": [{"delta": {"content": "a"}}], "usage": None},
        {
            "model": "gpt",
            "choices": [],
            "usage": {"prompt_tokens": 30, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 20}},
        },
    )
    + b"data: [DONE]\n\n"
)
RESPONSES = sse(
    {"type": "response.created", "response": {"model": "gpt", "usage": None}},
    {
        "type": "response.completed",
        "response": {
            "output": [{"arguments": json.dumps(DECOY), **DECOY}] * 50,
            "model": "gpt",
            "usage": {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 7},
        },
    },
)
GEMINI = [
    {
        "candidates": [{"content": DECOY}],
        "usageMetadata": {
            "promptTokenCount": 30,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 3,
            "cachedContentTokenCount": 20,
            "totalTokenCount": 37,
        },
        "modelVersion": "gemini",
    }
]
EVENTS, JSON = b"text/event-stream; charset=utf-8", b"application/json"
CACHED = TokenUsage(input=30, output=7, cache_read=20)
CASES = {
    "anthropic stream": (EVENTS, ANTHROPIC, TokenUsage(115, 42, 100, 5), "claude"),
    "anthropic stream, with returns": (
        EVENTS,
        ANTHROPIC.replace(b"\n", b"\r\n"),
        TokenUsage(115, 42, 100, 5),
        "claude",
    ),
    "anthropic stream, with returns alone": (
        EVENTS,
        ANTHROPIC.replace(b"\n", b"\r"),
        TokenUsage(115, 42, 100, 5),
        "claude",
    ),
    "chat stream": (EVENTS, CHAT, CACHED, "gpt"),
    "responses stream": (EVENTS, RESPONSES, CACHED, "gpt"),
    "gemini stream": (EVENTS, sse(*GEMINI), CACHED, "gemini"),
    "gemini array": (JSON, json.dumps(GEMINI * 3, indent=1).encode(), CACHED, "gemini"),
    "anthropic": (
        JSON,
        json.dumps({"content": [DECOY], "model": "claude", "usage": {"input_tokens": 3, "output_tokens": 4}}).encode(),
        TokenUsage(3, 4),
        "claude",
    ),
    "usage first": (
        JSON,
        json.dumps({"usage": {"prompt_tokens": 3, "completion_tokens": 4}, "choices": [DECOY]}).encode(),
        TokenUsage(3, 4),
        None,
    ),
    "an escaped quote": (
        JSON,
        json.dumps({"text": '\\"', 'usage"': 1, "usage": {"input_tokens": 3, "output_tokens": 4}}).encode(),
        TokenUsage(3, 4),
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
def test_it_is_the_same_however_it_is_cut(case: str, data: st.DataObject):
    kind, text, usage, model = CASES[case]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    answer = Answer(kind)
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        answer.feed(text[start:end])
    assert (answer.usage, answer.model) == (usage, model)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_same_byte_by_byte(case: str):
    kind, text, usage, model = CASES[case]
    answer = Answer(kind)
    for byte in text:
        answer.feed(bytes([byte]))
    assert (answer.usage, answer.model) == (usage, model)


@given(st.lists(st.binary(max_size=20), max_size=20), st.sampled_from([EVENTS, JSON, b"text/plain", b""]))
def test_nonsense_is_nothing(chunks: list[bytes], kind: bytes):
    answer = Answer(kind)
    for chunk in chunks:
        answer.feed(chunk)
    answer.cut_off()


@pytest.mark.parametrize("kind", [EVENTS, JSON])
@pytest.mark.parametrize(
    "text", [b"[" * 300_000, b'{"a":' * 200_000, b'"' + b"x" * 500_000, b"data: " + b"a" * 1_000_000]
)
def test_nothing_is_kept_of_what_goes_by(kind: bytes, text: bytes):
    answer = Answer(kind)
    for start in range(0, len(text), 65536):
        answer.feed(text[start : start + 65536])
    scanner = answer._scanner
    assert len(scanner._path) <= 3
    assert len(scanner._string) <= 128
    assert len(scanner._captured or b"") <= 65537


def test_a_value_that_is_too_long_is_none():
    answer = Answer(JSON)
    answer.feed(b'{"usage": {"input_tokens": 1, "x": "' + b"x" * 100_000 + b'"}, "model": "m"}')
    assert (answer.usage, answer.model) == (TokenUsage(), "m")


def test_a_stream_without_an_end_counts_what_was_seen():
    answer = Answer(EVENTS)
    answer.feed(sse(*[{"choices": [{"delta": {"content": "a"}}]}] * 5))
    answer.cut_off()
    assert answer.usage == TokenUsage(output=5)


@given(st.lists(st.integers(0, len(CHAT)), max_size=8))
def test_what_was_not_asked_for_is_taken_out(cuts: list[int]):
    ordered = sorted(cuts)
    hiding = WithoutUsage()
    sent = b""
    for start, end in zip([0, *ordered], [*ordered, len(CHAT)], strict=True):
        sent += hiding.feed(CHAT[start:end])
    sent += hiding.rest()
    assert b'"prompt_tokens"' not in sent
    assert sent.endswith(b"data: [DONE]\n\n")
    assert b'"content": "a"' in sent
