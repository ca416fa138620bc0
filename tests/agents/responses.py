"""OpenAI's Responses API, as far as agents need it."""

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.messages import Event
from tests.agents.model import Model, ToolCall

_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


def events(model: Model, question: dict[str, Any]) -> Iterator[Event]:
    """Answer a question as a stream of events."""
    results = [item["output"] for item in question["input"] if item.get("type") == "function_call_output"]
    answer = model.answer(question.get("tools", []), results)
    response = {"id": "resp_1", "object": "response", "created_at": 0, "model": question["model"]}
    item: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": answer}],
    }
    if isinstance(answer, ToolCall):
        call = {"call_id": f"call_{len(results)}", "name": answer.tool, "arguments": json.dumps(answer.arguments)}
        item = {"type": "function_call", **call}
    yield "response.created", {"response": response}
    yield "response.output_item.done", {"output_index": 0, "item": {"id": f"item_{len(results)}", **item}}
    yield "response.completed", {"response": response | {"usage": _USAGE, "output": []}}
