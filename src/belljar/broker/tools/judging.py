"""Which judge hears a request, by the API that it speaks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from belljar.broker.dialects import Dialect
from belljar.broker.tools import anthropic, gemini, openai

_JUDGES: Final[Mapping[Dialect, Callable[[dict[str, Any]], None]]] = MappingProxyType(
    {
        Dialect.ANTHROPIC: anthropic.judge,
        Dialect.CHAT: openai.judge_chat,
        Dialect.RESPONSES: openai.judge_responses,
        Dialect.GEMINI: gemini.judge,
    }
)


def judge(dialect: Dialect, request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises Refused."""
    _JUDGES[dialect](request)
