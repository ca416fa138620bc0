"""Where a run's broker keeps what it counts, and its socket for a moment: nowhere that a sandbox could write to."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from belljar.errors import BelljarError
from belljar.sandbox.files.ownplaces import caches


def make_broker_place(environment: Mapping[str, str], exposed: Iterable[Path]) -> "tempfile.TemporaryDirectory[str]":
    """Make a directory that is nobody else's, outside of what is exposed. Raises BelljarError."""
    exposed = tuple(exposed)
    for above in _candidates(environment):
        if not any(map(above.is_relative_to, exposed)):
            try:
                above.mkdir(mode=0o700, parents=True, exist_ok=True)
                return tempfile.TemporaryDirectory(dir=above, prefix="belljar-broker-")
            except OSError:
                continue
    raise BelljarError(
        "there is no place for what a broker counts; set XDG_CACHE_HOME to a directory that can be written to, and is "
        "not shown in the sandbox"
    )


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    runtime = environment.get("XDG_RUNTIME_DIR")
    return [
        (caches(environment) / "brokers").absolute(),
        *([Path(runtime)] if runtime and os.path.isabs(runtime) else []),  # noqa: PTH117 - as it is written
        Path(tempfile.gettempdir()).resolve(),
    ]
