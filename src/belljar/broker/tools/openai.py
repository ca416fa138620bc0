"""Requests to OpenAI's Responses and Chat Completions, and to those who copy them, OpenRouter among them."""

from typing import Any

from belljar.broker.tools.facts import (
    CHAT_FIELDS,
    CHAT_TOOLS,
    OPENAI_FETCHED,
    OPENAI_PARTS,
    OPENAI_TOOLS,
    OPENAI_TOOLS_AROUND_TOOLS,
    RESPONSES_FIELDS,
    RESPONSES_ITEMS,
)
from belljar.broker.tools.reading import (
    answers_alone,
    embedded,
    items,
    kind_of,
    malformed,
    mapping,
    one_of,
    only,
    refuse,
)


def judge_responses(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises Refused."""
    only(request, RESPONSES_FIELDS, "the field")
    answers_alone(request.get("model"))
    _tools(request.get("tools"))
    conversation = request.get("input")
    if conversation is None or isinstance(conversation, str):
        return
    for item in items(conversation, "input"):
        _item(item)


def judge_chat(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises Refused."""
    only(request, CHAT_FIELDS, "the field")
    answers_alone(request.get("model"))
    models = request.get("models")
    if models is not None and not isinstance(models, list):
        raise malformed("models", "an array")
    for model in models or ():
        answers_alone(model)
    for tool in items(request.get("tools"), "tools"):
        one_of(tool.get("type"), CHAT_TOOLS, "a tool of the type")
    for message in items(request.get("messages"), "messages"):
        _content(message.get("content"), "a message's content")


def _tools(tools: Any) -> None:
    for tool in items(tools, "tools"):
        kind = kind_of(tool)
        if kind == "shell":  # the provider's own machine runs it, unless the request says otherwise
            one_of(kind_of(mapping(tool.get("environment", {}), "a shell's environment")), {"local"}, "a shell that is")
        elif kind in OPENAI_TOOLS_AROUND_TOOLS:
            _tools(tool.get("tools"))
        else:
            one_of(kind, OPENAI_TOOLS, "a tool of the type")


def _item(item: dict[str, Any]) -> None:
    kind = kind_of(item, "message") or ""
    one_of(kind, RESPONSES_ITEMS, "an item of the type")
    if kind in {"tool_search_output", "additional_tools"}:
        _tools(item.get("tools"))
    elif kind == "message":
        _content(item.get("content"), "a message's content")
    elif kind == "computer_call_output":
        _part(mapping(item.get("output"), "a computer's output"))
    elif kind.endswith("_output") and isinstance(item.get("output"), list):
        for part in item["output"]:
            if isinstance(part, dict) and "type" in part:  # a shell's parts are texts without a type
                _part(part)


def _content(content: Any, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    for part in items(content, where):
        _part(part)


def _part(part: dict[str, Any]) -> None:
    kind = kind_of(part)
    one_of(kind, OPENAI_PARTS, "a part of the type")
    for field in ("image_url", "video_url"):
        url = part.get(field)
        embedded(url.get("url") if isinstance(url, dict) else url, f"an {field}")
    file = part.get("file")
    within = file if isinstance(file, dict) else {}
    for field in OPENAI_FETCHED:
        if part.get(field) is not None or within.get(field) is not None:
            raise refuse(f"a {field}, which the provider would look for elsewhere; embed the content instead")
    # OpenRouter takes a URL for a file's content, too.
    data = part.get("file_data") or within.get("file_data")
    if isinstance(data, str) and data[:8].lower().startswith(("http:", "https:")):
        embedded(data, "a file")
