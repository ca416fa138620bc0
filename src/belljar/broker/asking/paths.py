"""Which requests a service lets through: rules of a method and a path, held against a path that has one meaning.

Servers differ in what they make of a path that can be read in two ways: dots are followed or not, an encoded slash is
a slash or not. So nothing is normalised here. What has two readings is refused, and what is left reads the same to
everyone: it is matched decoded, and sent as it came.

A rule without a star names what it grants, and its author knows what that is. A rule with a star grants paths that its
author has not seen. Under such a rule, a path is refused that a server may put right (a slash at its end, another
case), and one that belongs to the API of a model and is not judged: it may ask the provider for anything.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from belljar.policy.services import Service

_PLAIN: Final = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,=:@/-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_NEVER_ESCAPED: Final = frozenset(
    b"%/\\#?;ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" + bytes(range(0x20)) + b"\x7f"
)
"""What nobody has to escape, and what would be something else where it is decoded once more or not at all."""


_OF_MODEL_APIS: Final = (
    "agents", "assistants", "audio", "batch", "cachedcontents", "chat", "complet", "containers", "conversations",
    "count_tokens", "environments", "evals", "files", "filesearchstores", "fine_tuning", "images", "interactions",
    "messages", "models", "realtime", "rerank", "responses", "search", "sessions", "skills", "threads", "tunedmodels",
    "uploads", "vector_stores", "videos",
)  # fmt: skip
"""How the segments begin by which providers' APIs are told from others, in lower case."""

_SPELLINGS: Final = {
    word.casefold(): word
    for word in (
        "batches", "chat", "compact", "completions", "count_tokens", "countTokens", "embedContent", "embeddings",
        "generateContent", "messages", "models", "responses", "streamGenerateContent",
    )
}  # fmt: skip
"""How the words are spelled by which requests are known that are judged."""


class AmbiguousPathError(ValueError):
    """A path that different servers would read differently. The text says what is wrong with it."""


def decoded(path: str) -> str:
    """Return what a path means to everyone. Raises AmbiguousPathError."""
    if not _PLAIN.fullmatch(path):
        raise AmbiguousPathError("it has a character that does not belong in a path")
    if any(int(escape, 16) in _NEVER_ESCAPED for escape in _ESCAPE.findall(path)):
        raise AmbiguousPathError("it has an escaped character that should not be escaped")
    if "//" in path:
        raise AmbiguousPathError("it has an empty segment")
    if any(segment in {".", ".."} for segment in path.split("/")):
        raise AmbiguousPathError("it has a segment of dots")
    plain = unquote(path, "latin-1")
    if not plain.isascii():
        raise AmbiguousPathError("it has characters other than those of ASCII")
    if any(segment != segment.strip(" ").rstrip(".") for segment in plain.split("/")):
        raise AmbiguousPathError("it has a segment with a space around it, or a dot at its end")
    return plain


def matching_rule(service: Service, method: str, path: str) -> str | None:
    """Return the rule by which a service lets a request through. The path is a decoded one."""
    if not is_below(path, base_of(service.target)):
        return None
    found = [rule for rule in service.paths if matches(rule, method, path)]
    return next(filter(is_exact, found), found[0] if found else None)


def is_exact(rule: str) -> bool:
    """Return whether a rule names the one path that it grants."""
    return "*" not in rule.partition(" ")[2]


def matches(rule: str, method: str, path: str) -> bool:
    """Return whether a rule such as ``GET /v1/models/*`` is met by a request.

    A star stands for any part of a segment, also for nothing, and two that are a segment for one segment or more. They
    stand for nothing that ends in a slash, or has a word of the known APIs in another case.
    """
    wanted, _, pattern = rule.partition(" ")
    if wanted not in {method, "*"}:
        return False
    if is_exact(rule):
        return path == pattern
    return _fits(pattern.split("/"), path.split("/")) and not path.endswith("/") and not _has_other_case(path)


def is_of_model_api(path: str) -> bool:
    """Return whether a path belongs to the API of a model, as far as those are known."""
    return any(segment.casefold().startswith(_OF_MODEL_APIS) for segment in path.split("/"))


def base_of(target: str) -> str:
    """Return the path of a target's URL, without a slash at its end."""
    _, _, after = target.partition("://")
    _, slash, path = after.partition("/")
    return (slash + path).rstrip("/")


def is_below(path: str, base: str) -> bool:
    """Tell whether a path is a target's own or below it."""
    return path == base or path.startswith(f"{base}/")


def allowed(rules: Iterable[str]) -> str:
    """Return rules as a message names them."""
    return ", ".join(rules) or "nothing"


def _has_other_case(path: str) -> bool:
    words = path.replace(":", "/").split("/")
    return any(_SPELLINGS.get(word.casefold(), word) != word for word in words)


def _fits(pattern: list[str], path: list[str]) -> bool:
    """Match segment by segment. A pattern has two stars once at most (`policy.language.services`)."""
    if "**" not in pattern:
        return len(pattern) == len(path) and all(map(_fits_segment, pattern, path))
    before = pattern.index("**")
    after = len(pattern) - before - 1
    return (
        len(path) >= len(pattern)
        and _fits(pattern[:before], path[:before])
        and _fits(pattern[before + 1 :], path[len(path) - after :])
    )


def _fits_segment(pattern: str, path: str) -> bool:
    """Match in linear time: each literal piece is looked for once, from where the last one has ended."""
    first, *others = pattern.split("*")
    if not others:
        return path == pattern
    *middle, last = others
    end = len(path) - len(last)
    if not path.startswith(first) or not path.endswith(last) or end < len(first):
        return False
    at = len(first)
    for piece in middle:
        found = path.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
