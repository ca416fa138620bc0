"""Sandboxes in JSON: a request becomes a spec, and a sandbox becomes an answer."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from belljar.runtime.context import Context
from belljar.runtime.problems import FieldProblem, ProblemError, refusing
from belljar.runtime.sandbox import Sandbox
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


def sandbox_to_data(context: Context, sandbox: Sandbox) -> dict[str, Any]:
    """Return a sandbox as clients see it."""
    spec, network = sandbox.spec, sandbox.network
    return {
        "id": sandbox.id,
        "status": sandbox.status.value,
        "detail": sandbox.detail,
        "backend": sandbox.backend,
        "image": spec.image,
        "read_only": spec.read_only,
        "isolation": spec.isolation.value,
        "workdir": str(spec.workdir) if spec.workdir is not None else None,
        "mounts": [
            {"source": str(bind.source), "target": str(bind.target), "writable": bind.writable} for bind in spec.binds
        ],
        "limits": {name: value for name, value in spec.limits._asdict().items() if value is not None},
        "labels": dict(sandbox.labels),
        "created_at": sandbox.created_at,
        "ttl": sandbox.ttl,
        "hard_ttl": sandbox.hard_ttl,
        "expires_at": sandbox.expires.at if sandbox.expires else None,
        "hard_expires_at": sandbox.hard_expires.at if sandbox.hard_expires else None,
        "network": {
            "mode": network.base.document["mode"],
            "revision": network.revision,
            "generation": network.generation,
            "grants": len(network.grants),
            "in_force": context.gateway.is_in_force(sandbox.id),
        },
    }


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
