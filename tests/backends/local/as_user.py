"""Runs the `belljar` command as an ordinary user, whoever starts it.

Everything it may need is imported first: the interpreter may be in a place that only root can read.
"""

import ctypes
import importlib
import os
import pkgutil
import sys

import belljar
from belljar.cli.main import main
from belljar.policy.entries import read_domain

USER = 65534
PR_SET_DUMPABLE = 4


OTHER_COMMANDS = ("belljar.control", "belljar.client", "belljar.__main__")
"""What only other commands use; it takes time."""


def become_ordinary() -> None:
    for module in pkgutil.walk_packages(belljar.__path__, "belljar."):
        if not module.name.startswith(OTHER_COMMANDS):
            importlib.import_module(module.name)
    importlib.import_module("concurrent.futures.thread")  # by a function, where a thread is needed
    read_domain("*.plain.test", grants=True)  # reads the public suffix list
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # as it is for a user's own processes


if __name__ == "__main__":
    become_ordinary()
    sys.argv[0] = "belljar"
    main()
