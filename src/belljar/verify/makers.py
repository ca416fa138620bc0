"""What makes the sandboxes of a run, by the name of its backend."""

import os
from typing import Literal

from belljar.verify.localtrial import local_maker
from belljar.verify.trial import Maker

BackendName = Literal["local", "docker", "podman"]


def maker_of(backend: BackendName) -> Maker:
    """Return what makes the sandboxes of a backend. Raises MachineError."""
    if backend == "local":
        return local_maker()
    from belljar.verify.containers import containers  # noqa: PLC0415 - whoever needs no engine does not wait for it

    return containers(backend, os.environ)
