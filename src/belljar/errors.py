"""Errors that reach a user. Each says what is wrong and what to do about it; none is shown as a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager


class BelljarError(Exception):
    """Something the user can put right. The text is a complete message; the command line prints it and exits."""


class MissingExtraError(BelljarError):
    """A part of Belljar is not installed. Install it with its extra."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what comes with an extra. Raises MissingExtraError if it was not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"this needs Belljar's {name}, and {error.name} is not installed; install it with: "
            f"pip install 'belljar[{name}]'"
        ) from error


def printable(text: str) -> str:
    """Return a text without what a terminal would obey: sandboxes, images and engines have a say in it."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def reason(error: Exception) -> str:
    """Return why something failed, without the number and the file that Python adds."""
    text = getattr(error, "strerror", None) or str(error)
    return text.partition("] ")[2] if text.startswith("[Errno ") else text


def message(error: Exception) -> str:
    """Return what an error says, for a terminal: in its lines, and without what else that would obey."""
    return "\n".join(map(printable, str(error).split("\n")))
