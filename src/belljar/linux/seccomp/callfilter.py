"""The system call filter of a sandbox, as the program that the kernel runs for every call.

Theory of operation
-------------------
What `refusals` names is refused, and everything else is allowed. Calls of a foreign architecture kill the process:
their numbers mean other calls, and no honest program of this machine's makes any.

The program is classic BPF, a list of (code, jump if true, jump if false, value). It is written as blocks: a block
begins with the number of the call in the accumulator, and returns if it is about that call.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

from belljar.linux.seccomp.refusals import (
    ABSENT,
    CORE_LIMIT,
    DEBUGGING,
    INTERNET,
    MAKING,
    MODES,
    NETLINK_ROUTE,
    NEW_NAMESPACES,
    NEW_TIME_NAMESPACE,
    OPENING,
    PROTOCOLS,
    REFUSED,
    SET_IDS,
    TERMINAL_TRICKS,
    TYPE_BITS,
    TYPES,
)
from belljar.linux.seccomp.syscalls import NUMBERS

_X32_BIT: Final = 0x40000000

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000

_NUMBER: Final = 0  # offsets into struct seccomp_data
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16


class UnknownArchitectureError(Exception):
    """There is no filter for this machine."""


class Instruction(NamedTuple):
    """One instruction of the kernel's filter machine."""

    code: int
    if_true: int
    if_false: int
    value: int


class _Architecture(NamedTuple):
    audit_number: int
    has_x32: bool


_ARCHITECTURES: Final = {
    "x86_64": _Architecture(0xC000003E, has_x32=True),
    "aarch64": _Architecture(0xC00000B7, has_x32=False),
}

Block = list[Instruction]


@cache
def program(*, debugger: bool = False, machine: str | None = None) -> bytes:
    """Return the filter, as `bwrap --seccomp` and the kernel read it. Raises UnknownArchitectureError."""
    return b"".join(
        struct.pack("=HBBI", *instruction) for instruction in instructions(debugger=debugger, machine=machine)
    )


def instructions(*, debugger: bool = False, machine: str | None = None) -> Block:
    """Return the filter's instructions; with `debugger`, programs inside may trace each other."""
    machine = machine or os.uname().machine
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise UnknownArchitectureError(f"there is a system call filter for {known}, but not for {machine}")
    return [
        *_own_architecture(_ARCHITECTURES[machine]),
        *_modes(machine),
        *_sockets(machine),
        *_namespaces(machine),
        *_terminals(machine),
        *_core_dumps(machine),
        *_calls(machine, REFUSED if debugger else (*REFUSED, *DEBUGGING), errno.EPERM),
        *_calls(machine, ABSENT, errno.ENOSYS),
        _return(_ALLOW),
    ]


def _own_architecture(architecture: _Architecture) -> Block:
    block = [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE),
        Instruction(_JUMP_EQUAL, 1, 0, architecture.audit_number),
        _return(_KILL),
        Instruction(_LOAD, 0, 0, _NUMBER),
    ]
    if architecture.has_x32:
        block += [Instruction(_JUMP_AT_LEAST, 0, 1, _X32_BIT), _return(_KILL)]
    return block


def _modes(machine: str) -> Block:
    """Nobody makes a program that others run with its owner's rights: on the host, the owner may be root."""

    def harmless(mode: int) -> Block:
        return [_argument(mode), Instruction(_JUMP_ANY_BIT, 0, 1, SET_IDS), _fail(errno.EPERM), _return(_ALLOW)]

    def harmless_if_made(flags: int) -> Block:
        return [_argument(flags), Instruction(_JUMP_ANY_BIT, 1, 0, MAKING), _return(_ALLOW), *harmless(flags + 1)]

    opening = (_on(machine, name, harmless_if_made(flags)) for name, flags in OPENING.items())
    others = (_on(machine, name, harmless(mode)) for name, mode in MODES.items())
    return [step for block in (*opening, *others) for step in block]


