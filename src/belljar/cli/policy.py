"""`belljar policy`: everything that can be asked of a policy without starting a sandbox."""

import json
import sys

import click

from belljar.cli.main import EXIT_FAILED
from belljar.cli.options.completing import complete_presets
from belljar.cli.policyfiles import InvalidFileError, PolicyFile, UnreadableFileError, load_policy, read_source, shown
from belljar.cli.tables import print_table
from belljar.discovery import discover
from belljar.errors import BelljarError
from belljar.policy import Explanation, InvalidPolicyError, Policy, Syntax, explain, render
from belljar.policy.importers import import_policy
from belljar.policy.language.entries import did_you_mean
from belljar.policy.language.render import flatten
from belljar.policy.model import PresetUse
from belljar.policy.presets import PRESETS, Preset, expand

EXIT_DENIED = EXIT_INVALID = 1

_file = click.argument("file", type=click.Path(allow_dash=True))


@click.group()
def policy() -> None:
    """Check, show, explain and import network policies.

    A policy is a YAML, JSON or TOML file; "-" reads it from standard input.
    """


@policy.command()
@click.argument("files", metavar="FILE...", type=click.Path(allow_dash=True), nargs=-1, required=True)
def check(files: tuple[str, ...]) -> None:
    """Check policy files.

    Exit 0 if all are valid, 1 if not, 125 if one cannot be read. Every problem of a file is listed, with its
    line and the remedy; so are warnings about entries without effect.
    """
    code = 0
    for path in files:
        try:
            loaded = load_policy(path)
        except (InvalidFileError, UnreadableFileError) as error:
            code = max(code, EXIT_INVALID if isinstance(error, InvalidFileError) else EXIT_FAILED)
            click.echo(str(error), err=True)
            continue
        for warning in loaded.warnings("warning: "):
            click.echo(warning, err=True)
        click.echo(f"{loaded.name}: valid: {_summary(loaded)}")
    sys.exit(code)


@policy.command()
@_file
@click.option("--format", "syntax", type=click.Choice([s.value for s in Syntax]), default="yaml", help="Default: yaml.")
@click.option("--expand", is_flag=True, help="Write out what presets mean on this machine.")
def show(file: str, syntax: str, *, expand: bool) -> None:
    """Print a policy in its normal form."""
    loaded = load_policy(file)
    shown_policy = loaded.document.policy
    if expand:
        shown_policy = flatten(shown_policy, loaded.resolved.expansion)
        for warning in loaded.resolved.expansion.warnings:
            click.echo(f"{loaded.name}: warning: {warning}", err=True)
    click.echo(render(shown_policy, Syntax(syntax)), nl=False)


@policy.command("explain")
@_file
@click.argument("destinations", metavar="DESTINATION...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def explain_(file: str, destinations: tuple[str, ...], *, as_json: bool) -> None:
    """Tell what a policy says to destinations, and why.

    A destination is host, host:port, address:port, [v6]:port or a URL; all but a URL can end in /udp. Without a
    port, 443 is meant. Names are not resolved: the addresses behind them are checked when a connection is made.

    Exit 0 if all are allowed, 1 if any is denied, 125 on error.
    """
    loaded = load_policy(file)
    compiled = loaded.resolved.compile()
    explanations = [explain(compiled, destination) for destination in destinations]
    if as_json:
        click.echo(json.dumps([_as_object(explanation) for explanation in explanations], indent=2))
    else:
        print_table(
            ("ACTION", "DESTINATION", "REASON", "RULE", ""),
            (_as_row(explanation, loaded) for explanation in explanations),
        )
    if not all(explanation.verdict.allowed for explanation in explanations):
        sys.exit(EXIT_DENIED)


@policy.command()
@click.argument("name", required=False, metavar="[NAME]", shell_complete=complete_presets)
def presets(name: str | None) -> None:
    """List the presets, or what one of them opens here.

    With NAME, each host that the preset opens on this machine is printed with the reason it is there.
    """
    if name is None:
        print_table(("PRESET", "MEANING", "HOSTS"), ((key, p.summary, _hosts(p)) for key, p in PRESETS.items()))
        return
    if name not in PRESETS:
        alike = did_you_mean(name, PRESETS)
        raise BelljarError(f'"{name}" is not a preset{alike}; `belljar policy presets` lists them')
    try:
        expansion = expand((PresetUse(name),), discover)
    except InvalidPolicyError as error:
        raise BelljarError("\n".join(problem.message for problem in error.problems)) from None
    for warning in expansion.warnings:
        click.echo(f"warning: {warning.message}", err=True)
    print_table(("HOST", "WHY"), ((str(entry.pattern), entry.why) for entry in expansion.entries[0]))


@policy.command("import")
@_file
def import_(file: str) -> None:
    """Turn what you have into a Belljar policy, printed as YAML.

    Reads a sandbox0 network policy, an srt settings file, a Squid dstdomain list or configuration, and Forge's
    egress_allowlist.json. What could not be carried over is listed on standard error.
    """
    text = read_source(file)
    try:
        imported = import_policy(text, file)
    except InvalidPolicyError as error:
        lines = "\n".join(f"  {problem}" for problem in error.problems)
        raise BelljarError(f"{shown(file)} cannot be imported:\n{lines}") from None
    click.echo(f"{shown(file)}: read as {imported.source}", err=True)
    for note in imported.notes:
        click.echo(f"{shown(file)}: note: {note}", err=True)
    click.echo(render(imported.policy, Syntax.YAML), nl=False)


def _summary(loaded: PolicyFile) -> str:
    policy: Policy = loaded.document.policy
    counts = [
        (len(policy.egress.allowed_domains) + len(policy.egress.denied_domains), "domain"),
        (len(policy.egress.allowed_cidrs) + len(policy.egress.denied_cidrs), "range"),
        (len(policy.egress.allowed_ports) + len(policy.egress.denied_ports), "port entry"),
        (len(policy.rules), "rule"),
        (len(policy.presets), "preset"),
        (len(policy.host_ports), "host port"),
        (len(policy.services), "service"),
    ]
    parts = [f"{count} {_plural(word, count)}" for count, word in counts if count]
    return ", ".join([policy.mode.value, *parts])


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _hosts(preset: Preset) -> str:
    parts = [entry.pattern.name for entry in preset.entries]
    parts += preset.members
    if preset.tool:
        parts.append("asked of this machine's tools")
    return ", ".join(parts)


def _as_object(explanation: Explanation) -> dict[str, str | None]:
    verdict = explanation.verdict
    return {
        "destination": explanation.destination,
        "action": verdict.action.value,
        "reason": verdict.reason.value,
        "rule": verdict.rule,
        "sentence": verdict.sentence,
    }


def _as_row(explanation: Explanation, loaded: PolicyFile) -> tuple[str, ...]:
    verdict = explanation.verdict
    rule = verdict.rule or "-"
    if (line := loaded.document.lines.of(rule)) is not None:
        rule += f" (line {line})"
    return verdict.action.value, explanation.destination, verdict.reason.value, rule, verdict.sentence
