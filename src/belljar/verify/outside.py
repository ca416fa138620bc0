"""What is checked from outside: before the sandbox starts, and after it has ended."""

import json
from typing import Final

from belljar.policy import InvalidPolicyError, Syntax, read_policy
from belljar.verify.catalogue import title
from belljar.verify.probes.planted import POLICY_OF_THE_MACHINE
from belljar.verify.report import Outcome, Result
from belljar.verify.workshop import Workshop

_NO_POLICIES: Final = (
    "", "{}", "[]", "null", "allow-all", "mode:", "mode: open", "mode: [allow-all]", "mode: \"block-all", "egress: {}",
    "mode: block-all\nmode: x", "mode: block-all\n---\nmode: allow-all", "\0",
    "mode: block-all\negress: {allowed_domains: ['*']}",
)  # fmt: skip


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
    """Check that nothing a client said has made a line of its own in the log."""
    lines = workshop.audit.read_text(errors="replace").splitlines()
    try:
        are_events = all("event" in json.loads(line) for line in lines)
    except ValueError:
        are_events = False
    return _result(51, "audit", "hosts with line ends and control characters, in the log",
                   holds=bool(lines) and are_events, evidence=f"{len(lines)} lines, each one event")  # fmt: skip


def _result(way_out: int, slug: str, tried: str, *, holds: bool, evidence: str) -> Result:
    return Result(f"{way_out}-{slug}", title(way_out), tried, Outcome.HOLDS if holds else Outcome.BROKEN, evidence)
