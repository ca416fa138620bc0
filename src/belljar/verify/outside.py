"""What is checked from outside: before the sandbox starts, and after it has ended."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from belljar.discovery import TOOLS, ToolNotFoundError, discover
from belljar.discovery.asking import Machine
from belljar.gateway.audit.events import EVENTS
from belljar.policy import InvalidPolicyError, Syntax, read_policy
from belljar.sandbox.files.homes import homes_of_user
from belljar.verify.catalogue import title
from belljar.verify.probes.host.mounttable import mounted
from belljar.verify.probes.host.planted import (
    LEFT_HOST,
    LEFT_NAMES,
    LEFT_PROGRAMS,
    LEFT_SETTINGS,
    LEFT_TRACE,
    POLICY_OF_THE_MACHINE,
    WRITTEN,
)
from belljar.verify.report import ProbeVerdict, Result
from belljar.verify.workshop import Workshop

_NO_POLICIES: Final = (
    "", "{}", "[]", "null", "allow-all", "mode:", "mode: open", "mode: [allow-all]", "mode: \"block-all", "egress: {}",
    "mode: block-all\nmode: x", "mode: block-all\n---\nmode: allow-all", "\0",
    "mode: block-all\negress: {allowed_domains: ['*']}",
)  # fmt: skip

_EVERYBODYS: Final = tuple(map(Path, ("/", "/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "/home", "/var")))  # noqa: S108


def policies_are_refused() -> Result:
    """Check that what is no policy is not taken for one."""
    taken = []
    for text in _NO_POLICIES:
        try:
            read_policy(text, Syntax.YAML)
        except InvalidPolicyError:
            continue
        taken.append(text)
    evidence = f"taken: {taken}" if taken else f"{len(_NO_POLICIES)} documents refused"
    return _result(1, "invalid-policies", "documents that are no policy", holds=not taken, evidence=evidence)


def planted_files_are_as_before(workshop: Workshop) -> Result:
    """Check that the host's tools would run what they would have run before."""
    changed = workshop.changed()
    evidence = f"changed: {', '.join(changed)}" if changed else "as they were"
    return _result(58, "seen-from-outside", "the same files, seen from outside", holds=not changed, evidence=evidence)


def nothing_was_written_elsewhere(workshop: Workshop) -> Result:
    """Check that no place of the host's was among those that could be written to."""
    name = WRITTEN.format(workshop=workshop.directory.name)
    places = {*_EVERYBODYS, workshop.home, *homes_of_user(os.environ), *(mount.place for mount in mounted())}
    found = sorted(str(place) for place in places if os.path.lexists(place / name))
    for place in found:
        with suppress(OSError):
            (Path(place) / name).unlink()
    evidence = f"found in: {', '.join(found)}" if found else f"nothing in {len(places)} places"
    return _result(59, "seen-from-outside", "the files that were written", holds=not found, evidence=evidence)


def left_programs_are_not_asked(workshop: Workshop) -> Result:
    """Check that presets neither run nor believe what was left, although every variable leads there."""
    left = [workshop.workdir / LEFT_PROGRAMS / name for name in LEFT_NAMES]
    asked: list[tuple[str, dict[str, str]]] = [(tool, {}) for tool in TOOLS]
    for variable, (tool, place, _) in LEFT_SETTINGS.items():
        file = workshop.workdir / place
        asked.append((tool, {variable: str(file.parent if variable.endswith("HOME") else file)}))
    path = f"{workshop.workdir / LEFT_PROGRAMS}:{os.environ.get('PATH', '')}"
    believed = set()
    for tool, variables in asked:
        with suppress(ToolNotFoundError):
            hosts = discover(tool, Machine({**os.environ, **variables, "PATH": path}))
            believed |= {tool for found in hosts if found.host == LEFT_HOST}
    faults = {
        "nothing was left": not all(os.access(program, os.X_OK) for program in left),
        "a program was run": (workshop.workdir / LEFT_TRACE).exists(),
        f"settings were believed: {', '.join(sorted(believed))}": bool(believed),
    }
    found = [fault for fault, holds in faults.items() if holds]
    evidence = "; ".join(found) or "no program was run, and no settings were believed"
    return _result(61, "seen-from-outside", "presets, with what was left in reach", holds=not found, evidence=evidence)


def policy_of_the_machine() -> bytes | None:
    """Return what is where somebody could look for everybody's policy."""
    try:
        return POLICY_OF_THE_MACHINE.read_bytes()
    except OSError:
        return None


def policy_is_as_before(before: bytes | None) -> Result:
    """Check that no policy was written where the host would find it."""
    holds = policy_of_the_machine() == before
    evidence = f"{POLICY_OF_THE_MACHINE} is as it was" if holds else f"{POLICY_OF_THE_MACHINE} was changed"
    return _result(
        53, "seen-from-outside", "the machine's own policy, seen from outside", holds=holds, evidence=evidence
    )


def audit_is_intact(workshop: Workshop) -> Result:
    """Check that nothing a client said has made a line of its own in the log, or a part of one."""
    lines = workshop.audit.read_bytes().splitlines()
    strange = [line for line in lines if not _is_event(line)]
    evidence = f"not an event: {strange[0]!a}" if strange else f"{len(lines)} lines, each one event"
    return _result(51, "audit", "hosts with line ends and control characters, in the log",
                   holds=bool(lines) and not strange, evidence=evidence)  # fmt: skip


def _is_event(line: bytes) -> bool:
    try:
        event = json.loads(line)["event"]
    except (ValueError, LookupError, TypeError):
        return False
    return event in EVENTS.values() and line.isascii() and line.decode().isprintable()


def _result(way_out: int, slug: str, tried: str, *, holds: bool, evidence: str) -> Result:
    return Result(
        f"{way_out}-{slug}", title(way_out), tried, ProbeVerdict.HOLDS if holds else ProbeVerdict.BROKEN, evidence
    )
