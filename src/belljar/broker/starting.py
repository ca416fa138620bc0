"""How an owner starts a broker: as a program that imports nothing from where it happens to be started."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

GROUPS: Final = "groups"
"""In a broker's state directory: a link to where it counts groups together with other brokers, if it does."""

_PROGRAM: Final = """\
import sys
at = next((at for at, place in enumerate(sys.path) if place.endswith("-packages")), len(sys.path))
sys.path[at:at] = sys.argv.pop(1).split(":")
from belljar.broker.process import main
main()
"""
_OUR_MODULES: Final = str(Path(__file__).resolve().parents[2])
_LIBRARIES: Final = ("h11", "httpcore2")


def command(listener: int, events: int, state: Path) -> list[str]:
    """Return the command line for a broker that is handed a listening unix socket and a stream for its events.

    Both are descriptors that it inherits, like the environment, which has the keys. It ends when the other end of the
    stream is closed.
    """
    arguments = ["--listen", str(listener), "--events", str(events), "--state", str(state)]
    return [sys.executable, "-I", "-W", "ignore", "-c", _PROGRAM, ":".join(_places()), *arguments]


def _places() -> list[str]:
    """Return where we are found, and the libraries. They go before what the interpreter has besides, of any version."""
    specs = [spec for spec in map(find_spec, _LIBRARIES) if spec is not None and spec.origin is not None]
    return list(dict.fromkeys([_OUR_MODULES, *(str(Path(spec.origin or "").parents[1]) for spec in specs)]))
