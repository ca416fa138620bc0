"""What an agent could read of what a task hides: tests, the reference solution, the history of a repository.

The files of both sandboxes are listed right after setup, from inside and with the agent's rights. A file of the judge
is hidden if the work sandbox has no file of that path and content. Contents below `_MIN_BYTES` are not compared:
empty and tiny files are alike by chance.
"""

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from belljar.errors import BelljarError, printable
from belljar.harness.judge.archive import SubmissionFilter
from belljar.harness.sandboxes import HarnessSandbox
from belljar.harness.tasks.model import EvalTask
from belljar.sandbox.spec import Command

_MIN_BYTES: Final = 32
_MAX_LISTING: Final = 64 << 20
_MAX_SHOWN: Final = 5
_NO_TOOLS: Final = 3
_GIT_HEAD: Final = "/.git/HEAD"

# Directories come as arguments; $HOME is the agent's. Files that the agent cannot read have a path and no digest.
_LIST_PATHS: Final = 'find "$@" "${HOME:-/nonexistent}" ! -type d -print0 2>/dev/null; :'
_LIST_DIGESTS: Final = f"""\
command -v find >/dev/null && command -v sha256sum >/dev/null || exit {_NO_TOOLS}
find "$@" "${{HOME:-/nonexistent}}" -type f -size +{_MIN_BYTES - 1}c -exec sha256sum -- {{}} + 2>/dev/null; :
"""
_COUNT_COMMITS: Final = 'git -c safe.directory="*" -C "$1" rev-list --all --count 2>/dev/null || echo unknown'
_DIGEST_LINE: Final = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPED: Final = re.compile(rb"\\(.)")
_WILDCARD: Final = re.compile(r"[*?\[]")


class ListingError(BelljarError):
    """The files of a sandbox cannot be listed."""


@dataclass(frozen=True, slots=True)
class FileListing:
    """The files below some directories of a sandbox."""

    paths: frozenset[str]
    digests: Mapping[str, str]
    """SHA-256 by path, of the files that have enough bytes to be compared."""

    commits: Mapping[str, int | None] = field(default_factory=dict)
    """How many commits each git repository has, by its directory; None if that is not known."""

    def relative_to(self, directory: PurePosixPath) -> Mapping[str, str | None]:
        """Return the digests of the files below a directory, by their paths from there."""
        prefix = f"{directory}/"
        return {
            path.removeprefix(prefix): self.digests.get(path) for path in sorted(self.paths) if path.startswith(prefix)
        }


@dataclass(slots=True)
class Exposure:
    """What was found, as sentences for people."""

    hidden: int = 0
    """How many files of the judge are hidden."""

    leaks: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


async def list_files(sandbox: HarnessSandbox, directories: Iterable[PurePosixPath], timeout: float) -> FileListing:
    """List the files below some directories and the agent's home. Raises ListingError."""
    names = tuple(map(str, directories))
    paths = (await _output(sandbox, _LIST_PATHS, names, timeout)).split(b"\0")
    digests = {}
    for line in (await _output(sandbox, _LIST_DIGESTS, names, timeout)).splitlines():
        if match := _DIGEST_LINE.fullmatch(line):
            name = (
                _ESCAPED.sub(lambda found: b"\n" if found[1] == b"n" else found[1], match[3]) if match[1] else match[3]
            )
            digests[os.fsdecode(name)] = match[2].decode()
    found = frozenset(map(os.fsdecode, filter(None, paths)))
    commits = {}
    for path in sorted(path for path in found if path.endswith(_GIT_HEAD)):
        place = path.removesuffix(_GIT_HEAD) or "/"
        count = (await _output(sandbox, _COUNT_COMMITS, (place,), timeout)).strip()
        commits[place] = int(count) if count.isdigit() else None
    return FileListing(found, digests, commits)


def find_exposed(task: EvalTask, work: FileListing, judge: FileListing) -> Exposure:
    """Compare the files of both sandboxes, and those of the reference solution."""
    exposure = Exposure()
    ours, places = work.relative_to(task.cwd), _by_digest(work)
    theirs = judge.relative_to(task.cwd)
    shared = {path for path, digest in theirs.items() if path in ours and ours[path] == digest}
    hidden = {path: digest for path, digest in theirs.items() if path not in shared}
    exposure.hidden = len(hidden)
    exposure.leaks += _leaked_files(hidden, places, work, task.cwd)
    exposure.leaks += _leaked_solution(task.solution, places)
    leaks, doubts = _shared_tests(task, theirs.keys(), shared)
    exposure.leaks += leaks
    exposure.doubts += doubts
    for place, count in work.commits.items():
        if count is None or count > 1:
            many = "a history" if count is None else f"{count} commits"
            exposure.doubts.append(f"{printable(place)} is a git repository with {many}, which may have the answers")
    return exposure


