"""Tasks that wait for something to be so, however it comes about."""

from collections.abc import Callable

from belljar.gateway.io.loop import Loop


class Waiting:
    """Those who wait. Each looks for itself, whenever somebody says that something has changed."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._wakes: list[Callable[[], None]] = []

    async def until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so, and tell whether it is in time."""
        try:
            with self._loop.timeout(seconds):
                while not is_so():
                    await self._loop.wait_for(self._arrange)
        except TimeoutError:
            return is_so()
        return True

    def look_again(self) -> None:
        """Say that something has changed."""
        if self._wakes:
            self._loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake()

    def _arrange(self, wake: Callable[[], None]) -> Callable[[], None]:
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake) if wake in self._wakes else None
