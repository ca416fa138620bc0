"""The paths of a task: where work is done, and what of it is submitted."""

from pathlib import PurePosixPath
from typing import Final

from belljar.harness.mappings import StrictMapping, quote

_DEFAULT_EXCLUDE: Final = ("tests",)
_NOWHERE: Final = PurePosixPath("/nonexistent")


def read_cwd(keys: StrictMapping) -> PurePosixPath:
    """Read the working directory of both sandboxes."""
    text = keys.words("cwd")
    path = PurePosixPath(text)
    if not text:
        return _NOWHERE  # which was noted
    if not path.is_absolute() or ".." in path.parts or text.startswith("//"):
        keys.fail("cwd", f'is {quote(text)}; write an absolute path without "..", such as "/home/workspace/task"')
        return _NOWHERE
    if path == PurePosixPath("/"):
        keys.fail("cwd", 'is the root of all files; write a directory of the task\'s own: "/home/workspace/task"')
    return path


def read_submit_paths(keys: StrictMapping) -> tuple[str, ...]:
    """Read what is submitted, relative to the working directory."""
    paths = keys.texts("submit_paths")
    if keys.value("submit_paths") == []:
        keys.fail("submit_paths", 'is empty, so nothing would be submitted; write ["."] for everything')
    for index, path in enumerate(paths):
        _check_relative(keys, f"submit_paths[{index}]", path)
    return paths


def read_submit_exclude(keys: StrictMapping) -> tuple[str, ...]:
    """Read what is left out of a submission: prefixes and patterns, without slashes at their ends."""
    entries = keys.texts("submit_exclude", _DEFAULT_EXCLUDE)
    for index, entry in enumerate(entries):
        _check_relative(keys, f"submit_exclude[{index}]", entry)
    return tuple(entry.rstrip("/") for entry in entries)


def _check_relative(keys: StrictMapping, place: str, path: str) -> None:
    # The submit command of SForge's images gets paths in a variable, with spaces between them.
    if any(map(str.isspace, path)):
        keys.fail(place, f"is {quote(path)}, and the submit command separates paths by spaces; rename it without")
    elif not path.strip("/") or not path.isprintable():
        keys.fail(place, f'is {quote(path)}; write a path in the working directory, such as "src/"')
    elif path.startswith("/") or ".." in PurePosixPath(path).parts:
        keys.fail(place, f'is {quote(path)}; write a path that is relative to cwd, without "..": "src/"')
