"""Which API a request speaks, by its path: providers copy each other's, and gateways for models have them all."""

import re
from enum import Enum
from typing import Final

from belljar.policy.services import Service


class ApiDialect(Enum):
    """The forms in which requests, answers and errors are written."""

    ANTHROPIC = "anthropic"
    CHAT = "chat"
    RESPONSES = "responses"
    GEMINI = "gemini"
    OTHER = "other"
    """None of these: errors are in OpenAI's form, which most copy."""


_BY_PATH: Final = (
    (re.compile(r".*/messages(?:/count_tokens)?"), ApiDialect.ANTHROPIC),
    (re.compile(r".*/chat/completions"), ApiDialect.CHAT),
    (re.compile(r".*/responses(?:/compact)?"), ApiDialect.RESPONSES),
    (re.compile(r".*:(?:streamg|g)eneratecontent|.*:(?:counttokens|embedcontent)"), ApiDialect.GEMINI),
)
"""In lower case and without a slash at the end: there are servers to which neither makes a difference."""

_BY_NAME: Final = {"anthropic": ApiDialect.ANTHROPIC, "gemini": ApiDialect.GEMINI}
_WITHOUT_OUTPUT: Final = re.compile(r".*(?:/count_tokens|:counttokens|:embedcontent|/embeddings)")
_HARMLESS: Final = re.compile(r".*/embeddings")
_MODELS: Final = re.compile(r".*/models(?:/[^/]+){0,2}")
_GEMINI_MODEL: Final = re.compile(r".*/models/([^/:]+):[A-Za-z]+")


def dialect_of(path: str) -> ApiDialect:
    """Return the API that a decoded path belongs to."""
    plain = path.casefold().rstrip("/ ")
    return next((dialect for form, dialect in _BY_PATH if form.fullmatch(plain)), ApiDialect.OTHER)


def error_form(service: Service, path: str) -> ApiDialect:
    """Return the form in which the client of a service expects an error, whatever it has asked for."""
    found = dialect_of(path)
    return found if found is not ApiDialect.OTHER else _BY_NAME.get(service.name, ApiDialect.OTHER)


def generates(path: str) -> bool:
    """Return whether the answer to a request of a decoded path is made of tokens."""
    return _WITHOUT_OUTPUT.fullmatch(path.casefold().rstrip("/ ")) is None


def stores_answers(path: str) -> bool:
    """Return whether the provider may store its answers to requests of a path.

    A compacted conversation is not stored, and its items may have identifiers that the request gave them.
    """
    return path.casefold().rstrip("/ ").endswith("/responses")


def is_harmless(path: str) -> bool:
    """Tell whether an API of no dialect has nothing in its requests that a provider would fetch or run."""
    return _HARMLESS.fullmatch(path) is not None


def lists_models(path: str) -> bool:
    """Return whether a path is that of a provider's models, or of one of them."""
    return _MODELS.fullmatch(path) is not None


def model_in(path: str) -> str | None:
    """Return the model that a path names, as Gemini's do."""
    match = _GEMINI_MODEL.fullmatch(path)
    return match[1] if match else None
