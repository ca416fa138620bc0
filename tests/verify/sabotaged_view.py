"""Runs the self-test on a sandbox that sees, writes to or may use more than it should, and prints its report.

Arguments: what is off, and probes. What is replaced is replaced in the process that makes the sandbox.
"""

import os
import sys
from pathlib import Path
from typing import Any

from belljar.backends.local import running
from belljar.backends.local.child import bubblewrap, staging
from belljar.backends.local.child.stage import Stage
from belljar.linux import sharedmemory
from belljar.linux.files import mounts
from belljar.linux.seccomp import callfilter
from belljar.sandbox.files import gitplaces, ownplaces, protected
from belljar.sandbox.spec import Bind
from belljar.verify.verifying import verify
from tests.verify.sabotaged import replace

_CALLERS_HOME = Path(os.environ["HOME"])
"""Whoever makes the sandbox has another one by then."""


def set_ids_allowed():
    replace(callfilter, "_modes", lambda machine: [])


def set_ids_allowed_to_unnamed_files():
    replace(callfilter, "MAKING", os.O_CREAT)


def writable_settings():
    _view_without("--ro-bind", "/proc/sys", "/proc/sys")


def shared_control_groups():
    _without_wall("--unshare-cgroup-try")


def project_unprotected():
    replace(protected, "PLACES", ())


def a_place_unprotected():
    replace(protected, "PLACES", tuple(place for place in protected.PLACES if place != ".zed"))


def submodules_unprotected():
    replace(protected, "_submodules", lambda workdir: ())


def repositories_unprotected():
    replace(gitplaces, "protect", lambda *_: [])


def directories_above_not_pinned():
    replace(protected, "pinned", lambda workdir, places: [])


def own_places_unprotected():
    replace(ownplaces, "kept_in", lambda *_: [])


def writable_root():
    _view_without("--remount-ro", "/")


def writable_devices():
    _view_without("--remount-ro", "/dev")


def memory_of_the_host():
    def source(self, shown):
        return shown if shown == Path("/dev/shm") else before(self, shown)

    before = replace(Stage, "source", source)


def memory_without_size():
    _mount_memory_without("size=")


def memory_without_count_of_files():
    _mount_memory_without("nr_inodes=")


def home_shown():
    def with_home(spec, workdir, home, files):
        shown = view_of(spec, workdir, home, files)
        return shown._replace(binds=(*shown.binds, *(Bind(path, path, False) for path in home.iterdir())))

    view_of = replace(running, "view_of", with_home)


def home_of_the_caller_shown():
    def with_home(spec, workdir, home, files):
        shown = view_of(spec, workdir, home, files)
        return shown._replace(binds=(*shown.binds, Bind(_CALLERS_HOME, _CALLERS_HOME, False)))

    view_of = replace(running, "view_of", with_home)


def no_screens():
    """Show the system and the user's tools as they are, read-only."""

    def show_as_it_is(target: Path, *layers: str) -> None:
        mounts.bind(next(layer for layer in layers if layer.startswith("/proc/self/fd/")), target)

    replace(mounts, "mount_overlay", show_as_it_is)


def limits_off():
    replace(staging, "_OF_A_PROCESS", {})
    replace(staging, "_OF_A_USER", {})


def shared_memory_without_bound():
    replace(sharedmemory, "bound", lambda size: True)


def _mount_memory_without(bound: str) -> None:
    def mount(target: Path, options: str = "mode=0755") -> None:
        before(target, ",".join(option for option in options.split(",") if not option.startswith(bound)))

    before = replace(mounts, "mount_tmpfs", mount)


def namespaces_left_to_the_filter():
    _without_wall("--disable-userns")


def no_control_group():
    replace(running, "default_group", lambda: None)


def _without_wall(wall: str) -> None:
    assert wall in bubblewrap._WALLS
    replace(bubblewrap, "_WALLS", tuple(word for word in bubblewrap._WALLS if word != wall))


def _view_without(*words: str) -> None:
    """Leave some words out of what bubblewrap is asked for."""

    def view(*parts: Any) -> list[str]:
        asked = list(before(*parts))
        start = next(start for start in range(len(asked)) if asked[start : start + len(words)] == list(words))
        return asked[:start] + asked[start + len(words) :]

    before = replace(bubblewrap, "_view", view)


if __name__ == "__main__":
    layer, *only = sys.argv[1:]
    sys.stdout.write(verify(only=only, prepare=globals()[layer]).as_json())