def summarized(sentences: Sequence[str]) -> str:
    """Return the first of several sentences, and how many more there are."""
    more = len(sentences) - _MAX_SHOWN
    return "; ".join(sentences[:_MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _leaked_files(
    hidden: Mapping[str, str | None], places: Mapping[str, str], work: FileListing, cwd: PurePosixPath
) -> Iterator[str]:
    outside = [path for path in work.paths if not path.startswith(f"{cwd}/")]
    # One name alone, such as Makefile, says nothing; a directory and a name do.
    by_tail = {tail: path for path in outside for tail in _tails(path)}
    for path, digest in hidden.items():
        if digest is not None and digest in places:
            yield f"what the judge has as {printable(path)} is in the work sandbox: {printable(places[digest])}"
        elif "/" in path and path in by_tail:
            found = printable(by_tail[path])
            yield f"the work sandbox has a file of the same path as the judge's {printable(path)}: {found}"


def _tails(path: str) -> Iterator[str]:
    parts = path.strip("/").split("/")
    return ("/".join(parts[start:]) for start in range(len(parts) - 1))


def _leaked_solution(directory: Path, places: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
        if path.is_file() and path.stat().st_size >= _MIN_BYTES:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest in places:
                name = printable(str(path.relative_to(directory.parent)))
                yield f"the solution's {name} is in the work sandbox: {printable(places[digest])}"


def _shared_tests(task: EvalTask, theirs: Iterable[str], shared: set[str]) -> tuple[list[str], list[str]]:
    """Return which tests were left for the agent, and which files may be public on purpose.

    What `submit_exclude` names is taken for tests if all of it is in both sandboxes. If some of it is hidden, the
    author has separated tests from public files, and only what `eval_cmd` runs is taken for a test.
    """
    chosen = SubmissionFilter(task.submit_paths, task.submit_exclude)
    excluded: dict[str, set[str]] = {}
    for path in theirs:
        if (pattern := chosen.excluded_by(path)) and not _WILDCARD.search(pattern):
            excluded.setdefault(pattern, set()).add(path)
    every = set[str]().union(*excluded.values())
    words = _words(task.judge.eval_cmd)
    named = {path for path in shared if path in words and chosen.why_not(path) is not None}
    left = every if every <= shared else every & named
    leaks = [f"{printable(path)} is a test, and the work sandbox has it, too" for path in sorted(left)]
    doubts = [f"eval_cmd runs {printable(path)}, and the work sandbox has it, too" for path in sorted(named - left)]
    for pattern, paths in excluded.items():
        public = paths & shared - left
        if public and not paths <= shared:
            doubts.append(f"of {printable(pattern)}, files that both sandboxes have: {len(public)} ({_first(public)})")
    return leaks, doubts


def _first(paths: set[str]) -> str:
    return printable(min(paths)) + (", …" if len(paths) > 1 else "")


def _words(command: str) -> set[str]:
    try:
        return {word.removeprefix("./") for word in shlex.split(command, comments=True)}
    except ValueError:
        return {word.strip("'\"").removeprefix("./") for word in command.split()}


def _by_digest(listing: FileListing) -> dict[str, str]:
    return {digest: path for path, digest in sorted(listing.digests.items(), reverse=True)}


async def _output(sandbox: HarnessSandbox, script: str, arguments: tuple[str, ...], timeout: float) -> bytes:
    command = Command(("/bin/sh", "-c", script, "sh", *arguments))
    with tempfile.TemporaryFile() as output:
        ended = await sandbox.run(command, output, timeout=timeout, limit=_MAX_LISTING)
        output.seek(0)
        content = output.read()
    if ended.exit_code == _NO_TOOLS:
        raise ListingError("the image has no find or no sha256sum; add findutils and coreutils to it")
    if ended.timed_out or ended.exit_code or len(content) >= _MAX_LISTING:
        how = f"took more than {timeout:g} s" if ended.timed_out else f"exited with {ended.exit_code}"
        raise ListingError(
            f"files could not be listed (it {how}, with {len(content)} bytes of output); make fewer files"
        )
    return content
