"""A command in a local sandbox, from what is wanted to its exit code."""

import atexit
import gc
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from belljar.backends.local.child.staging import Plan, check_proc
from belljar.backends.local.identity import account_files, choose
from belljar.backends.local.launching import launch
from belljar.backends.local.limiting import default_group, enforce
from belljar.linux.cgroups.memorykills import MemoryWatch
from belljar.linux.processes import keep_memory_private
from belljar.sandbox.files.homes import home_inside
from belljar.sandbox.files.view import view_of
from belljar.sandbox.spec import Command, SandboxSpec
from belljar.sandbox.terminal.streams import CarriedStreams

if TYPE_CHECKING:
    from belljar.backends.attending import Outcome
    from belljar.sandbox.network import NetworkAccess
    from belljar.sandbox.terminal.joined import Terminal


def run(
    spec: SandboxSpec, command: Command, network: "Callable[[], NetworkAccess] | None", *, timeout: float | None = None
) -> "Outcome":
    """Run a command to its end. Without `network` it has the host's; with it, what that returns meanwhile.

    For a process without threads. Raises LaunchError, StagingError, StreamError, ViewError, ArmingError, and then
    the command has not been started.
    """
    check_proc()
    identity, home = choose(), home_inside(os.environ)
    workdir = spec.workdir or Path.cwd()
    view = view_of(spec, workdir, home, account_files(identity, home))
    terminal = _terminal_of_caller()
    streams = CarriedStreams((0, 1, 2) if terminal is None else terminal.streams())
    enforcement = enforce(spec.limits)
    plan = Plan(
        replace(command, environment={**spec.environment, **command.environment}, workdir=command.workdir or workdir),
        view,
        identity,
        streams.inside,
        sealed=network is not None,
        debugger=spec.debugger,
        address_space=enforcement.address_space,
        in_foreground=None if terminal is None else terminal.begins_joined,
    )
    gc.freeze()  # what is there by now stays, in this process and in the one that it forks
    launched = launch(plan)
    group = enforcement.group or default_group()
    memory = MemoryWatch(group.directories if group is not None else ())
    if group is not None:
        launched.watch(group)
    launched.identify()
    # While the child is at work, and before there is a command that could write to our modules.
    from belljar.backends.attending import Attendant, Outcome  # noqa: PLC0415
    from belljar.backends.local.doors import answered  # noqa: PLC0415
    from belljar.gateway.io.loop import Loop  # noqa: PLC0415

    access = network() if network is not None else None
    launched.settle()
    keep_memory_private()  # not before: it concerns the child, too, whose files in /proc we have written to
    loop = Loop()
    with streams, answered(loop, access, launched.listeners, view.binds):
        attendant = Attendant(loop, launched, terminal)
        code = attendant.run(timeout)
        ran_out = memory.ran_out()
        if group is not None:
            group.release()  # it is removed while the gateway is closed
    if group is not None:
        atexit.register(group.wait_for_removal)  # what is left to do takes longer than that
    return Outcome(code, ran_out, attendant.timed_out)


def _terminal_of_caller() -> "Terminal | None":
    """Return a terminal for the sandbox; None if none of our standard streams is one."""
    if not any(map(os.isatty, (0, 1, 2))):
        return None
    from belljar.sandbox.terminal.joined import Terminal  # noqa: PLC0415 - many a command has no terminal

    return Terminal()
