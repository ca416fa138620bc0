"""Which judge hears a request, by the API that it speaks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from belljar.broker.dialects import ApiDialect
from belljar.broker.tools import anthropic, gemini, openai

_JUDGES: Final[Mapping[ApiDialect, Callable[[dict[str, Any]], None]]] = MappingProxyType(
    {
        ApiDialect.ANTHROPIC: anthropic.judge,
        ApiDialect.CHAT: openai.judge_chat,
        ApiDialect.RESPONSES: openai.judge_responses,
        ApiDialect.GEMINI: gemini.judge,
    }
)


def judge(dialect: ApiDialect, request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises Refused."""
    _JUDGES[dialect](request)
