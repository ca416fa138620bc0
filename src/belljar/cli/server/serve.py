"""`belljar serve`: sandboxes by API."""

import gc
import os
import sys
from pathlib import Path

import click

from belljar.cli.server.listening import is_loopback, written
from belljar.cli.server.state import state_option
from belljar.errors import BelljarError, extra

_MOST_WORKERS = 4
_COLLECT_AFTER = 10_000  # new objects; a policy that is read is many, and none of them is garbage before it is done


@click.command()
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1.")
@click.option("--port", default=8080, type=click.IntRange(0, 65535), help="Default: 8080. 0 takes any that is free.")
@state_option
@click.option(
    "--expose",
    multiple=True,
    metavar="NAME",
    help="Let others reach it under this name or address. Needed for any host but loopback.",
)
def serve(host: str, port: int, state: Path, expose: tuple[str, ...]) -> None:
    """Make sandboxes by API, and change their policies while they run.

    \b
    belljar serve &
    curl --unix-socket ~/.local/state/belljar/belljar.sock -d '{}' \\
         -H 'Content-Type: application/json' http://localhost/api/v1/sandboxes

    Sandboxes outlive the server: it adopts them when it is started again. Meanwhile they can reach nothing.
    """
    if not expose and not is_loopback(host):
        raise BelljarError(
            f"{host} can be reached from other machines, and whoever has the token has this machine; "
            "if that is meant, name it with --expose, and put TLS in front of it"
        )
    import asyncio  # noqa: PLC0415 - `--help` needs none of it
    import logging  # noqa: PLC0415

    with extra("server"):
        from belljar.control.backends import make_backends  # noqa: PLC0415
        from belljar.control.serving import SOCKET, Serving, signalled  # noqa: PLC0415
        from belljar.control.serving import serve as serve_until_ended  # noqa: PLC0415
        from belljar.control.tokens import TokenFile  # noqa: PLC0415
    from belljar.gateway.settings import read_settings, unused_proxy  # noqa: PLC0415

    logging.basicConfig(format="belljar: %(message)s", level=logging.WARNING)
    gc.set_threshold(_COLLECT_AFTER)
    settings = read_settings(os.environ)
    if unused := unused_proxy(os.environ, settings):
        click.echo(f"belljar: warning: {unused}", err=True)

    def tell(port: int) -> None:
        address = f"http://{written(host)}:{port}"
        click.echo(f"belljar: listening on {address} and {state / SOCKET}", err=True)
        if sys.stderr.isatty():  # a person reads it; a log would keep it
            click.echo(f"belljar: dashboard: {address}/#token={TokenFile(state).read()}", err=True)
        else:
            click.echo(f"belljar: dashboard: {address}/; `belljar token show` prints the token", err=True)

    asyncio.run(
        serve_until_ended(
            Serving(
                state=state,
                backends=make_backends,
                host=host,
                port=port,
                names=expose,
                workers=min(os.cpu_count() or 1, _MOST_WORKERS),
                settings=settings,
                on_start=tell,
            ),
            until=signalled,
        )
    )
