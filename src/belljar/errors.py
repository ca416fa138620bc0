"""Errors that reach a user. Each says what is wrong and what to do about it; none is shown as a traceback."""


class BelljarError(Exception):
    """Something the user can put right. The text is a complete message; the command line prints it and exits."""


def printable(text: str) -> str:
    """Return a text without what a terminal would obey: sandboxes, images and engines have a say in it."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def message(error: Exception) -> str:
    """Return what an error says, for a terminal: in its lines, and without what else that would obey."""
    return "\n".join(map(printable, str(error).split("\n")))
