"""`belljar exec`: a command in a sandbox of a server."""

import sys
from typing import TYPE_CHECKING, Any

import click

from belljar.cli.main import EXIT_FAILED
from belljar.cli.options.amounts import Seconds
from belljar.cli.options.completing import complete_command, complete_sandboxes
from belljar.cli.options.variables import read_variables
from belljar.cli.server.connecting import connect, find_sandbox, server_option
from belljar.errors import BelljarError, message

if TYPE_CHECKING:
    from belljar.client import ExecOptions

EXIT_TIMEOUT = 124


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Pass a variable, or set it.")
@click.option("--workdir", metavar="DIR", help="A directory inside.")
@click.option("--timeout", type=Seconds(), metavar="TIME", help="Kill it after this time, and exit with 124.")
@click.option("--stdin", "with_stdin", is_flag=True, help="Read standard input to its end, and pass it on.")
@server_option
@click.argument("sandbox", shell_complete=complete_sandboxes)
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="-- CMD...",
    shell_complete=complete_command,
)
def execute(sandbox: str, command: tuple[str, ...], server: str | None, **options: Any) -> None:
    """Run a command in a sandbox, and show its output as it comes.

    The exit code is the command's; 124 is a timeout, 125 a failure of Belljar's. Leaving (Ctrl-C) ends the command.
    """
    try:
        code = _run(server, sandbox, command, _options(**options))
    except BelljarError as error:
        click.echo(f"belljar: {message(error)}", err=True)
        code = EXIT_FAILED
    sys.exit(code)


def _options(*, env: tuple[str, ...], workdir: str | None, timeout: float | None, with_stdin: bool) -> "ExecOptions":
    options: ExecOptions = {"env": read_variables(env)}
    if workdir is not None:
        options["workdir"] = workdir
    if timeout is not None:
        options["timeout"] = timeout
    if with_stdin:
        options["stdin"] = sys.stdin.buffer.read()
    return options


def _run(server: str | None, name: str, command: tuple[str, ...], options: "ExecOptions") -> int:
    words = command[1:] if command[0] == "--" else command
    with connect(server) as client, find_sandbox(client, name).stream(words, **options) as running:
        for output in running:
            stream = sys.stdout.buffer if output.stream == "stdout" else sys.stderr.buffer
            stream.write(output.data)
            stream.flush()
        result = running.wait()
    if result.out_of_memory:
        click.echo("belljar: the sandbox ran out of memory, and something in it was killed", err=True)
    if result.timed_out:
        click.echo(f"belljar: the command was ended after {options['timeout']:g} s; --timeout gives it more", err=True)
    return EXIT_TIMEOUT if result.timed_out else result.exit_code
