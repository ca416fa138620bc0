"""An interpreter of the kernel's filter machine: what a system call filter says to one call."""

import operator

from belljar.linux.seccomp.callfilter import Block

ALLOW, KILL, KILL_THREAD, ERRNO = 0x7FFF0000, 0x80000000, 0, 0x00050000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = list(AUDIT)

_JUMPS = {0x15: operator.eq, 0x25: operator.gt, 0x35: operator.ge, 0x45: operator.and_}


def run(
    program: Block,
    number: int,
    arguments: tuple[int, ...] = (),
    architecture: int | None = None,
    machine: str = "x86_64",
) -> int:
    """Interpret a filter for one call."""
    values = {0: number, 4: AUDIT[machine] if architecture is None else architecture}
    for index, argument in enumerate([*arguments, *[0] * 6][:6]):
        values |= {16 + 8 * index: argument & 0xFFFFFFFF, 20 + 8 * index: argument >> 32}
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        match code:
            case 0x20:
                accumulator = values[value]
            case 0x54:
                accumulator &= value
            case 0x05:
                at += value
            case 0x06:
                return value
            case _:
                at += if_true if _JUMPS[code](accumulator, value) else if_false
