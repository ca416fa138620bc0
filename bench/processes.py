"""What a process and its children use, as the kernel counts it; and what they all have in common."""

import compileall
import os
import sys
from collections.abc import Iterator
from pathlib import Path

CPUS = sorted(os.sched_getaffinity(0))
GATEWAY_CPU, LOAD_CPU = CPUS[0], CPUS[-1]
"""What is measured has one core, and what measures it has another, the origin included."""


def use_byte_code(*sources: Path) -> None:
    """Compile sources, and let this process and those that it starts write and read byte code.

    Users have byte code, unless the environment forbids it, and it is most of what starting Python takes.
    """
    for variable in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        os.environ.pop(variable, None)
    sys.dont_write_bytecode, sys.pycache_prefix = False, None
    for source in sources:
        compileall.compile_dir(source, quiet=2)


def on_cpu(cpu: int, *command: str) -> list[str]:
    """Return a command that runs another one on one core."""
    return ["taskset", "--cpu-list", str(cpu), *command]


def cpu_seconds(pid: int) -> float:
    """Return the time on a core, of all threads; none for process 0, which stands for nobody."""
    files = (path for process in family(pid) for path in Path(f"/proc/{process}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in files) / 1e9


def memory(pid: int) -> int:
    """Return the bytes of memory, shared ones divided among those who share them (PSS)."""
    texts = (Path(f"/proc/{process}/smaps_rollup").read_text() for process in family(pid))
    return sum(int(text.partition("\nPss:")[2].split()[0]) for text in texts) * 1024


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that come from it."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from family(int(child))
