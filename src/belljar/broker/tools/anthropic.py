"""Requests to Anthropic's Messages, and to those who copy them."""

from typing import Any

from belljar.broker.tools.facts import (
    ANTHROPIC_BLOCKS,
    ANTHROPIC_FIELDS,
    ANTHROPIC_SERVER_CALLS,
    ANTHROPIC_SOURCES,
    ANTHROPIC_TOOLS,
)
from belljar.broker.tools.reading import answers_alone, items, kind_of, malformed, mapping, one_of, only


def judge(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises Refused."""
    only(request, ANTHROPIC_FIELDS, "the field")
    answers_alone(request.get("model"))
    for tool in items(request.get("tools"), "tools"):
        one_of(kind_of(tool, "custom"), ANTHROPIC_TOOLS, "a tool of the type")
    _content(request.get("system"), "system")
    for message in items(request.get("messages"), "messages"):
        _content(message.get("content"), "a message's content")


def _content(content: Any, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    for block in items(content, where):
        _block(block)


def _block(block: dict[str, Any]) -> None:
    kind = kind_of(block)
    one_of(kind, ANTHROPIC_BLOCKS, "a content block of the type")
    if kind == "server_tool_use":
        one_of(block.get("name"), ANTHROPIC_SERVER_CALLS, "a call of the provider's tool")
    elif kind in {"image", "document"}:
        _source(mapping(block.get("source"), f"the source of {kind}"))
    elif kind == "tool_result":
        _content(block.get("content"), "a tool result's content")


def _source(source: dict[str, Any]) -> None:
    one_of(source.get("type"), ANTHROPIC_SOURCES, "content whose source has the type")
    if "url" in source or "file_id" in source:
        raise malformed("a source", "one that has its content in it, without url and file_id")
    if source["type"] == "content":
        _content(source.get("content"), "a source's content")
