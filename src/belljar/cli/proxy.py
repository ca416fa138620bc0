"""`belljar proxy`: the broker by itself, for programs that are in no sandbox of ours."""

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from belljar.cli.options.budgets import bounded, budget_options, given_bounds
from belljar.cli.server.listening import is_loopback, written
from belljar.errors import BelljarError, extra
from belljar.policy import InvalidPolicyError, Mode, Problem, policy_from
from belljar.policy.language.reading import Reading
from belljar.policy.services import PROVIDERS, Provider, Service, default_paths

_TOKEN: Final = "BELLJAR_PROXY_TOKEN"  # noqa: S105 - where it is, not what it is
_LEAST_TOKEN: Final = 16
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OPTIONS: Final = {"url": "--target", "header": "--header", "paths": "--path"}
_IN_POLICIES: Final = "which no policy may have in it"


@click.command()
@click.option("--target", required=True, metavar="URL", help="The API, such as https://api.anthropic.com.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1.")
@click.option("--port", default=9090, type=click.IntRange(0, 65535), help="Default: 9090. 0 takes any that is free.")
@click.option(
    "--provider", type=click.Choice(sorted(PROVIDERS)), help="Whose API it is. Default: by the target's host."
)
@click.option(
    "--key-env", metavar="NAME", help="The variable, or the secret, that the key is in. Default: the provider's."
)
@click.option(
    "--header", multiple=True, metavar="'NAME: VALUE'", help="What to send instead, such as 'x-key: ${MY_KEY}'."
)
@click.option("--path", multiple=True, metavar="'METHOD /PATH'", help="What to let through; * stands for anything.")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help="Has the token for clients.")
@click.option("--no-token", is_flag=True, help="Serve everyone who can connect; on loopback only.")
@click.option("--allow-server-tools", is_flag=True, help="Let the provider be asked to search, fetch or run code.")
@budget_options
def proxy(target: str, host: str, port: int, **options: Any) -> None:
    """Serve an API on a port, and add the key to what is asked.

    \b
    HTTPS_PROXY=http://proxy.example.com:8080 belljar proxy --target https://api.anthropic.com --port 9090
    ANTHROPIC_BASE_URL=http://127.0.0.1:9090 ANTHROPIC_API_KEY=<the token> claude

    Clients send the token, which is printed at the start, as their API key, and never see the key itself.
    """
    if options["no_token"] and not is_loopback(host):
        raise BelljarError(
            f"{host} can be reached from other machines, and whoever connects would use your key; leave out --no-token"
        )
    if options["no_token"] and options["token_file"]:
        raise BelljarError("--no-token and --token-file contradict each other; leave one of them out")
    with extra("broker"):
        from belljar.broker.requirements import check_brokers  # noqa: PLC0415 - `--help` needs none of it
        from belljar.broker.secrets import Secret  # noqa: PLC0415
        from belljar.broker.standalone import Standalone, serve  # noqa: PLC0415

    service = _service(target, options)
    check_brokers([service], os.environ)
    token, is_new = (None, False) if options["no_token"] else _token(options["token_file"])

    def tell(port: int) -> None:
        click.echo(f"belljar: http://{written(host)}:{port} leads to {service.target}", err=True)
        if is_new:
            click.echo(f"belljar: clients send this as their API key: {token}", err=True)

    with tempfile.TemporaryDirectory(prefix="belljar-proxy-") as state:
        serve(
            Standalone(
                service=service,
                host=host,
                port=port,
                token=None if token is None else Secret(token),
                refuse_tools=True,
                state=Path(state),
                on_start=tell,
                on_event=_tell_of,
            ),
            os.environ,
        )


