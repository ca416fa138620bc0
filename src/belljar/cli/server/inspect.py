"""`belljar inspect`: the layers that hold a sandbox."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from belljar.cli.options.completing import complete_sandboxes
from belljar.cli.server.connecting import connect, find_sandbox, server_option
from belljar.cli.tables import print_table
from belljar.errors import printable

if TYPE_CHECKING:
    from belljar.client import Layer

_ACTIVE = {True: "active", False: "inactive", None: "unknown"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@server_option
@click.argument("sandbox", shell_complete=complete_sandboxes)
def inspect(sandbox: str, as_json: bool, server: str | None) -> None:
    """Tell which layers hold a sandbox, from what is seen and tried in it now.

    Connections are tried to addresses that no policy opens: they leave a few denials in the sandbox's log.
    """
    with connect(server) as client:
        found = find_sandbox(client, sandbox)
        layers = found.layers()
    if as_json:
        state = {name: getattr(found.state, name) for name in ("id", "status", "backend", "image")}
        click.echo(json.dumps({**state, "layers": [asdict(layer) for layer in layers]}, indent=2))
    else:
        print_table(("LAYER", "STATE", "EVIDENCE"), [_row(layer) for layer in layers])


def _row(layer: "Layer") -> tuple[str, str, str]:
    what = layer.evidence if layer.remedy is None else f"{layer.evidence}; {layer.remedy}"
    return layer.name, _ACTIVE[layer.active], printable(what)
