"""Anthropic's Messages API, as far as agents need it."""

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.model import Model, ToolCall

Event = tuple[str, dict[str, Any]]

_USAGE = {"input_tokens": 1, "output_tokens": 1}


def events(model: Model, question: dict[str, Any]) -> Iterator[Event]:
    """Answer a question as a stream of events."""
    blocks = [block for message in question["messages"] for block in message["content"] if isinstance(block, dict)]
    results = [block["content"] for block in blocks if block["type"] == "tool_result"]
    answer = model.answer(question.get("tools", []), results)
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": question["model"], "content": []}
    yield "message_start", {"message": message | {"stop_reason": None, "stop_sequence": None, "usage": _USAGE}}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": answer}
    if isinstance(answer, ToolCall):
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": answer.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = "tool_use" if isinstance(answer, ToolCall) else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": _USAGE}
    yield "message_stop", {}
