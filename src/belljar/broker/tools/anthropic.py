"""Requests to Anthropic's Messages, and to those who copy them."""

import re
from typing import Any, Final

from belljar.broker.tools.forms import (
    Form,
    anything,
    array_of,
    labels,
    object_of,
    plain,
    plain_fields,
    schema,
    settings,
    text_or,
    typed,
)
from belljar.broker.tools.reading import answers_alone, refuse, shown

_PROVIDERS_TOOLS: Final = re.compile(r"(?:bash|text_editor|computer|memory|tool_search_tool_[a-z0-9]+)_\d{8}")
"""Those that the client runs, and the ones that look for tools in the request itself."""

_SERVER_CALLS: Final = re.compile(r"tool_search_tool_[a-z0-9_]+")
"""What a provider's own tool may be called in a conversation: the one that looks for tools in the request itself."""

_CITATION: Final = object_of(
    plain_fields(
        """
        type cited_text document_index document_title start_char_index end_char_index start_page_number
        end_page_number start_block_index end_block_index search_result_index source title
        """
    )
)
_CACHED: Final[dict[str, Form]] = {"cache_control": settings}


def _content(value: Any, where: str) -> None:
    _CONTENT(value, where)


def _server_call(value: Any, where: str) -> None:
    if not (isinstance(value, str) and _SERVER_CALLS.fullmatch(value)):
        raise refuse(f"a call of the provider's tool {shown(value)} in {where}")


def _block(names: str, **others: Form) -> Form:
    return object_of({"type": plain, **plain_fields(names), **_CACHED, **others})


_SOURCE: Final = typed(
    {
        "base64": object_of(plain_fields("type media_type data")),
        "text": object_of(plain_fields("type media_type data")),
        "content": object_of({"type": plain, "content": _content}),
    }
)
_CITED: Final = object_of(plain_fields("enabled"))
_CONTENT: Final = text_or(
    array_of(
        typed(
            {
                "text": _block("text", citations=array_of(_CITATION)),
                "image": _block("", source=_SOURCE),
                "document": _block("title context", source=_SOURCE, citations=_CITED),
                "thinking": _block("thinking signature"),
                "redacted_thinking": _block("data"),
                "tool_use": _block("id name", input=anything, caller=settings),
                "tool_result": _block("tool_use_id is_error", content=_content),
                "search_result": _block("source title", content=_content, citations=_CITED),
                "tool_reference": _block("tool_name"),
                "compaction": _block("encrypted_content", content=_content),
                "server_tool_use": _block("id", name=_server_call, input=anything, caller=settings),
                "tool_search_tool_result": _block("tool_use_id", content=settings),
            }
        )
    )
)
_TOOL: Final = """
    name description strict defer_loading allowed_callers eager_input_streaming max_characters display_width_px
    display_height_px display_number enable_zoom
"""
_ANY_TOOL: Final = _block(_TOOL, input_schema=schema, input_examples=anything)
_FORMAT: Final = object_of({"type": plain, "name": plain, "schema": schema})
_OUTPUT: Final = object_of({"effort": plain, "format": _FORMAT, "task_budget": settings})
_REQUEST: Final = object_of(
    {
        **plain_fields(
            """
            model max_tokens stop_sequences stream temperature top_k top_p service_tier betas speed inference_geo
            """
        ),
        **_CACHED,
        "messages": array_of(object_of({"role": plain, "content": _content, "output_config": _OUTPUT, **_CACHED})),
        "system": _content,
        "tools": array_of(typed({"custom": _ANY_TOOL}, usual="custom", others=(_PROVIDERS_TOOLS, _ANY_TOOL))),
        "tool_choice": settings,
        "metadata": labels,
        "thinking": settings,
        "context_management": settings,
        "output_config": _OUTPUT,
        "output_format": _FORMAT,
    }
)


def judge(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises RefusedRequest."""
    _REQUEST(request, "")
    answers_alone(request.get("model"))
