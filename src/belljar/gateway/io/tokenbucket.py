"""A rate with patience: so many at once, so many a second in the long run."""


class TokenBucket:
    """Starts full; every admission takes a token, time brings them back."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens = burst
        self._at: float | None = None

    def admit(self, now: float) -> bool:
        """Tell whether one more fits in; a clock that was set back brings nothing, and takes nothing away."""
        if self._at is not None and now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
