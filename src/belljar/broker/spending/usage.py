"""How many tokens an answer says that it took, in whichever provider's words.

Tokens that were written to a cache or read from one are input. Providers say them beside the rest (Anthropic) or within
it (the others).
"""

from typing import Any, Final, NamedTuple

_BYTES_OF_TOKEN: Final = 4


def tokens_of(size: int) -> int:
    """Return an estimate of how many tokens so many bytes are."""
    return size // _BYTES_OF_TOKEN


class TokenUsage(NamedTuple):
    """Tokens of one request. Cached ones are within the input."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def merged(self, later: "TokenUsage") -> "TokenUsage":
        """Return what is known after a later word: providers say totals, and never less than before."""
        return TokenUsage(*map(max, self, later))


def read_usage(data: Any) -> TokenUsage:
    """Return what a provider's account of a request says."""
    if not isinstance(data, dict):
        return TokenUsage()
    if "promptTokenCount" in data or "totalTokenCount" in data:
        return TokenUsage(
            input=_count(data, "promptTokenCount") + _count(data, "toolUsePromptTokenCount"),
            output=_count(data, "candidatesTokenCount") + _count(data, "thoughtsTokenCount"),
            cache_read=_count(data, "cachedContentTokenCount"),
        )
    if "prompt_tokens" in data:
        return TokenUsage(
            input=_count(data, "prompt_tokens"),
            output=_count(data, "completion_tokens"),
            cache_read=_count(data.get("prompt_tokens_details"), "cached_tokens"),
        )
    written, read = _count(data, "cache_creation_input_tokens"), _count(data, "cache_read_input_tokens")
    return TokenUsage(
        input=_count(data, "input_tokens") + written + read,
        output=_count(data, "output_tokens"),
        cache_read=read or _count(data.get("input_tokens_details"), "cached_tokens"),
        cache_write=written,
    )


def _count(data: Any, name: str) -> int:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
