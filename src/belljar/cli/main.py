"""The `belljar` command, and the one place where an error becomes a message and an exit code."""

import errno
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from belljar import __version__
from belljar.cli.lazy import LazyGroup, Subcommand
from belljar.errors import BelljarError, message

EXIT_FAILED = 125
"""Belljar's own failures and usage errors, as of `env` and `timeout`. Commands hardly ever exit with it."""

_STANDARD_ERROR = 2
_COMPLETING = "_BELLJAR_COMPLETE"
EXIT_INTERRUPTED = 130  # as shells report a program that Ctrl-C has ended; 1 would mean "denied"
EXIT_OUTPUT_CLOSED = 141  # as shells report a program that SIGPIPE has ended; click exits with 1


class _Program(LazyGroup):
    """The whole program: its output may be closed before the end, as `head` does."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.exit(EXIT_OUTPUT_CLOSED)


@click.group(
    cls=_Program,
    subcommands={
        "run": Subcommand("belljar.cli.run", "run", "Run a command in a sandbox."),
        "shell": Subcommand("belljar.cli.run", "shell", "Open a shell in a sandbox."),
        "doctor": Subcommand("belljar.cli.doctor", "doctor", "Find out what this machine lacks, and what mends it."),
        "verify": Subcommand("belljar.cli.verify", "verify", "Prove that a sandbox on this machine is sealed."),
        "policy": Subcommand("belljar.cli.policy", "policy", "Check, show, explain and import network policies."),
        "serve": Subcommand(
            "belljar.cli.server.serve", "serve", "Make sandboxes by API, and change their policies live."
        ),
        "eval": Subcommand("belljar.cli.eval.group", "eval_", "Evaluate agents on tasks, in sealed sandboxes."),
        "proxy": Subcommand("belljar.cli.proxy", "proxy", "Serve a model's API on a port, and add the key."),
        "ps": Subcommand("belljar.cli.server.ps", "ps", "List the sandboxes of a server."),
        "inspect": Subcommand("belljar.cli.server.inspect", "inspect", "Tell which layers hold a sandbox."),
        "exec": Subcommand("belljar.cli.server.exec", "execute", "Run a command in a sandbox of a server."),
        "stop": Subcommand("belljar.cli.server.stop", "stop", "End sandboxes of a server."),
        "logs": Subcommand("belljar.cli.server.logs", "logs", "Print what happened in a sandbox."),
        "network": Subcommand("belljar.cli.server.network", "network", "Show and change what a sandbox may reach."),
        "denials": Subcommand("belljar.cli.server.denials", "denials", "Print what sandboxes were denied."),
        "top": Subcommand("belljar.cli.server.top", "top", "Watch sandboxes, flows and denials."),
        "token": Subcommand("belljar.cli.server.token", "token", "Show or change the token of the server."),
        "completion": Subcommand("belljar.cli.completion", "completion", "Print a script for shell completion."),
        "help": Subcommand("belljar.cli.help", "help_", "Print the help of a command."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="belljar %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run AI agents in sandboxes that have no network, only the doors you open."""
    if os.environ.get("NO_COLOR"):
        context.color = False


def main() -> None:
    """Run the command line; whatever goes wrong, the user sees a message and no traceback."""
    _open_missing_streams()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if a caller's "ignore" were inherited, waitpid(2) would fail
    _own_files_in_proc()
    if not _is_debugged():
        _keep_python_quiet()
    try:
        _run()
    finally:
        _flush()


def _run() -> None:
    if _COMPLETING in os.environ:  # a shell asks, and click answers before there is a command
        import belljar.cli.completion  # noqa: F401, PLC0415
    try:
        sys.exit(cli(prog_name="belljar", complete_var=_COMPLETING, standalone_mode=False))
    except click.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_FAILED)
    except BelljarError as error:
        click.echo(f"belljar: {message(error)}", err=True)
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _tell_of_full_disk(error)
        elif _is_debugged():
            raise
        else:
            _tell_of_bug(error)
        sys.exit(EXIT_FAILED)


def _is_debugged() -> bool:
    return bool(os.environ.get("BELLJAR_DEBUG"))


def _tell_of_bug(error: BaseException | None) -> None:
    click.echo(
        f"belljar: internal error: {type(error).__name__}: {error}\n"
        "Set BELLJAR_DEBUG=1 to see where it happened, and please report it.",
        err=True,
    )


def _keep_python_quiet() -> None:
    """Have Python itself print nothing, at its end neither: what a user is to know is said by us."""
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda crash: _tell_of_bug(crash.exc_value)


def _flush() -> None:
    """Write out what is left. Python would do it later, and complain of a reader that is gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _discard(stream)
        except OSError as error:
            _discard(stream)
            _tell_of_full_disk(error)
            sys.exit(EXIT_FAILED)


def _tell_of_full_disk(error: OSError) -> None:
    _discard(sys.stdout)  # which may be what cannot be written
    click.echo(f"belljar: nothing more can be written: {error.strerror}", err=True)


def _discard(stream: TextIO) -> None:
    """Have what a stream still holds go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _own_files_in_proc() -> None:
    """Own our files in /proc also if Python's file has capabilities, for which the kernel gives them to root."""
    with suppress(OSError):  # there is no /proc, which `doctor` reports
        if Path("/proc/self/ns").stat().st_uid != os.geteuid():
            from belljar.linux.processes import make_dumpable  # noqa: PLC0415 - hardly ever needed

            make_dumpable()


def _open_missing_streams() -> None:
    """Open standard streams that we were started without: the next file that is opened would be taken for one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the standard library's interface
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(_STANDARD_ERROR, "w", closefd=False)
