"""What is told of a run once its command has ended."""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from belljar.cli import summary
from belljar.cli.learning import learned
from belljar.policy.services import Service
from belljar.sandbox.files.changes import Changes, changed_places, remove_git_links, runnable_changes
from belljar.sandbox.ledger import Ledger


class Ending:
    """The end of one run. Without a ledger nobody knows what was reached."""

    def __init__(
        self,
        options: Mapping[str, Any],
        workdir: Path,
        started_ns: int,
        ledger: Ledger | None,
        services: tuple[Service, ...] = (),
    ) -> None:
        """`services` are those that the command could reach."""
        self._options, self._workdir, self._started_ns = options, workdir, started_ns
        self._ledger, self._services = ledger, services

    def tell(self, code: int) -> None:
        """Remove or report what the user's tools would obey, and sum up what was asked for."""
        with suppress(BrokenPipeError):  # nobody reads standard error any more; the command has run all the same
            self._warn_of_changed_places()
            if self._ledger is not None:
                self._sum_up(self._ledger, code)

    def _warn_of_changed_places(self) -> None:
        allowed = tuple(map(Path, self._options["allow_write"]))
        removed = remove_git_links(self._workdir, self._started_ns, allowed)
        if removed and not self._options["quiet"]:
            said = f"removed, since git would write through it or delete what is behind it: {', '.join(removed)}"
            click.echo(f"belljar: warning: {said}", err=True)
        places = changed_places(self._workdir, self._started_ns, allowed)
        if places and not self._options["quiet"]:
            said = f"new or changed, and your own tools run code from there: {', '.join(places)}"
            click.echo(f"belljar: warning: {said}", err=True)

    def _sum_up(self, ledger: Ledger, code: int) -> None:
        options = self._options
        if options["as_json"]:
            told = summary.as_object(ledger, self._changes(), code)
            more = {"learned": learned(ledger, self._services)} if options["learn"] else {}
            click.echo(json.dumps(told | more), err=True)
        elif options["learn"]:
            click.echo(learned(ledger, self._services), err=True, nl=False)
        elif options["summary"] or (sys.stderr.isatty() and not options["quiet"]):
            text = summary.as_text(ledger, self._changes())
            if options["summary"] and not text:
                text = "belljar: nothing was reached, and nothing was denied\n"
            click.echo(text, err=True, nl=False)

    def _changes(self) -> Changes:
        return runnable_changes(self._workdir, self._started_ns)
