"""What became of a run: what was reached, what was denied and why, and what would allow it."""

import codecs
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import click

from belljar.cli.options.amounts import written_bytes
from belljar.policy import Reason
from belljar.sandbox.files.changes import Changes
from belljar.sandbox.ledger import Ledger, UsedDestination

_WEB_PORTS = (80, 443, None)
_SHOWN_CHANGES = 10

_escape: Final = codecs.getencoder("unicode_escape")
"""Looked up here, because that imports it, and by the time of a summary a command has run."""


def as_text(ledger: Ledger, changes: Changes) -> str:
    """Return the summary for a person; empty if there is nothing to tell."""
    return "".join(f"{line}\n" for line in _lines(ledger, changes))


def _lines(ledger: Ledger, changes: Changes) -> Iterator[str]:
    yield from _reached(ledger)
    yield from _used(ledger)
    yield from _failed(ledger)
    yield from _denied(ledger)
    yield from _changed(changes)


def as_object(ledger: Ledger, changes: Changes, exit_code: int) -> dict[str, Any]:
    """Return the summary for a program."""
    return {
        "exit_code": exit_code,
        "runnable_changes": changes.names,
        "runnable_changes_complete": changes.complete,
        "reached": [
            {"destination": str(where), "flows": sums.flows, "bytes_up": sums.bytes_up, "bytes_down": sums.bytes_down}
            for where, sums in ledger.reached.items()
        ],
        "services": {name: asdict(sums) for name, sums in ledger.used.items()},
        "failed": [
            {"destination": str(where), "error": why.error, "times": why.times} for where, why in ledger.failed.items()
        ],
        "denied": [
            {
                "destination": str(where),
                "reason": why.reason,
                "sentence": why.sentence,
                "times": why.times,
                "allow_with": remedy(where, why.reason),
            }
            for where, why in _without_echoes(ledger).items()
        ],
    }


def remedy(where: UsedDestination, reason: str) -> str | None:
    """Return the option that would allow a destination, if there is one."""
    if reason in (Reason.NOT_ALLOWED_DOMAIN, Reason.PORT_NOT_ALLOWED) and where.name is not None:
        return f"--allow {where.name}" if where.port in _WEB_PORTS else f"--allow {where.name}:{where.port}"
    if reason == Reason.NOT_ALLOWED_ADDRESS and where.address is not None:
        return f"--allow-cidr {where.address}"
    if reason == Reason.HOST_PORT_NOT_ALLOWED:
        return f"--host-port {where.port or 'PORT'}"
    return None


def _reached(ledger: Ledger) -> list[str]:
    if not ledger.reached:
        return []
    width = max(len(str(where)) for where in ledger.reached)
    lines = [
        f"  {click.style('✓', fg='green')} {where!s:<{width}}  {_times(sums.flows, 'connection')},"
        f" {written_bytes(sums.bytes_up)} sent, {written_bytes(sums.bytes_down)} received"
        for where, sums in sorted(ledger.reached.items(), key=lambda item: -item[1].bytes_down)
    ]
    return ["belljar: reached", *lines]


def _used(ledger: Ledger) -> list[str]:
    lines = []
    for name, sums in ledger.used.items():
        parts = [_times(sums.requests, "request"), f"{sums.input_tokens} tokens in, {sums.output_tokens} out"]
        parts += [f"${sums.dollars:.4f}"] if sums.dollars is not None else []
        parts += [f"{sums.refused} failed ({_reasons(sums.refused_for)})"] if sums.refused else []
        mark = click.style("✗", fg="red") if sums.refused == sums.requests else click.style("✓", fg="green")
        lines.append(f"  {mark} {name}  {', '.join(parts)}")
    return ["belljar: used", *lines] if lines else []


def _reasons(times: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count} times" if count > 1 else reason for reason, count in times.items())


def _failed(ledger: Ledger) -> list[str]:
    lines = []
    for where, why in ledger.failed.items():
        times = f" ({why.times} times)" if why.times > 1 else ""
        lines.append(f"  {click.style('✗', fg='red')} {where}{times}: {why.error}")
    return ["belljar: allowed, and not reached", *lines] if lines else []


def _denied(ledger: Ledger) -> list[str]:
    denied = _without_echoes(ledger)
    lines = []
    for where, why in denied.items():
        times = f" ({why.times} times)" if why.times > 1 else ""
        option = remedy(where, why.reason)
        advice = f"  allow it with: {option}" if option else ""
        lines.append(f"  {click.style('✗', fg='red')} {where}{times}: {why.sentence}{advice}")
    return ["belljar: denied", *lines] if lines else []


def _changed(changes: Changes) -> list[str]:
    """Name what the host might run now. The names are the agent's, so what a terminal would obey is escaped."""
    names = changes.names
    lines = [f"  {click.style('!', fg='yellow')} {_escape(name)[0].decode()}" for name in names[:_SHOWN_CHANGES]]
    if len(names) > _SHOWN_CHANGES:
        lines.append(f"  and {len(names) - _SHOWN_CHANGES} more")
    if not changes.complete:
        lines.append("  and perhaps more: not everything in the working directory could be looked at")
    return ["belljar: changed, and can be run by you", *lines] if lines else []


def _without_echoes(ledger: Ledger) -> dict[UsedDestination, Any]:
    """Leave out questions for names to which connections were denied as well."""
    names = {where.name for where in ledger.denied if where.protocol != "dns"}
    return {where: why for where, why in ledger.denied.items() if where.protocol != "dns" or where.name not in names}


def _times(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
