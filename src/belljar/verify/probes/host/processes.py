"""Other processes, and what is left over from whoever started the first one: descriptors, a terminal."""

import ctypes
import fcntl
import os
import resource
import termios
from pathlib import Path
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.host.kernel import none_works, status
from belljar.verify.probes.kit import Finding, Mark, inside

_libc = ctypes.CDLL(None, use_errno=True)

_KILLED_BY_FILTER: Final = "3"
_PTRACE_ATTACH: Final = 16


@inside(35, "descriptors", "descriptors that were left open")
def descriptors(mark: Mark) -> Finding:
    others = sorted(mark.scene.descriptors - {0, 1, 2})
    return Finding(not others, f"open: {others}" if others else "the standard streams only")


@inside(37, "other-processes", "processes outside, and the secrets of those that can be seen")
def other_processes(mark: Mark) -> Finding:
    seen = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    secret = f"{places.PRIVATE_VARIABLE}={mark.scene.run}".encode()
    telling = []
    for process in seen:
        for file in ("environ", "cmdline"):
            try:
                content = Path(f"/proc/{process}/{file}").read_bytes()
            except OSError:
                continue
            if secret in content or (file == "environ" and mark.scene.run.encode() in content):
                telling.append(f"{process}/{file}")
    return Finding(not telling, f"told by {', '.join(telling)}" if telling else f"{len(seen)} processes, no secret")


@inside(37, "tracing", "tracing other processes, and writing to the memory of one that is less confined")
def tracing(_: Mark) -> Finding:
    if _libc.ptrace(_PTRACE_ATTACH, 1, 0, 0) == 0:
        return Finding(holds=False, evidence="ptrace works")
    own, freer = _confinement("self"), []
    for process in (path.name for path in Path("/proc").iterdir() if path.name.isdecimal()):
        try:
            os.close(os.open(f"/proc/{process}/mem", os.O_RDWR))
            other = _confinement(process)
            if other != own and other["Seccomp"] != _KILLED_BY_FILTER:
                freer.append(f"{process} with {dict(other.items() - own.items())}")
        except OSError:
            continue
    return Finding(not freer, f"can be taken over: {', '.join(freer)}" if freer else "none but equals")


def _confinement(process: str) -> dict[str, str]:
    wanted = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapPrm", "CapEff", "CapBnd")
    return {name: value for name, value in status(process).items() if name in wanted}


@inside(37, "core-dumps", "core dumps, which hold memory")
def core_dumps(_: Mark) -> Finding:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    return Finding(limits in ((0, 0), (1, 1)), f"limit {limits}")  # 1 also stops dumps to a program of the host's


@inside(57, "typing", "typing into a terminal (TIOCSTI, TIOCLINUX), and the terminal of whoever made the sandbox")
def typing(_: Mark) -> Finding:
    os.setsid()
    terminal = os.openpty()[1]
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    return none_works(
        {
            "TIOCSTI": lambda: fcntl.ioctl(terminal, termios.TIOCSTI, b"x"),
            "TIOCLINUX": lambda: fcntl.ioctl(terminal, termios.TIOCLINUX, b"\2"),
            "/dev/console": lambda: os.close(os.open("/dev/console", os.O_RDWR)),
            "/dev/tty1": lambda: os.close(os.open("/dev/tty1", os.O_RDWR)),
        }
    )
