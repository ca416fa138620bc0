"""What of each API stays between the client and the model. One table; everything that is not in it is refused.

By the providers' published references. A star at the end stands for a version.
"""

import re
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


JUDGED_NAMES: Final = _names(
    """
    type name role content source url file_id tools environment input output image_url video_url input_audio data file
    file_url file_data parts
    """
)
"""Fields that are looked at below the top."""

ANTHROPIC_FIELDS: Final = _names(
    """
    model messages max_tokens system metadata stop_sequences stream temperature top_k top_p tools tool_choice
    thinking service_tier context_management output_config output_format cache_control betas speed inference_geo
    """
)
ANTHROPIC_TOOLS: Final = re.compile(r"custom|(?:bash|text_editor|computer|memory|tool_search_tool_[a-z0-9]+)_\d{8}")
ANTHROPIC_BLOCKS: Final = _names(
    """
    text image document thinking redacted_thinking tool_use tool_result search_result tool_reference compaction
    server_tool_use tool_search_tool_result
    """
)
ANTHROPIC_SERVER_CALLS: Final = re.compile(r"tool_search_tool_[a-z0-9_]+")
"""What a provider's own tool may be called in a conversation: the one that looks for tools in the request itself."""

ANTHROPIC_SOURCES: Final = frozenset({"base64", "text", "content"})

RESPONSES_FIELDS: Final = _names(
    """
    model input instructions tools tool_choice parallel_tool_calls reasoning store stream stream_options include
    service_tier prompt_cache_key prompt_cache_retention safety_identifier text metadata client_metadata user
    temperature top_p top_logprobs max_output_tokens max_tool_calls truncation previous_response_id
    context_management verbosity
    """
)
CHAT_FIELDS: Final = _names(
    """
    model messages tools tool_choice functions function_call temperature top_p top_k top_a min_p n stream
    stream_options stop max_tokens max_completion_tokens presence_penalty frequency_penalty repetition_penalty
    logit_bias logprobs top_logprobs user seed response_format parallel_tool_calls reasoning_effort reasoning
    include_reasoning service_tier store metadata modalities audio prediction verbosity prompt_cache_key
    prompt_cache_retention safety_identifier thinking models provider route transforms usage cache_control
    enable_thinking chat_template_kwargs structured_outputs
    """
)
OPENAI_TOOLS: Final = frozenset(
    {"function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview", "tool_search"}
)
"""Those that the client runs, and the one that looks for tools in the request itself."""

OPENAI_TOOLS_AROUND_TOOLS: Final = frozenset({"namespace"})
CHAT_TOOLS: Final = frozenset({"function", "custom"})
RESPONSES_ITEMS: Final = _names(
    """
    message reasoning function_call function_call_output custom_tool_call custom_tool_call_output
    local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call
    apply_patch_call_output computer_call computer_call_output item_reference compaction compaction_summary
    compaction_trigger context_compaction tool_search_call tool_search_output additional_tools
    """
)
SHELL_OUTPUTS: Final = frozenset({"shell_call_output", "local_shell_call_output"})
"""Items whose parts are texts without a type."""

OPENAI_PARTS: Final = _names(
    """
    text input_text output_text refusal summary_text reasoning_text thinking redacted_thinking encrypted_content
    image_url input_image input_audio video_url file input_file computer_screenshot
    """
)
OPENAI_FETCHED: Final = frozenset({"file_url", "file_id"})
"""Fields of a part by which the provider looks for its content elsewhere."""

SEARCHING_MODELS: Final = re.compile(
    r".*(?:-search(?:-|$|:)|deep-research|[:-]online(?:$|:)|@preset/|openrouter/auto(?:$|:)).*"
    r"|(?:.*[/-])?(?:sonar|compound)(?:[-:].*)?",
    re.DOTALL,
)
"""Models that go out by themselves, or may: what a preset is, only the account knows; a router has others choose."""

GEMINI_FIELDS: Final = _names(
    """
    contents content tools toolconfig safetysettings systeminstruction generationconfig labels model tasktype
    title outputdimensionality generatecontentrequest servicetier
    """
)
GEMINI_TOOLS: Final = frozenset({"functiondeclarations"})
GEMINI_PARTS: Final = _names(
    """
    text inlinedata functioncall functionresponse thought thoughtsignature videometadata mediaresolution
    partmetadata
    """
)
