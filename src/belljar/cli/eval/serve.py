"""`belljar eval serve`: a judge for runs on other machines."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from belljar.cli.eval.directories import results_directory, tasks_directory, tasks_option
from belljar.cli.eval.progress import PlainProgress
from belljar.cli.server.listening import is_loopback, written
from belljar.errors import BelljarError, extra
from belljar.harness.judge.adminsecret import load_admin_secret
from belljar.harness.leftovers import default_eval_state
from belljar.harness.settings.model import TrialSettings
from belljar.harness.settings.resolve import resolve
from belljar.harness.tasks.loading import load_directory


@click.command("serve")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1.")
@click.option("--port", default=8080, type=click.IntRange(0, 65535), help="Default: 8080. 0 takes any that is free.")
@click.option("--expose", is_flag=True, help="Let other machines reach it. Needed for any host but loopback.")
@tasks_option
@click.option("--backend", metavar="[local|docker|podman]", help="What makes the sandboxes. Default: local.")
@click.option("--setup-timeout", metavar="TIME", help="How long a task's setup may take. Default: 10m.")
@click.option("--max-workers", type=click.IntRange(1, 1000), help="Gradings at a time. Default: one per processor.")
@click.option("--results", metavar="DIR", type=click.Path(), help="Where submissions are kept. Default: runs.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=default_eval_state,
    help="Directory of the admin secret. Default: ~/.local/state/belljar-eval.",
)
def serve(  # noqa: PLR0913, PLR0917 - click passes one argument for each option
    host: str,
    port: int,
    expose: bool,
    tasks: str | None,
    backend: str | None,
    setup_timeout: str | None,
    max_workers: int | None,
    results: str | None,
    state: Path,
) -> None:
    """Serve a judge, which grades what runs with --judge-url submit.

    Runs are registered with the admin secret, which is made in the state directory; agents have a token for each run.
    """
    if not expose and not is_loopback(host):
        raise BelljarError(
            f"{host} can be reached from other machines, and the admin secret allows to run code in sandboxes here; "
            "if that is meant, add --expose, and put TLS in front of it"
        )
    found = load_directory(tasks_directory(tasks))
    for left_out in found.unsupported:
        click.echo(f"note: left out: {left_out}", err=True)
    if not found.tasks:
        raise BelljarError("there is no task to judge; name a directory of tasks with --tasks")
    flags = {"backend": backend, "setup_timeout": setup_timeout}
    settings: TrialSettings = resolve(flags, os.environ, found.tasks[0]).settings
    with extra("eval"):
        from belljar.harness.judging import JudgingPlan, serve_judge  # noqa: PLC0415 - `--help` needs none of it

    plan = JudgingPlan(
        tasks={task.id: task for task in found.tasks},
        backend=settings.backend,
        setup_timeout=settings.setup_timeout,
        state=state,
        results=results_directory(results).absolute(),
        concurrency=max_workers or os.cpu_count() or 1,
        on_change=PlainProgress(sys.stderr),
    )
    secret = load_admin_secret(state)

    def tell(port: int) -> None:
        click.echo(f"belljar: judging {len(plan.tasks)} tasks at http://{written(host)}:{port}", err=True)

    asyncio.run(serve_judge(plan, secret, (host, port), on_start=tell, until=_signalled))


async def _signalled() -> None:
    """Wait for a signal that ends the server."""
    wanted, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, wanted.set)
    await wanted.wait()
