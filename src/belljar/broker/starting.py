"""How an owner starts a broker: as a program that imports nothing from where it happens to be started."""

import sys
from pathlib import Path
from typing import Final

_PROGRAM: Final = """\
import sys
sys.path.append(sys.argv.pop(1))
from belljar.broker.process import main
main()
"""
_OUR_MODULES: Final = str(Path(__file__).resolve().parents[2])


def command(listener: int, events: int, state: Path) -> list[str]:
    """Return the command line for a broker that is handed a listening unix socket and a stream for its events.

    Both are descriptors that it inherits, like the environment, which has the keys. It ends when the other end of the
    stream is closed.
    """
    arguments = ["--listen", str(listener), "--events", str(events), "--state", str(state)]
    return [sys.executable, "-I", "-W", "ignore", "-c", _PROGRAM, _OUR_MODULES, *arguments]
