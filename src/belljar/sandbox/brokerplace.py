"""Where a run's broker keeps what it counts, and its socket for a moment: nowhere that a sandbox could write to."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from belljar.broker.starting import GROUPS
from belljar.errors import BelljarError
from belljar.policy.services import Service
from belljar.sandbox.files.ownplaces import caches
from belljar.statedir import default_state


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


def share_groups(place: Path, services: Iterable[Service], environment: Mapping[str, str]) -> None:
    """Have the broker of a run count groups together with those of this user's other runs. Raises BelljarError.

    The state directory is shown in no sandbox, whether it is there or not.
    """
    shared = {service.name: service.shared.budget for service in services if service.shared is not None}
    for name, budget in shared.items():
        if budget.at_once is not None:
            raise BelljarError(
                f"services.{name}.shared_budget: at_once is counted for one run alone; leave it out, or make the "
                "sandboxes with `belljar serve`, which counts it for all of them"
            )
    if not shared:
        return
    state = default_state(environment)
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        for directory in (state, state / GROUPS):
            directory.mkdir(mode=0o700, exist_ok=True)
            status = directory.stat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise BelljarError(f"{directory} is open to others, or another's; chmod 700 it: budgets are kept there")
        (place / GROUPS).symlink_to((state / GROUPS).absolute())
    except OSError as error:
        raise BelljarError(
            f"a shared_budget is kept in {state}, which cannot be made ({error.strerror}); set XDG_STATE_HOME to a "
            "directory that can be written to, and is not shown in the sandbox"
        ) from None


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    runtime = environment.get("XDG_RUNTIME_DIR")
    return [
        (caches(environment) / "brokers").absolute(),
        *([Path(runtime)] if runtime and os.path.isabs(runtime) else []),  # noqa: PTH117 - as it is written
        Path(tempfile.gettempdir()).resolve(),
    ]
