"""A container of Podman's own making, where Docker's terms would lose something.

For an ordinary user, Podman leaves out the limits on processes when it is asked in Docker's terms, and with them the
one that keeps crashes from the host's programs. Its own terms have them; all else says the same in other words.
"""

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine

API: Final = "/v4.0.0/libpod"

_PERIOD: Final = 100_000
"""Microseconds in which processor time is counted."""


def podman(engine: Engine) -> Engine:
    """Return the engine, to be asked in its own terms."""
    return replace(engine, api=API)


def create(engine: Engine, configuration: Mapping[str, Any], name: str) -> str:
    """Make a container from what would be asked of Docker; return its id. Raises EngineError, EngineLostError."""
    return str(podman(engine).post("/containers/create", _translated(configuration) | {"name": name})["Id"])


def _translated(configuration: Mapping[str, Any]) -> dict[str, Any]:
    host = configuration["HostConfig"]
    wanted = {
        "image": configuration["Image"],
        "user": configuration["User"] or None,
        "entrypoint": configuration["Entrypoint"],
        "env": dict(entry.split("=", 1) for entry in configuration["Env"]),
        "work_dir": configuration["WorkingDir"],
        "stop_signal": signal.Signals[configuration["StopSignal"]].value,
        "hostname": configuration["Hostname"],
        "labels": configuration["Labels"],
        "healthconfig": configuration.get("Healthcheck"),
        "netns": {"nsmode": host["NetworkMode"]} if "NetworkMode" in host else None,
        "userns": {"nsmode": host["UsernsMode"]} if host["UsernsMode"] else None,
        "ipcns": {"nsmode": host["IpcMode"]},
        "cgroupns": {"nsmode": host["CgroupnsMode"]},
        "sysctl": host.get("Sysctls"),
        "mounts": [*map(_bind, host["Binds"]), *(_memory(*item) for item in host["Tmpfs"].items())],
        "volumes": [_volume(mount) for mount in host["Mounts"]] or None,
        "cap_drop": host["CapDrop"],
        **_security(host["SecurityOpt"]),
        "read_only_filesystem": host["ReadonlyRootfs"],
        "restart_policy": host["RestartPolicy"]["Name"],
        "log_configuration": {"driver": host["LogConfig"]["Type"]},
        "image_volume_mode": "anonymous",
        "systemd": "false",
        "r_limits": [_limit(limit) for limit in host["Ulimits"]],
        "resource_limits": _resources(host),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _bind(written: str) -> dict[str, Any]:
    source, target, access = written.split(":")
    return {"type": "bind", "source": source, "destination": target, "options": ["rbind", "rprivate", access]}


def _memory(place: str, options: str) -> dict[str, Any]:
    return {"type": "tmpfs", "source": "tmpfs", "destination": place, "options": options.split(",")}


def _volume(mount: Mapping[str, Any]) -> dict[str, Any]:
    return {"Dest": mount["Target"], "IsAnonymous": True, "Options": ["nocopy"]}


def _security(options: list[str]) -> dict[str, Any]:
    filters = [option.removeprefix("seccomp=") for option in options if option.startswith("seccomp=")]
    return {"no_new_privileges": "no-new-privileges" in options, "seccomp_profile_path": filters[0]}


def _limit(limit: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": limit["Name"], "soft": limit["Soft"], "hard": limit["Hard"]}


def _resources(host: Mapping[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if "PidsLimit" in host:
        wanted["pids"] = {"limit": host["PidsLimit"]}
    if "Memory" in host:
        wanted["memory"] = {"limit": host["Memory"], "swap": host["MemorySwap"]}
    if "NanoCpus" in host:
        wanted["cpu"] = {"period": _PERIOD, "quota": host["NanoCpus"] * _PERIOD // 1_000_000_000}
    return wanted
