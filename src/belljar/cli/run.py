"""`belljar run` and `belljar shell`: a command in a sandbox.

What is needed once the command has ended is imported before it starts: it may have been able to write to our modules.
But not before the sandbox is being made, which takes as long: then nobody waits for it.
"""

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from belljar.backends import registry
from belljar.cli.main import EXIT_FAILED
from belljar.cli.options.amounts import Bytes, Number, Seconds
from belljar.cli.options.backendname import BackendName
from belljar.cli.options.budgets import budget_options, flags_of, given_bounds
from belljar.cli.options.completing import (
    Completion,
    complete_brokers,
    complete_command,
    complete_files,
    complete_presets,
)
from belljar.cli.options.variables import read_variables
from belljar.cli.runpolicy import PolicyOptions, RunPolicy, policy_of
from belljar.errors import BelljarError, message
from belljar.linux.files.trusted import links_on
from belljar.policy import Mode
from belljar.sandbox.files.homes import home_inside
from belljar.sandbox.spec import Bind, Command, Isolation, ResourceLimits, SandboxSpec
from belljar.statedir import known_states

if TYPE_CHECKING:
    from belljar.backends.attending import Outcome
    from belljar.cli.ending import Ending
    from belljar.gateway.settings import Settings
    from belljar.policy.services import Service
    from belljar.sandbox.ledger import Ledger
    from belljar.sandbox.network import NetworkAccess

_ABOUT_USER = ("COLORTERM", "LANG", "LANGUAGE", "TERM", "TZ")
_ABOUT_MACHINE = ("LOGNAME", "PATH", "SHELL", "USER")
"""Variables that say how to talk to the user, and where programs are. Others may be secrets: --env passes them."""

_ENTRIES = ("allow", "allow_cidr", "allow_port", "deny", "deny_cidr", "deny_port", "preset", "host_port", "broker")
_OF_GATEWAY = (
    "policy",
    "mode",
    *_ENTRIES,
    "disable_internet",
    "enable_internet",
    "resolver",
    "audit",
    "learn",
)
"""Options that take a gateway."""


