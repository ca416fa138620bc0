"""Errors that reach a user. Each says what is wrong and what to do about it; none is shown as a traceback."""


class BelljarError(Exception):
    """Something the user can put right. The text is a complete message; the command line prints it and exits."""
