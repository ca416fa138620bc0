"""The universe itself."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeVar

from tests.universe.certificates import Certificates
from tests.universe.hosts import Hosts
from tests.universe.sandboxes import Sandbox
from tests.universe.wire import Wire
from tests.universe.zone import ZONE

T = TypeVar("T")


class Universe:
    """The internet, the gateway's place, the wire between them, and as many sandboxes as wanted."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._directory = Path(stack.enter_context(TemporaryDirectory(prefix=f"universe-{os.getpid()}-")))
            self.certificates = Certificates(self._directory)
            self.zone = dict(ZONE)
            """The names. A test may add its own; `forget` takes them away again."""
            self.internet = Hosts("internet", self.certificates, self.zone)
            stack.callback(self.internet.close)
            self.gateway = Hosts("gateway", self.certificates, {})
            """Where the gateway runs. Whoever reaches the services here has reached the host through it."""
            stack.callback(self.gateway.close)
            self.wire = Wire(self.gateway, self.internet)
            stack.callback(self.wire.close)
            for place in (self.internet, self.gateway):
                place.open()
            self._stack = stack.pop_all()

    def sandbox(self) -> Sandbox:
        """Make a sealed sandbox, whose doors nobody serves yet."""
        return Sandbox(self._directory)

    def in_gateway(self, function: Callable[[], T]) -> T:
        """Do something where the gateway runs."""
        return self.gateway.call(function)

    def in_internet(self, function: Callable[[], T]) -> T:
        """Do something in the internet."""
        return self.internet.call(function)

    def forget(self) -> None:
        """Have all witnesses start with a clean sheet, and the zone be as it was."""
        self.internet.forget()
        self.gateway.forget()
        self.wire.forget()
        self.zone.clear()
        self.zone.update(ZONE)

    def close(self) -> None:
        """End it all."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