def _many(flag: str, metavar: str, text: str, completed_by: "Completion | None" = None) -> Callable[..., Any]:
    return click.option(flag, multiple=True, metavar=metavar, help=text, shell_complete=completed_by)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `run` and `shell` share."""
    options: list[Callable[..., Any]] = [
        click.option(
            "--backend",
            type=BackendName(),
            default=registry.DEFAULT,
            help="What makes the sandbox. Default: local, with this machine's programs.",
        ),
        click.option("--image", metavar="IMAGE", help="The image to run, with the backends docker and podman."),
        click.option(
            "--policy",
            metavar="FILE",
            help="Policy to begin with; the options below add to it.",
            shell_complete=complete_files,
        ),
        click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="Default: block-all."),
        _many("--allow", "HOST[:PORT]", "Grant a domain: x, *.x (below x) or .x (both)."),
        _many("--allow-cidr", "RANGE", "Grant an address or a range."),
        _many("--allow-port", "PORT", "Grant these ports instead of 80 and 443."),
        _many("--deny", "HOST[:PORT]", "Deny a domain and everything below, whatever else grants it."),
        _many("--deny-cidr", "RANGE", "Deny an address or a range."),
        _many("--deny-port", "PORT", "Deny a port."),
        _many("--preset", "NAME", "Grant a bundle, such as python or node.", complete_presets),
        _many("--host-port", "PORT", "Open a port of this machine's loopback."),
        _many(
            "--broker",
            "NAME[=URL]",
            "Lead to a model API and keep the key outside: anthropic, openai, or by URL.",
            complete_brokers,
        ),
        budget_options,
        click.option("--disable-internet", is_flag=True, help="The same as --mode block-all."),
        click.option("--enable-internet", is_flag=True, help="The same as --mode allow-all."),
        click.option("--no-network-isolation", is_flag=True, help="Leave the command in this machine's network."),
        click.option(
            "--isolation",
            type=click.Choice(["sealed", "perimeter"]),
            default="sealed",
            help="Of containers: perimeter is for engines that cannot be sealed, and takes root.",
        ),
        click.option(
            "--resolver", metavar="ADDRESS[:PORT]", help="Name server for the gateway. Default: this machine's."
        ),
        _many("--bind", "SRC[:DST]", "Show a file or directory inside, writable.", complete_files),
        _many("--ro-bind", "SRC[:DST]", "The same, read-only.", complete_files),
        click.option(
            "--workdir",
            metavar="DIR",
            help="The directory to work in, writable. Default: this one.",
            shell_complete=complete_files,
        ),
        click.option(
            "--no-workdir", is_flag=True, help="Of containers: work where the image says, in no directory here."
        ),
        click.option("--read-only", is_flag=True, help="Of containers: leave the image's files as they are."),
        _many("--allow-write", "PATH", "Make a protected place in it writable.", complete_files),
        _many("--env", "NAME[=VALUE]", "Pass a variable, or set it."),
        click.option(
            "--cpu-limit",
            type=Number(least=0.01),
            metavar="CPUS",
            help="Processors to use at most: 1.5, say.",
        ),
        click.option("--mem-limit", type=Bytes(), metavar="BYTES", help="Memory to use at most, such as 512m or 8g."),
        click.option(
            "--timeout", type=Seconds(), metavar="TIME", help="End everything after 90, 10m or 2h, and exit with 124."
        ),
        click.option(
            "--audit",
            metavar="FILE",
            help="Append an event for everything the network is asked for.",
            shell_complete=complete_files,
        ),
        click.option("--allow-debugger", is_flag=True, help="Let programs inside trace each other."),
        click.option("--learn", is_flag=True, help="Allow all, and print the policy that would have been enough."),
        click.option("--summary", is_flag=True, help="Sum up at the end, also where there is no terminal."),
        click.option("--json", "as_json", is_flag=True, help="Sum up at the end as one JSON object on standard error."),
        click.option("--quiet", is_flag=True, help="No warnings and no summary."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command(context_settings={"allow_interspersed_args": False})
@_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...", shell_complete=complete_command)
def run(command: tuple[str, ...], **options: Any) -> None:
    """Run a command that can reach what you allow, and nothing else.

    \b
    belljar run --allow github.com -- git clone https://github.com/me/mine
    belljar run --preset python -- pip install requests
    belljar run --policy agent.yaml -- claude
    belljar run --backend docker --image python:3 -- python agent.py

    The command sees this machine's programs and the working directory, but not your home directory, your
    environment or your other processes. In a container it sees the image instead of your programs; without a command,
    the image's own is run. The exit code is the command's; 124 is a timeout, 125 a failure of Belljar's.
    """
    if not command and not registry.find(options["backend"]).runs_images:
        raise click.UsageError("there is nothing to run; write a command after --, such as: belljar run -- make test")
    if command and not command[0]:
        raise click.UsageError("the command's first word is empty; perhaps a variable is not set that should name it")
    sys.exit(_run(command, options))


@click.command(context_settings={"allow_interspersed_args": False})
@_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="")
def shell(command: tuple[str, ...], **options: Any) -> None:
    """Open a shell in a sandbox, to look around. It takes the options of `belljar run`."""
    if command:
        raise click.UsageError(f"a shell is given no command; write: belljar run -- {shlex.join(command)}")
    shell = None if registry.find(options["backend"]).runs_images else os.environ.get("SHELL")
    sys.exit(_run((shell or "/bin/sh", "-i"), options, after_entrypoint=False))


def _run(command: tuple[str, ...], options: dict[str, Any], *, after_entrypoint: bool = True) -> int:
    try:
        return _Run(command, options, after_entrypoint=after_entrypoint).run()
    except BelljarError as error:
        click.echo(f"belljar: {message(error)}", err=True)
    except (OSError, RuntimeError) as error:
        click.echo(f"belljar: the sandbox could not be made: {message(error)}", err=True)
    return EXIT_FAILED


def _workdir(named: str | None) -> Path:
    try:
        return Path(named or Path.cwd()).resolve()
    except FileNotFoundError:
        raise BelljarError(
            "the current directory is no longer there; go to another, or name one with --workdir"
        ) from None


def _has_link_in(directory: Path, path: Path) -> bool:
    """Tell whether a path goes through a symbolic link that lies in a directory."""
    return any(link.is_relative_to(directory) for link in links_on(path))


def _check_state(shown: Path, *, writable: bool) -> None:
    """Refuse to show what a server keeps, or a directory where a sandbox could make it."""
    for state in (state.resolve() for state in known_states(os.environ)):
        overlaps = shown.is_relative_to(state) or state.is_relative_to(shown)
        if overlaps and (writable or state.exists()):
            raise BelljarError(
                f"{shown} cannot be shown in a sandbox: {state} is a server's, and who is let in there commands it;\n"
                "name another directory"
            )


class _Run:
    """One run, from its options to its summary."""

    def __init__(self, command: tuple[str, ...], options: dict[str, Any], *, after_entrypoint: bool) -> None:
        self._options, self._after_entrypoint = options, after_entrypoint
        self._backend = registry.find(options["backend"])
        self._check_backend()
        self._quiet: bool = options["quiet"]
        self._held = ExitStack()
        """What is released when the command has ended."""
        self._started_ns = time.time_ns()
        self._workdir = _workdir(options["workdir"])
        self._binds = (*self._named_binds("bind", writable=True), *self._named_binds("ro_bind", writable=False))
        self._command = Command(command)
        self._spec = SandboxSpec(
            image=options["image"],
            workdir=None if options["no_workdir"] else self._workdir,
            environment=self._environment(),
            binds=self._binds,
            allow_write=tuple(map(Path, options["allow_write"])),
            keep=tuple(self._own_file(name) for name in ("policy", "audit") if options[name]),
            debugger=options["allow_debugger"],
            read_only=options["read_only"],
            isolation=Isolation.NONE if options["no_network_isolation"] else Isolation(options["isolation"]),
            limits=ResourceLimits(options["cpu_limit"], options["mem_limit"]),
        )

    def run(self) -> int:
        from belljar.gateway.settings import read_settings, unused_proxy  # noqa: PLC0415 - `--help` needs none of it
        from belljar.sandbox.notice import notice  # noqa: PLC0415

        options = self._options
        if options["no_network_isolation"]:
            whose = f"the network that {options['backend']} gives:" if self._backend.runs_images else "this machine's"
            self._say(f"the command has {whose} whole network (--no-network-isolation)")
            self._ending = self._ending_with(None)
            return self._start(None, notice(None))
        policy = policy_of(self._policy_options(), self._exposed())
        for warning in policy.warnings:
            self._say(f"warning: {warning}")
        if policy.policy.services:
            self._lead_to_services(policy.policy.services)
        settings = read_settings(os.environ, resolver=options["resolver"])
        if unused := unused_proxy(os.environ, settings):
            self._say(f"warning: {unused}")
        audit = self._open_audit(options["audit"]) if options["audit"] else None
        return self._start(lambda: self._network(policy, settings, audit), notice(policy.flat()))

    def _lead_to_services(self, services: "Sequence[Service]") -> None:
        """Have the command be told of services, and make sure that brokers have what they need. Raises BelljarError."""
        from belljar.broker.requirements import check_brokers  # noqa: PLC0415 - most runs have none
        from belljar.sandbox.agentsettings import agent_files, agent_variables  # noqa: PLC0415

        check_brokers(services, os.environ)
        told = agent_variables(services)
        for name in (name for name in told if name.endswith("_KEY") and name in self._spec.environment):
            self._say(f"warning: --env {name} shows the key inside, where the broker would have kept it out")
        environment = {**told, **self._spec.environment}
        self._spec = replace(self._spec, environment=environment, files=agent_files(services))

    def _network(self, policy: RunPolicy, settings: "Settings", audit: int | None) -> "NetworkAccess":
        """Return what the command can reach; note in a ledger what it does with that."""
        from belljar.gateway.audit.log import AuditLog  # noqa: PLC0415 - see above
        from belljar.sandbox.ledger import Ledger  # noqa: PLC0415
        from belljar.sandbox.network import NetworkAccess  # noqa: PLC0415

        compiled = policy.compile()
        if self._options["isolation"] == "perimeter" and compiled.allows_udp:
            self._say("warning: with --isolation perimeter there is no UDP but DNS, although the policy allows it")
        ledger = Ledger(AuditLog(audit) if audit is not None else None)
        self._ending = self._ending_with(ledger, policy.policy.services)
        access = NetworkAccess(compiled, settings, ledger)
        services = policy.policy.services
        return self._with_broker(access, services) if any(service.is_broker for service in services) else access

    def _with_broker(self, access: "NetworkAccess", services: "Sequence[Service]") -> "NetworkAccess":
        from belljar.sandbox.brokerplace import make_broker_place, share_groups  # noqa: PLC0415 - most runs have none
        from belljar.sandbox.files.ownplaces import has_modules_in  # noqa: PLC0415

        exposed = self._exposed()
        state = self._held.enter_context(make_broker_place(os.environ, exposed))
        share_groups(Path(state), services, os.environ)
        return access._replace(broker_state=Path(state), starts_broker_at_once=has_modules_in(exposed))

    def _ending_with(self, ledger: "Ledger | None", services: "tuple[Service, ...]" = ()) -> "Ending":
        from belljar.cli.ending import Ending  # noqa: PLC0415 - see above

        return Ending(self._options, self._workdir, self._started_ns, ledger, services)

    def _open_audit(self, path: str) -> int:
        from belljar.gateway.audit.log import open_log  # noqa: PLC0415

        try:
            return open_log(path)
        except OSError as error:
            raise BelljarError(
                f"--audit: {path} cannot be written to ({os.strerror(error.errno or 0)}); name a file in a directory"
                " that is there, and yours to write to"
            ) from None

    def _start(self, network: "Callable[[], NetworkAccess] | None", told: bytes) -> int:
        """Run the command to its end on the backend that was asked for; return its exit code."""
        from belljar.runtime.run_once import run_once  # noqa: PLC0415
        from belljar.sandbox.files.userfiles import repository_problem  # noqa: PLC0415
        from belljar.sandbox.files.view import POLICY_FILE  # noqa: PLC0415
        from belljar.sandbox.files.workdirs import check_workdir  # noqa: PLC0415

        if not self._options["no_workdir"]:
            check_workdir(self._workdir)
            _check_state(self._workdir, writable=True)
        for bind in self._binds:
            _check_state(bind.source, writable=bind.writable)
        if problem := repository_problem(self._spec):
            self._say(f"warning: git does not find its repository inside: {problem}")
        with self._held:
            outcome = run_once(
                self._backend,
                replace(self._spec, files={**self._spec.files, POLICY_FILE: told}),
                self._command,
                network,
                timeout=self._options["timeout"],
                after_entrypoint=self._after_entrypoint,
            )
        self._say_how_it_ended(outcome)
        self._ending.tell(outcome.code)
        return outcome.code

    def _say_how_it_ended(self, outcome: "Outcome") -> None:
        if outcome.out_of_memory:
            self._say("the sandbox ran out of memory, and something in it was killed; --mem-limit gives it more")
        if outcome.timed_out:
            self._say(f"everything was ended after {self._options['timeout']:g} s; --timeout gives it more")

    def _check_backend(self) -> None:
        """Refuse options that a backend would have to ignore."""
        options = self._options
        if options["no_network_isolation"]:
            self._check_unisolated()
        if self._backend.runs_images:
            if not options["image"]:
                raise BelljarError(f"{options['backend']} runs images; name one with --image")
        else:
            for name, given in (("--image", options["image"]), ("--read-only", options["read_only"]),
                                ("--no-workdir", options["no_workdir"]),
                                ("--isolation perimeter", options["isolation"] == "perimeter")):  # fmt: skip
                if given:
                    others = (other for other in registry.names() if registry.find(other).runs_images)
                    add = " or ".join(f"--backend {other}" for other in others)
                    raise BelljarError(f"{name} is for containers; add {add}")

    def _check_unisolated(self) -> None:
        """Refuse options that only a gateway can follow: a restriction must not be ignored."""
        options = self._options
        for given in ("--broker" if options["broker"] else "", flags_of(given_bounds(options))):
            if given:
                raise BelljarError(
                    f"{given}: no broker is within reach of the command with --no-network-isolation; leave one of them "
                    "out, or start `belljar proxy` for it"
                )
        if useless := [f"--{name.replace('_', '-')}" for name in _OF_GATEWAY if options[name]]:
            raise BelljarError(
                f"{', '.join(useless)}: nothing can enforce or report this with --no-network-isolation; leave one of "
                "them out"
            )

    def _policy_options(self) -> PolicyOptions:
        options = self._options
        modes = {Mode(options["mode"])} if options["mode"] else set()
        modes |= {Mode.BLOCK_ALL} if options["disable_internet"] else set()
        modes |= {Mode.ALLOW_ALL} if options["enable_internet"] or options["learn"] else set()
        if len(modes) > 1:
            raise BelljarError(
                "--mode, --disable-internet, --enable-internet and --learn contradict each other; keep one of them"
            )
        mode = modes.pop() if modes else None
        named = {name: options[name] for name in _ENTRIES}
        return PolicyOptions(options["policy"], mode, **named, bounds=given_bounds(options))

    def _own_file(self, option: str) -> Path:
        """Return a file that Belljar itself reads or writes."""
        path = Path(self._options[option]).absolute()
        for directory in self._exposed():
            if _has_link_in(directory, path):
                where = "the working directory" if directory == self._workdir else directory
                raise BelljarError(
                    f"--{option}: {self._options[option]} is a link in {where}, or behind one, and a sandboxed "
                    f"command can have made it;\nif you mean what it leads to, name that: {path.resolve()}"
                )
        return path

    def _exposed(self) -> list[Path]:
        """Return where the command can write."""
        return [self._workdir, *(bind.source for bind in self._binds if bind.writable)]

    def _environment(self) -> dict[str, str]:
        shows_machine = not self._backend.runs_images
        names = (*_ABOUT_USER, *_ABOUT_MACHINE) if shows_machine else _ABOUT_USER
        passed = {name: os.environ[name] for name in names if name in os.environ}
        passed |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
        if shows_machine:
            passed |= {"HOME": str(home_inside(os.environ)), "TMPDIR": "/tmp", "BELLJAR": "1"}  # noqa: S108
        return passed | read_variables(self._options["env"])

    def _named_binds(self, option: str, *, writable: bool) -> list[Bind]:
        flag = f"--{option.replace('_', '-')}"
        binds = []
        for item in self._options[option]:
            source, _, target = item.partition(":")
            if not source:
                raise BelljarError(f'{flag}: "{item}" does not say what to show; write SRC or SRC:DST')
            path = Path(source).expanduser().absolute()
            if _has_link_in(self._workdir, path):
                raise BelljarError(
                    f"{flag}: {source} is a link in the working directory, and a sandboxed command can have made it;\n"
                    f"if you mean what it leads to, name that: {path.resolve()}"
                )
            binds.append(Bind(path.resolve(), Path(target) if target else path, writable=writable))
        return binds

    def _say(self, message: str) -> None:
        if not self._quiet:
            click.echo(f"belljar: {message}", err=True)
