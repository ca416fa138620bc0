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
    SHELL_OUTPUTS,
)
from belljar.broker.tools.reading import (
    answers_alone,
    carried,
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
    elif kind.endswith("_output") and not isinstance(item.get("output"), str):
        output = item.get("output")
        for part in items([output] if isinstance(output, dict) else output, "an output"):
            if "type" in part or kind not in SHELL_OUTPUTS:
                _part(part)
            else:
                _fields(part)


def _content(content: Any, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    for part in items(content, where):
        _part(part)


def _part(part: dict[str, Any]) -> None:
    one_of(kind_of(part), OPENAI_PARTS, "a part of the type")
    _fields(part)


def _fields(part: dict[str, Any]) -> None:
    """Refuse fields by which the provider would look for content elsewhere, whatever the part says that it is."""
    for field in ("image_url", "video_url"):
        url = part.get(field)
        embedded(mapping(url, field).get("url") if isinstance(url, dict) else url, f"an {field}")
    audio = part.get("input_audio")
    carried(mapping(audio, "input_audio").get("data") if isinstance(audio, dict) else audio, "audio")
    file = part.get("file")
    for content in (part, mapping(file, "file") if isinstance(file, dict) else {}):
        for field in OPENAI_FETCHED:
            if content.get(field) is not None:
                raise refuse(f"a {field}, which the provider would look for elsewhere; embed the content instead")
        carried(content.get("file_data"), "a file")  # OpenRouter takes a URL there, too
