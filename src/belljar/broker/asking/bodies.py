"""What a request's body says, as far as it decides whether and at which price the request may be sent."""

import math
import re
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from belljar.broker.asking import strictjson
from belljar.broker.dialects import ApiDialect
from belljar.broker.refusals import RefusedRequest
from belljar.broker.spending.priceoptions import options_of
from belljar.broker.tools.judging import judge

_MAX_MODEL: Final = 256
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half of a character, which JSON can name and UTF-8 cannot."""

_MAX_REFERENCES: Final = 256 << 10
"""Characters of all identifiers together: the loop of the broker reads what the judging process has found."""

_MAX_OPTIONS: Final = 64
_OWN_CONTENT: Final = MappingProxyType(
    {
        "message": "content",
        "reasoning": "encrypted_content",
        "compaction": "encrypted_content",
        "compaction_summary": "encrypted_content",
        "context_compaction": "encrypted_content",
    }
)
"""Fields without which the provider takes an item with an identifier from what it has stored."""

_MAX_OUTPUT_FIELDS: Final = ("max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens")

_MAX_NUMBER: Final = 64
"""Characters of a number that is written as a text."""


class BodyQuestion(NamedTuple):
    """What has to be known of a body."""

    dialect: ApiDialect
    refuses: bool
    """Whether the provider may not be asked to reach for the network itself."""

    counts: bool
    """Whether a budget counts tokens or dollars."""

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {**self._asdict(), "dialect": self.dialect.value}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Return what `to_data` has described."""
        return cls(**{**data, "dialect": ApiDialect(data["dialect"])})


class BodyFacts(NamedTuple):
    """What is known of a body."""

    model: str | None = None
    has_other_models: bool = False
    """Whether the provider may choose another model than the one that is named."""

    hides_usage: bool = False
    """Whether the answer reports tokens only if the broker asks for it."""

    max_output: int | None = None
    """How many tokens each choice of the answer may have."""

    choices: int = 1

    price_options: tuple[str, ...] = ()
    """Options that change the price, each as ``name=value``."""

    references: tuple[str, ...] = ()
    """Identifiers of earlier answers, which the provider has stored."""


def read_facts(body: bytes, question: BodyQuestion) -> BodyFacts:
    """Return what a body says, if it may say that. Raises RefusedRequest."""
    try:
        data = strictjson.read(body)
    except strictjson.NotJsonError as error:
        raise RefusedRequest(400, "json", f"the body cannot be judged: {error}") from None
    if not isinstance(data, dict):
        raise RefusedRequest(400, "json", "the body is to be a JSON object")
    model, others = data.get("model"), data.get("models")
    for name in (model, *(others if isinstance(others, list) else ())):
        if name is not None and not (isinstance(name, str) and len(name) <= _MAX_MODEL and not _SURROGATE.search(name)):
            raise RefusedRequest(400, "form", f"model is to be a name of at most {_MAX_MODEL} characters")
    if question.refuses:
        judge(question.dialect, data)
    facts = BodyFacts(
        model,
        has_other_models=others is not None,
        max_output=_max_output(data),
        choices=_choices(data),
        references=_references(data),
    )
    if not question.counts:
        return facts
    if data.get("background") not in (None, False):
        raise RefusedRequest(
            403, "background", "there is a budget, and what runs in the background cannot be counted; leave it out"
        )
    options = options_of(question.dialect, data)
    if len(options) > _MAX_OPTIONS:
        raise RefusedRequest(400, "form", f"the request has more than {_MAX_OPTIONS} options that change its price")
    return facts._replace(hides_usage=question.dialect is ApiDialect.CHAT and _hides_usage(data), price_options=options)


def _hides_usage(request: dict[str, Any]) -> bool:
    """Return whether a chat completion is streamed without its usage. Raises RefusedRequest."""
    stream = request.get("stream")
    if stream is not None and not isinstance(stream, bool):  # which some take for true
        raise RefusedRequest(400, "form", "stream is to be true or false")
    options = request.get("stream_options")
    if not stream or (isinstance(options, dict) and options.get("include_usage") is True):
        return False
    if "stream_options" in request:
        raise RefusedRequest(
            403,
            "stream_options",
            "there is a budget, and stream_options says that no tokens are to be reported; leave stream_options "
            "out, or set include_usage to true",
        )
    return True


def _references(request: dict[str, Any]) -> tuple[str, ...]:
    items = request.get("input")
    named = [
        request.get("previous_response_id"),
        *(
            item.get("id")
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict) and _is_reference(item)
        ),
    ]
    found = tuple(dict.fromkeys(str(each) for each in named if each is not None))
    if sum(map(len, found)) > _MAX_REFERENCES:
        raise RefusedRequest(
            400, "form", "the request refers to too many stored answers and items; send the conversation itself"
        )
    return found


def _is_reference(item: dict[str, Any]) -> bool:
    """Return whether an item stands for a stored one. The type of a reference may be left out."""
    kind = item.get("type")
    if kind == "item_reference":
        return True
    content = _OWN_CONTENT.get("message" if kind is None else str(kind))
    return content is not None and not item.get(content)


def _max_output(request: dict[str, Any]) -> int | None:
    return max(_counts(request, *_MAX_OUTPUT_FIELDS), default=None)


def _choices(request: dict[str, Any]) -> int:
    return max(_counts(request, "n", "candidateCount", "candidate_count"), default=1)


def _counts(request: dict[str, Any], *names: str) -> list[int]:
    """Return the positive numbers that a request has under any of several names."""
    config = request.get("generationConfig") or request.get("generation_config")
    places = [request, config] if isinstance(config, dict) else [request]
    return [count for place in places for name in names if (count := _count(place.get(name))) > 0]


def _count(value: Any) -> int:
    """Return a number as lenient providers read it: also from a fraction or a text."""
    if isinstance(value, bool) or (isinstance(value, str) and len(value) > _MAX_NUMBER):
        return 0
    try:
        return math.ceil(float(value))
    except (TypeError, ValueError, OverflowError):
        return 0
