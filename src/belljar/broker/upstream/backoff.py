"""A provider that asks for patience asks all who use the same key: while it lasts, none of them bothers it."""

import hashlib
import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import Final

from belljar.broker.refusals import RefusedRequest
from belljar.broker.secrets import Secret

_BUSY: Final = frozenset({429, 503, 529})
_LONGEST: Final = 3600.0


class Backoff:
    """Until when nobody asks, for each upstream and key."""

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
                f"the provider has asked everyone who uses this key to wait; ask again in {seconds} s",
                retry_after=seconds,
            )
        self._until.pop(key, None)

    def learn(self, key: bytes, status: int, retry_after: bytes | None) -> None:
        """Remember what an answer says."""
        if status in _BUSY and retry_after is not None and (seconds := _seconds(retry_after)) > 0:
            self._until[key] = self._clock() + min(seconds, _LONGEST)


def key_of(target: str, headers: Iterable[tuple[str, Secret]]) -> bytes:
    """Return what stands for an upstream and a key, without being one."""
    text = "\n".join([target, *(f"{name}: {value.reveal()}" for name, value in headers)])
    return hashlib.sha256(text.encode()).digest()


def _seconds(value: bytes) -> float:
    text = value.decode("latin-1").strip()
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else _until_date(text)
    except (ValueError, OverflowError):
        return 0.0


def _until_date(text: str) -> float:
    return parsedate_to_datetime(text).timestamp() - time.time()
