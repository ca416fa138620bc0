"""The `belljar` command as root, or as an ordinary user; the tests run where everybody can read it (`tests.stage`)."""

import sys

USER = 65534


def belljar(*words: str, root: bool) -> list[str]:
    """Return what to run for a command of Belljar's."""
    become = [] if root else ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return [*become, sys.executable, "-m", "belljar", *words]
