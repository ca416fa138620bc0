"""`belljar top`: sandboxes, flows and denials, as they are now."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from belljar.cli.options.amounts import written_bytes, written_seconds
from belljar.cli.server.connecting import connect, server_option
from belljar.cli.server.lines import why
from belljar.cli.server.screen import Screen, ScreenLine
from belljar.errors import BelljarError, printable

if TYPE_CHECKING:
    from belljar.client import Client, Denial, Flow, SandboxState, ServiceUsage

_EVERY_SECONDS = 1.0
_MOST = 40
"""Sandboxes that are looked at: the newest."""

_FEWEST_LINES = 3


@dataclass(frozen=True, slots=True)
class Look:
    """One sandbox at one moment."""

    state: "SandboxState"
    flows: "Sequence[Flow]"
    denials: "Sequence[Denial]"
    usage: "Sequence[ServiceUsage]"


@click.command()
@server_option
def top(server: str | None) -> None:
    """Watch sandboxes, what they are connected to, and what they were denied. q quits.

    Where there is no terminal, it is printed once.
    """
    with connect(server) as client:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            for line in lines(*_look(client), height=None):
                click.secho(line.text, fg=line.colour, bold=line.bold or None)
            return
        with Screen() as screen:
            _watch(client, screen)


def _watch(client: "Client", screen: Screen) -> None:
    shown: list[ScreenLine] = []
    while True:
        try:
            shown = list(lines(*_look(client), height=screen.height))
        except BelljarError as error:  # of a server that is being started anew, say
            shown = [ScreenLine(printable(str(error)), "red"), *shown[1:]]
        screen.draw(shown)
        if "q" in screen.key(_EVERY_SECONDS):
            return


def _look(client: "Client") -> tuple[list[Look], int]:
    """Return how the newest sandboxes are, and how many there are."""
    from belljar.client import GoneError, NotFoundError, NotReadyError  # noqa: PLC0415 - `--help` needs none of it

    sandboxes = sorted(client.sandboxes(), key=lambda sandbox: sandbox.state.created_at, reverse=True)
    looks = []
    for sandbox in sandboxes[:_MOST]:
        flows: list[Flow] = []
        usage: list[ServiceUsage] = []
        with suppress(NotFoundError):  # it was deleted meanwhile
            denials = sandbox.denials(_MOST)
            with suppress(NotReadyError, GoneError):
                flows, usage = sandbox.flows(), sandbox.usage()
            looks.append(Look(sandbox.state, flows, denials, usage))
    return looks, len(sandboxes)


def lines(looks: Sequence[Look], count: int, *, height: int | None) -> Iterator[ScreenLine]:
    """Yield what is shown: three tables, each with its share of the height, and one more if there are brokers."""
    now = datetime.now(UTC)
    flows = [(look.state.id, flow) for look in looks for flow in look.flows]
    flows.sort(key=lambda each: each[1].bytes_up + each[1].bytes_down, reverse=True)
    denials = sorted((denial for look in looks for denial in look.denials), key=lambda each: each.id, reverse=True)
    used = [(look.state.id, usage) for look in looks for usage in look.usage]
    tables = 4 if used else 3
    share = max((height - tables - 1) // tables, _FEWEST_LINES) if height is not None else _MOST
    yield ScreenLine(f"belljar: {count} sandboxes, {len(flows)} flows  {now.astimezone():%H:%M:%S}", bold=True)
    yield ScreenLine(
        _sandbox_row("SANDBOX", "STATUS", "AGE", "MODE", "FLOWS", "UP", "DOWN", "DENIED", "LABELS"), bold=True
    )
    yield from (_sandbox(look, now) for look in looks[:share])
    yield ScreenLine(_flow_row("SANDBOX", "CONNECTED TO", "UP", "DOWN", "FOR"), bold=True)
    yield from (_flow(sandbox, flow) for sandbox, flow in flows[:share])
    if used:
        yield ScreenLine(_usage_row("SANDBOX", "BROKER", "REQUESTS", "TOKENS IN", "TOKENS OUT", "DOLLARS"), bold=True)
        yield from (_usage(sandbox, usage) for sandbox, usage in used[:share])
    yield ScreenLine(f"{'SANDBOX':<16} {'TIME':<9} DENIED", bold=True)
    yield from (_denial(denial) for denial in denials[:share])


def _sandbox(look: Look, now: datetime) -> ScreenLine:
    state = look.state
    text = _sandbox_row(
        state.id,
        state.status,
        written_seconds((now - state.created_at).total_seconds()),
        state.mode,
        str(len(look.flows)),
        written_bytes(sum(flow.bytes_up for flow in look.flows)),
        written_bytes(sum(flow.bytes_down for flow in look.flows)),
        f"{len(look.denials)}{'+' if len(look.denials) == _MOST else ''}",
        " ".join(f"{name}={value}" for name, value in state.labels.items()),
    )
    return ScreenLine(text, None if state.status == "running" else "yellow")


def _sandbox_row(*cells: str) -> str:
    widths = (16, 9, 5, 10, 6, 10, 10, 7, 0)
    return _row(cells, widths)


def _flow(sandbox: str, flow: "Flow") -> ScreenLine:
    up, down = written_bytes(flow.bytes_up), written_bytes(flow.bytes_down)
    return ScreenLine(_flow_row(sandbox, flow.destination, up, down, written_seconds(flow.seconds)), "green")


def _flow_row(*cells: str) -> str:
    return _row(cells, (16, 45, 10, 10, 0))


def _usage(sandbox: str, usage: "ServiceUsage") -> ScreenLine:
    """Return what was used of each amount, and how much of it there is."""

    def part(name: str) -> str:
        used = f"{usage.used.get(name, 0):g}" if name == "dollars" else f"{usage.used.get(name, 0):.0f}"
        return f"{used}/{usage.budget[name]:g}" if name in usage.budget else used

    is_over = any(usage.used.get(name, 0) >= most for name, most in usage.budget.items() if name != "at_once")
    amounts = [part(name) for name in ("requests", "input_tokens", "output_tokens", "dollars")]
    return ScreenLine(_usage_row(sandbox, usage.service, *amounts), "red" if is_over else "green")


def _usage_row(*cells: str) -> str:
    return _row(cells, (16, 16, 14, 20, 20, 0))


def _denial(denial: "Denial") -> ScreenLine:
    moment = denial.time.astimezone()
    what = f"{denial.destination}  {why(denial)}"
    return ScreenLine(_row((denial.sandbox or "-", f"{moment:%H:%M:%S}", what), (16, 9, 0)), "red")


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{printable(cell):<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
