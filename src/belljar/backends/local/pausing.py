"""A sandbox is paused: its processes stop where they are.

Where it has a control group that can be frozen, they do not even notice. Elsewhere every process gets a signal that
none can refuse, the first one included: that one takes no signals from inside, so by its state anybody can tell that a
sandbox is paused. (A process that had stopped itself before is set going by `resume`, too.)
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from belljar.backends.interface import GoneError, LostError
from belljar.backends.local.records import Record
from belljar.linux.cgroups import freezing
from belljar.linux.lives import is_stopped

_SECONDS: Final = 10.0
_PAUSE: Final = 0.001

SendAll = Callable[[int], None]
"""Sends a signal to every process inside."""


def pause(record: Record, send_all: SendAll) -> None:
    """Stop every process. Raises GoneError, LostError."""
    _switch(record, send_all, paused=True)


def resume(record: Record, send_all: SendAll) -> None:
    """Let every process go on. Raises GoneError, LostError."""
    _switch(record, send_all, paused=False)


def is_paused(record: Record) -> bool:
    """Tell whether a sandbox is paused. Raises GoneError."""
    try:
        return freezing.is_frozen(Path(record.freezer)) if record.freezer else is_stopped(record.init.pid)
    except (ProcessLookupError, FileNotFoundError):
        raise GoneError("the sandbox has ended") from None


def _switch(record: Record, send_all: SendAll, *, paused: bool) -> None:
    if record.freezer is not None:
        try:
            freezing.freeze(Path(record.freezer), frozen=paused)
        except (OSError, TimeoutError) as error:
            raise LostError(f"the sandbox cannot be paused or resumed: {error}") from error
        return
    number = signal.SIGSTOP if paused else signal.SIGCONT
    send_all(number)
    deadline = time.monotonic() + _SECONDS
    while is_paused(record) is not paused:
        if time.monotonic() > deadline:
            raise LostError("the sandbox does not react to signals; look at the load of this machine")
        time.sleep(_PAUSE)
