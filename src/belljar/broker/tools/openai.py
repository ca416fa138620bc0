"""Requests to OpenAI's Responses and Chat Completions, and to those who copy them, OpenRouter among them."""

from typing import Any, Final

from belljar.broker.tools.forms import (
    Form,
    anything,
    array_of,
    each,
    labels,
    nothing,
    object_of,
    plain,
    plain_fields,
    schema,
    settings,
    text_or,
    typed,
)
from belljar.broker.tools.reading import answers_alone, carried, embedded, refuse


def _elsewhere(value: Any, where: str) -> None:
    """Refuse a field by which the provider would look for content elsewhere."""
    if value is not None:
        raise refuse(f"a {where.rpartition('.')[2]}, which the provider would look for elsewhere; embed the content")


def _content(value: Any, where: str) -> None:
    _CONTENT(value, where)


def _tools(value: Any, where: str) -> None:
    _RESPONSES_TOOLS(value, where)


def _several(form: Form) -> Form:
    """Return the form of an array of parts, or of a single one: some fields may be written so."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            array_of(form)([value] if isinstance(value, dict) else value, where)

    return check


_FILE: Final[dict[str, Form]] = {"file_data": carried, "filename": plain, "file_id": _elsewhere, "file_url": _elsewhere}


def _named_or(form: Form, field: str) -> Form:
    """Return the form of something, or of an object that has it in a field."""
    whole = object_of({field: form, **plain_fields("detail format")})
    return lambda value, where: (whole if isinstance(value, dict) else form)(value, where)


_PART_FIELDS: Final[dict[str, Form]] = {
    **plain_fields("type text refusal signature data encrypted_content detail format id"),
    **_FILE,
    "cache_control": settings,
    "annotations": nothing,
    "logprobs": nothing,
    "thinking": _content,
    "image_url": _named_or(embedded, "url"),
    "video_url": _named_or(embedded, "url"),
    "input_audio": _named_or(carried, "data"),
    "file": object_of(_FILE),
}
_PART: Final = typed(
    each(
        """
        text input_text output_text refusal summary_text reasoning_text thinking redacted_thinking encrypted_content
        image_url input_image input_audio video_url file input_file computer_screenshot
        """,
        object_of(_PART_FIELDS),
    )
)
_CONTENT: Final = text_or(array_of(_PART))

_CUSTOM: Final[dict[str, Form]] = {**plain_fields("type name description"), "format": settings}
_FUNCTION: Final[dict[str, Form]] = {**plain_fields("name description strict"), "parameters": schema}
_CHAT_TOOL: Final[dict[str, Form]] = {**_FUNCTION, "type": plain, "cache_control": settings}
_CHAT_TOOLS: Final = array_of(
    typed(
        {
            "function": object_of({**_CHAT_TOOL, "function": object_of(_FUNCTION)}),
            "custom": object_of({**_CHAT_TOOL, "custom": object_of(_CUSTOM)}),
        }
    )
)
_SCHEMA: Final[dict[str, Form]] = {**plain_fields("type name description strict"), "schema": schema}
_CHAT_CALL: Final = object_of(
    {
        **plain_fields("id type index"),
        "function": object_of({"name": plain, "arguments": anything}),
        "custom": object_of({"name": plain, "input": anything}),
        "extra_content": settings,
    }
)
_MESSAGE: Final = object_of(
    {
        **plain_fields("role name tool_call_id refusal reasoning reasoning_content prefix partial"),
        "content": _content,
        "tool_calls": array_of(_CHAT_CALL),
        "function_call": object_of({"name": plain, "arguments": anything}),
        "reasoning_details": array_of(object_of(plain_fields("type id format index text summary data signature"))),
        "images": array_of(_PART),
        "cache_control": settings,
        **each("annotations audio", nothing),
    }
)
_PROVIDER: Final = object_of(
    {
        **plain_fields(
            """
            order only ignore allow_fallbacks require_parameters data_collection zdr enforce_distillable_text
            quantizations sort
            """
        ),
        "max_price": labels,
    }
)
_CHAT: Final = object_of(
    {
        **plain_fields(
            """
            model models temperature top_p top_k top_a min_p n stream stop max_tokens max_completion_tokens
            presence_penalty frequency_penalty repetition_penalty logprobs top_logprobs user seed parallel_tool_calls
            reasoning_effort include_reasoning service_tier store modalities verbosity prompt_cache_key
            prompt_cache_retention safety_identifier route transforms enable_thinking
            """
        ),
        "messages": array_of(_MESSAGE),
        "tools": _CHAT_TOOLS,
        "functions": array_of(object_of(_FUNCTION)),
        "response_format": object_of({**_SCHEMA, "json_schema": object_of(_SCHEMA)}),
        "prediction": object_of({"type": plain, "content": _content}),
        "provider": _PROVIDER,
        "structured_outputs": schema,
        **each("metadata logit_bias", labels),
        **each(
            """
            tool_choice function_call stream_options audio reasoning thinking usage cache_control chat_template_kwargs
            """,
            settings,
        ),
    }
)

_TOOL: Final[dict[str, Form]] = {**_FUNCTION, "type": plain, "defer_loading": plain}
_SKILLS: Final = array_of(object_of(plain_fields("name description path")))
_LOCAL: Final = typed({"local": object_of({"type": plain, "skills": _SKILLS})})
_SHELL: Final = object_of({"type": plain, "environment": _LOCAL})
_RESPONSES_TOOLS: Final = array_of(
    typed(
        {
            "function": object_of(_TOOL),
            "custom": object_of({**_CUSTOM, "defer_loading": plain}),
            "local_shell": object_of(_TOOL),
            "apply_patch": object_of(_TOOL),
            "tool_search": object_of({**_TOOL, "execution": plain}),
            **each(
                "computer computer_use_preview",
                object_of(plain_fields("type display_width display_height environment")),
            ),
            # The provider's own machine runs it, unless the request says otherwise.
            "shell": lambda value, where: _SHELL({"environment": {}, **value}, where),
            "namespace": object_of({**plain_fields("type name description"), "tools": _tools}),
        }
    )
)
_STREAMS: Final = _several(object_of({**_PART_FIELDS, **plain_fields("stdout stderr"), "outcome": settings}))
_OUTPUT: Final = _several(_PART)
_ITEM_FIELDS: Final[dict[str, Form]] = {
    **plain_fields("id type status role name namespace phase call_id encrypted_content execution end_turn input"),
    **plain_fields("max_output_length current_url"),
    "content": _content,
    "summary": _content,
    "output": _OUTPUT,
    "tools": _tools,
    "environment": settings,
    **each("arguments action actions operation", anything),
    **each("pending_safety_checks acknowledged_safety_checks", settings),
}
_ITEM: Final = object_of(_ITEM_FIELDS)
_SHELL_OUTPUT: Final = object_of({**_ITEM_FIELDS, "output": _STREAMS})
"""The parts of its output are texts without a type."""

_ITEMS: Final = array_of(
    typed(
        {
            **each(
                """
                message reasoning function_call function_call_output custom_tool_call custom_tool_call_output
                local_shell_call shell_call apply_patch_call apply_patch_call_output computer_call
                computer_call_output item_reference compaction compaction_summary compaction_trigger
                context_compaction tool_search_call tool_search_output additional_tools
                """,
                _ITEM,
            ),
            **each("shell_call_output local_shell_call_output", _SHELL_OUTPUT),
        },
        usual="message",
    )
)
_RESPONSES: Final = object_of(
    {
        **plain_fields(
            """
            model instructions parallel_tool_calls store stream include service_tier prompt_cache_key
            prompt_cache_retention safety_identifier user temperature top_p top_logprobs max_output_tokens
            max_tool_calls truncation previous_response_id verbosity
            """
        ),
        "input": text_or(_ITEMS),
        "tools": _tools,
        "text": object_of({"verbosity": plain, "format": object_of(_SCHEMA)}),
        **each("metadata client_metadata", labels),
        **each("tool_choice stream_options reasoning context_management", settings),
    }
)


def judge_responses(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises RefusedRequest."""
    _RESPONSES(request, "")
    answers_alone(request.get("model"))


def judge_chat(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises RefusedRequest."""
    _CHAT(request, "")
    models = request.get("models")
    for model in (request.get("model"), *(models if isinstance(models, list) else (models,))):
        answers_alone(model)
