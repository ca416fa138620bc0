"""Which requests a service lets through: rules of a method and a path, held against a path that has one meaning.

Servers differ in what they make of a path that can be read in two ways: dots are followed or not, an encoded slash is
a slash or not. So nothing is normalised here. What has two readings is refused, and what is left reads the same to
everyone: it is matched decoded, and sent as it came.
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
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise AmbiguousPathError("it has escapes that are not UTF-8") from None


def matching_rule(service: Service, method: str, path: str) -> str | None:
    """Return the rule by which a service lets a request through. The path is a decoded one."""
    if not is_below(path, base_of(service.target)):
        return None
    return next((rule for rule in service.paths if matches(rule, method, path)), None)


def matches(rule: str, method: str, path: str) -> bool:
    """Tell whether a rule such as ``GET /v1/models*`` is met; a star stands for anything, also for nothing."""
    wanted, _, pattern = rule.partition(" ")
    return wanted in {method, "*"} and _fits(pattern.strip(), path)


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


def _fits(pattern: str, path: str) -> bool:
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