def _service(target: str, options: Mapping[str, Any]) -> Service:
    host = _checked_target(target)
    by_host = next((name for name, each in PROVIDERS.items() if urlsplit(each.url).hostname == host), None)
    name = options["provider"] or by_host or "proxy"
    known, key = PROVIDERS.get(name), options["key_env"]
    if known is None and not options["header"] and not key:
        raise BelljarError(
            f"{host} is none of the providers that are known by their host; say whose API it is with --provider "
            f"({', '.join(sorted(PROVIDERS))}), or what is to be sent with --header 'authorization: Bearer ${{MY_KEY}}'"
        )
    if key and options["header"]:
        raise BelljarError("--key-env and --header both say what is sent; keep one of them, such as 'x-key: ${NAME}'")
    if key and not _VARIABLE.fullmatch(key):
        raise BelljarError(
            "--key-env: write the name of a variable or a secret, such as MY_KEY, and not the key itself"
        )
    header = tuple(map(_read_header, options["header"])) or _usual_header(known, key)
    service = _checked(
        name,
        {
            "url": target,
            "header": dict(header),
            "paths": list(map(_read_rule, options["path"])) or list(default_paths(name)),
            "server_tools": "allow" if options["allow_server_tools"] else "refuse",
        },
    )
    return service._replace(budget=bounded(service.budget, given_bounds(options)))


def _checked(name: str, entry: dict[str, Any]) -> Service:
    """Return the service that an entry of a policy would be: what may not stand there may not be said here."""
    try:
        return policy_from(Reading({"mode": Mode.BLOCK_ALL.value, "services": {name: entry}})).policy.services[0]
    except InvalidPolicyError as error:
        raise BelljarError("\n".join(_as_option(problem) for problem in error.problems)) from None


def _as_option(problem: Problem) -> str:
    option = _OPTIONS[problem.where.rpartition(".")[2]]
    return f"{option}: {problem.message.replace(_IN_POLICIES, 'which every user of this machine could read')}"


def _checked_target(target: str) -> str:
    try:
        url = urlsplit(target)
        is_proper = url.scheme in {"https", "http"} and url.port != 0
    except ValueError:
        is_proper = False
        url = urlsplit("")
    if not is_proper or not url.hostname or url.query or url.fragment or "@" in url.netloc:
        raise BelljarError(
            "--target: is no URL of an API; write https://HOST, with a port and a path if it has them; no password"
        )
    return url.hostname


def _usual_header(known: Provider | None, key_env: str | None) -> tuple[tuple[str, str], ...]:
    if known is None:
        return (("authorization", f"Bearer ${{{key_env}}}"),)
    if key_env is None:
        return known.header
    return tuple((name, value.replace(f"${{{known.key}}}", f"${{{key_env}}}")) for name, value in known.header)


def _read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip().replace("-", "").replace("_", "").isalnum() or not text.isascii():
        raise BelljarError(
            f"--header: write a name, a colon and a value, such as 'x-api-key: ${{MY_KEY}}', not {text!r}"
        )
    return name.strip().lower(), value.strip()


def _read_rule(text: str) -> str:
    method, _, path = text.partition(" ")
    if not method.isascii() or not method.isupper() or not path.strip().startswith(("/", "*")):
        raise BelljarError(f"--path: write a method and a path, such as 'POST /v1/messages', not {text!r}")
    return f"{method} {path.strip()}"


def _token(file: Path | None) -> tuple[str, bool]:
    """Return the token that clients have to send, and whether it was made just now."""
    given = os.environ.get(_TOKEN)
    where = _TOKEN
    if file is not None:
        where = f"--token-file {file}"
        try:
            given = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            raise BelljarError(f"{where} cannot be read: {why}") from None
    if given is None:
        return secrets.token_urlsafe(24), True
    if len(given) < _LEAST_TOKEN or not given.isascii() or not given.isprintable():
        raise BelljarError(f"{where}: a token has {_LEAST_TOKEN} characters of plain ASCII or more")
    return given, False


def _tell_of(event: Mapping[str, Any]) -> None:
    if event["event"] != "request":
        return
    refused = f" ({event['refused']})" if "refused" in event else ""
    tokens = f", {event['input_tokens']} + {event['output_tokens']} tokens" if event["input_tokens"] else ""
    click.echo(
        f"belljar: {event['status']} {event['method']} {event['path']}{refused}, {event['seconds']:.1f} s{tokens}",
        err=True,
    )
