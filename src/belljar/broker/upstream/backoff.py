"""A provider that asks for patience asks all who use the same key and model: while it lasts, none of them asks.

Which model that is, the sandboxes say, and how long, the provider; so neither may keep others waiting for long.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import Final

from belljar.broker.refusals import RefusedRequest
from belljar.broker.secrets import Secret

_BUSY: Final = frozenset({429, 503, 529})
_MAX_SECONDS: Final = 60.0
"""Afterwards one request is let through, whatever the provider has asked for, and shows whether it still holds."""

_MAX_KEYS: Final = 1024


class Backoff:
    """Until when nobody asks, for each upstream, key and model."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = dict[bytes, float]()

    def check(self, key: bytes) -> None:
        """Refuse a request while the provider wants patience. Raises RefusedRequest."""
        left = self._until.get(key, 0) - self._clock()
        if left > 0:
            seconds = int(left) + 1
            raise RefusedRequest(
                429,
                "provider.busy",
                f"the provider has asked all who use this key and model to wait; ask again in {seconds} s",
                retry_after=seconds,
            )
        self._until.pop(key, None)

    def learn(self, key: bytes, status: int, retry_after: bytes | None) -> None:
        """Remember what an answer says."""
        if status in _BUSY and retry_after is not None and (seconds := _seconds(retry_after)) > 0:
            now = self._clock()
            self._until = {each: until for each, until in self._until.items() if until > now}
            if len(self._until) < _MAX_KEYS:
                self._until[key] = now + min(seconds, _MAX_SECONDS)


def key_of(target: str, headers: Iterable[tuple[str, Secret]], model: str | None) -> bytes:
    """Return what stands for an upstream, a key and a model, without being one."""
    text = "\n".join([target, model or "", *(f"{name}: {value.reveal()}" for name, value in headers)])
    return hashlib.sha256(text.encode()).digest()


def _seconds(value: bytes) -> float:
    text = value.decode("latin-1").strip()
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else _until_date(text)
    except (ValueError, OverflowError):
        return 0.0


def _until_date(text: str) -> float:
    return parsedate_to_datetime(text).timestamp() - time.time()
