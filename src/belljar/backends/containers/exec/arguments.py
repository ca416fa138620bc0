"""The words that start a command in a container.

It is our own shell that goes to the directory and becomes the command (`sandbox.starting`): so what is wrong with a
command is said by every engine, and for every image, in the same way; and the engine itself is never told to go to a
directory that the agent has made.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from belljar.backends.containers.exec import monitor
from belljar.backends.interface import SpecError
from belljar.sandbox.spec import Command
from belljar.sandbox.starting import START
from belljar.sandbox.terminal.callers import Size
from belljar.sandbox.toolbox.model import Toolbox

_LAUNCH: Final = """\
{resize}
cd -- "$1" || exit 126
shift
read -r _ _ _ _ group _ </proc/$$/stat
[ "$group" = $$ ] || exec {leave} "$@"
{become}
"""
"""Not every engine starts a command in a session of its own; without one, no signal would reach what it has started."""

_OF_LOADERS: Final = re.compile(r"(?:LD_|GLIBC_)[A-Z0-9_]*", re.ASCII)

_MOST_BYTES_OF_A_WORD: Final = 131_071
_MOST_BYTES: Final = 1 << 20


def for_loader(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that loaders take orders from. They are meant for the image's, and not for ours."""
    return {name: value for name, value in environment.items() if _OF_LOADERS.fullmatch(name)}


def launching(
    toolbox: Toolbox, workdir: str, arguments: Sequence[str], size: Size | None, loader: Mapping[str, str]
) -> list[str]:
    """Return the words for a command in a directory, in a terminal of some size, with these variables besides.

    Engines tell a terminal its size when the command has begun, and that is too late for some.
    """
    resize = toolbox.running("stty", "rows", str(size.rows), "cols", str(size.columns)) if size else [":"]
    become = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in loader.items()) + START
    leave = toolbox.running("setsid", *toolbox.running("sh", "-c", become, "sh"))
    script = _LAUNCH.format(resize=shlex.join(resize), leave=shlex.join(leave), become=become)
    return toolbox.running("sh", "-c", script, "sh", workdir, *arguments)


def monitored(toolbox: Toolbox, words: Sequence[str], *, foreground: bool) -> list[str]:
    """Return the words for a command with a terminal, which it has from the start or not."""
    return toolbox.calling(monitor.__name__, "main()", "foreground" if foreground else "background", *words)


def asking_about_keys(toolbox: Toolbox, number: int) -> list[str]:
    """Return the words for what says `yes` if the terminal of a monitored command makes something of Ctrl-C."""
    return toolbox.calling(monitor.__name__, "tell_about_keys()", str(number))


def check(command: Command) -> None:
    """Refuse what no program can be given. Raises SpecError."""
    words = (*command.arguments, *command.environment, *command.environment.values(), str(command.workdir or ""))
    if not command.arguments or not command.arguments[0]:
        raise SpecError("a command needs at least the name of a program")
    if any("\0" in word for word in words) or any("=" in name or not name for name in command.environment):
        raise SpecError("a command, its variables and its directory can have no NUL, and names no equals sign")
    sizes = [len(word.encode(errors="surrogateescape")) for word in words]
    if max(sizes) > _MOST_BYTES_OF_A_WORD or sum(sizes) > _MOST_BYTES:
        raise SpecError("the command and its variables are too long for this system; put what is long into a file")