def _sockets(machine: str) -> Block:
    """Streams and datagrams of the internet's two families, unix sockets, and routing information to read."""
    internet = [
        _argument(1),
        Instruction(_AND, 0, 0, TYPE_BITS),
        *_unless_one_of(TYPES, errno.EPERM),
        _argument(2),
        # An error that programs take as a hint to try plain TCP, where they wanted MPTCP.
        *_unless_one_of(PROTOCOLS, errno.EPROTONOSUPPORT),
        _return(_ALLOW),
    ]
    netlink = [_argument(2), *_unless_one_of((NETLINK_ROUTE,), errno.EPROTONOSUPPORT), _return(_ALLOW)]
    families = [
        _argument(0),
        Instruction(_JUMP_EQUAL, 0, 1, socket.AF_UNIX),
        _return(_ALLOW),
        Instruction(_JUMP_EQUAL, 0, len(netlink), socket.AF_NETLINK),
        *netlink,
        *_unless_one_of(INTERNET, errno.EAFNOSUPPORT),
        *internet,
    ]
    pairs = [_argument(0), *_unless_one_of((socket.AF_UNIX,), errno.EAFNOSUPPORT), _return(_ALLOW)]
    return _on(machine, "socket", families) + _on(machine, "socketpair", pairs)


def _namespaces(machine: str) -> Block:
    def without(flags: int) -> Block:
        return [_argument(0), Instruction(_JUMP_ANY_BIT, 0, 1, flags), _fail(errno.EPERM), _return(_ALLOW)]

    return _on(machine, "clone", without(NEW_NAMESPACES)) + _on(
        machine, "unshare", without(NEW_NAMESPACES | NEW_TIME_NAMESPACE)
    )


def _terminals(machine: str) -> Block:
    """Nobody types into a terminal on behalf of its user, or has the kernel load a line discipline."""
    refused = [(Instruction(_JUMP_EQUAL, 0, 1, request), _fail(errno.EPERM)) for request in TERMINAL_TRICKS]
    block = [_argument(1), *(step for steps in refused for step in steps), _return(_ALLOW)]
    return _on(machine, "ioctl", block)


def _core_dumps(machine: str) -> Block:
    """Nobody changes the limit on core dumps, whatever programs are told that do.

    A dump can be a program of the host's, which runs as root and reads what has crashed. A limit of 1 prevents that,
    which the sandbox begins with; a limit of 0 does not.
    """
    untouched = [_return(_ERRNO | 0)]
    changing = [_argument(0), Instruction(_JUMP_EQUAL, 0, 1, CORE_LIMIT), *untouched, _return(_ALLOW)]
    changing_or_asking = [
        _argument(1),
        Instruction(_JUMP_EQUAL, 1, 0, CORE_LIMIT),
        _return(_ALLOW),
        _argument(2),  # where the new limit is; nowhere if it is asked for only
        Instruction(_JUMP_EQUAL, 0, 3, 0),
        _upper_half(2),
        Instruction(_JUMP_EQUAL, 0, 1, 0),
        _return(_ALLOW),
        *untouched,
    ]
    return _on(machine, "setrlimit", changing) + _on(machine, "prlimit64", changing_or_asking)


def _calls(machine: str, names: Iterable[str], error: int) -> Block:
    return [step for name in names for step in _on(machine, name, [_fail(error)])]


def _on(machine: str, name: str, block: Block) -> Block:
    """Run a block, which has to return, for one call only."""
    number = getattr(NUMBERS[name], machine)
    return [] if number is None else [Instruction(_JUMP_EQUAL, 0, len(block), number), *block]


def _unless_one_of(values: tuple[int, ...], error: int) -> Block:
    """Fail unless the accumulator has one of these values."""
    jumps = [Instruction(_JUMP_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*jumps, _fail(error)]


def _argument(index: int) -> Instruction:
    """Load the lower half of an argument: the kernel, too, takes these as 32-bit numbers."""
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _upper_half(index: int) -> Instruction:
    return Instruction(_LOAD, 0, 0, _ARGUMENTS + 8 * index + 4)


def _fail(error: int) -> Instruction:
    return _return(_ERRNO | error)


def _return(value: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, value)
