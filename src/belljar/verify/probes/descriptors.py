"""What is open when the first program inside begins.

It is asked for before anything else is imported: some modules, and the libraries behind them, open files of their own.
"""

import os


def open_descriptors() -> frozenset[int]:
    """Return the numbers of all descriptors but the one that they are listed by."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - Path would be another import
    return frozenset(number for number in listed if os.path.islink(f"/proc/self/fd/{number}"))  # noqa: PTH114
