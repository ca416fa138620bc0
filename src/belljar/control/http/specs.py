"""From the body of a request to a sandbox's description."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from belljar.runtime.problems import FieldProblem, ProblemError, refusing
from belljar.sandbox.spec import Bind, Isolation, ResourceLimits, SandboxSpec


def spec_from(body: Mapping[str, Any], state: Path) -> SandboxSpec:
    """Return what a client wants, as backends understand it. Raises ProblemError."""
    limits = body.get("limits") or {}
    binds = tuple(
        Bind(
            _shown_inside(mount["source"], state, f"mounts[{index}].source"),
            Path(mount.get("target") or mount["source"]),
            writable=mount.get("writable", False),
        )
        for index, mount in enumerate(body.get("mounts", ()))
    )
    return SandboxSpec(
        image=body.get("image"),
        read_only=body.get("read_only", False),
        isolation=Isolation(body.get("isolation", Isolation.SEALED)),
        workdir=_shown_inside(body["workdir"], state, "workdir") if body.get("workdir") else None,
        environment=body.get("env", {}),
        binds=binds,
        limits=ResourceLimits(limits.get("cpus"), limits.get("memory_bytes")),
    )


def _shown_inside(place: str, state: Path, field: str) -> Path:
    """Return a place of the host that a sandbox may see. Raises ProblemError for one where the server's state is."""
    path = Path(place)
    if not path.is_absolute() or "\0" in place:
        raise refusing("invalid_request", [FieldProblem(field, f"{place!a} is no path from the root; write one")])
    try:
        real = Path(os.path.realpath(path))
        with suppress(FileNotFoundError, NotADirectoryError):  # some backends have files of their own
            real.stat()
    except OSError as error:
        raise refusing(
            "invalid_request", [FieldProblem(field, f"{place} cannot be read here ({error.strerror}); name another")]
        ) from None
    if real.is_relative_to(state) or state.is_relative_to(real):
        raise ProblemError(
            "state_exposed",
            f"{place} holds this server's token and socket, or is among them; name a directory beside {state}",
            field=field,
        )
    if real != path:
        # An agent may have made the link, in a directory that an earlier sandbox had.
        raise refusing(
            "invalid_request", [FieldProblem(field, f"{place} is a link, or behind one; name {real} if you mean that")]
        )
    return real
