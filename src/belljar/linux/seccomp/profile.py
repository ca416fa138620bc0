"""The system call filter of a sandbox, as the profile that container engines read: OCI's and Docker's JSON.

Theory of operation
-------------------
The engine has libseccomp compile the profile. It knows calls by name, and a name that the machine's libseccomp has not
heard of is passed over without a word: 2.5.4 does not know `open_tree_attr`, and older ones do not know `fchmodat2`,
which makes set-user-ID programs. So this filter lists what is allowed, other than that of `callfilter`.
Whatever we have not heard of, or libseccomp has not, fails as if the kernel were older. To all other calls the two
filters give the same answers, with one exception: families and protocols of sockets with anything in their upper half
are refused here, since it takes many rules to leave it out, and every rule costs time at the start of a container.

The rules of a call are tried in an order that nobody promises, so no two of them may hold at once. And a rule may look
at an argument only once (engines make two rules out of one that does so twice, and either is enough), so "none of
these" has to be said in rules, too: by the bits in which a number departs from all of these. Comparing bits under a
mask also leaves out the upper half of an argument, as the kernel does. Otherwise a request with a bit set there would
be another number to the filter, and the same one to the kernel (CVE-2019-10063).

Calls of a foreign architecture are killed by libseccomp, as long as a profile names one architecture only.

Docker 20.10 does not know `defaultErrnoRet`, and has unknown calls fail with EPERM; runc nevertheless has those fail
with ENOSYS that are newer than all in the profile. Before 20.10.10 it knows no `errnoRet` either, and then no program
gets a thread from a C library that tries `clone3` first.
"""

import errno
import itertools
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from belljar.linux.seccomp.callfilter import UnknownArchitectureError
from belljar.linux.seccomp.ordinarycalls import ORDINARY
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

_ARCHITECTURES: Final = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_LOWER_HALF: Final = 0xFFFFFFFF
_BOTH_HALVES: Final = 0xFFFFFFFF_FFFFFFFF
_NOTHING: Final = (0,)

_Condition = dict[str, Any]
_Rule = dict[str, Any]


def profile(*, debugger: bool = False, machine: str | None = None) -> dict[str, Any]:
    """Return the filter for engines' `seccomp=`. With `debugger`, programs inside may trace each other.

    Raises UnknownArchitectureError.
    """
    machine = machine or os.uname().machine
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise UnknownArchitectureError(f"there is a system call filter for {known}, but not for {machine}")
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": [
            _rule((*ORDINARY, *DEBUGGING) if debugger else ORDINARY, None),
            _rule(REFUSED if debugger else (*REFUSED, *DEBUGGING), errno.EPERM),
            _rule(ABSENT, errno.ENOSYS),
            *(rule for rule in _by_argument() if getattr(NUMBERS[rule["names"][0]], machine) is not None),
        ],
    }


def _by_argument() -> Iterator[_Rule]:
    yield from _modes()
    yield from _sockets()
    for name, flags in (("clone", NEW_NAMESPACES), ("unshare", NEW_NAMESPACES | NEW_TIME_NAMESPACE)):
        yield from _rules(name, None, _is(0, _NOTHING, flags))
        yield from _rules(name, errno.EPERM, _is_not(0, _NOTHING, flags))
    yield from _rules("ioctl", None, _is_not(1, TERMINAL_TRICKS))
    yield from _rules("ioctl", errno.EPERM, _is(1, TERMINAL_TRICKS))
    yield from _core_dumps()


def _modes() -> Iterator[_Rule]:
    for name, mode in MODES.items():
        yield from _rules(name, None, _is(mode, _NOTHING, SET_IDS))
        yield from _rules(name, errno.EPERM, _is_not(mode, _NOTHING, SET_IDS))
    for name, flags in OPENING.items():
        made, mode = _is_not(flags, _NOTHING, MAKING), flags + 1
        yield from _rules(name, None, _is(flags, _NOTHING, MAKING))
        yield from _rules(name, None, made, _is(mode, _NOTHING, SET_IDS))
        yield from _rules(name, errno.EPERM, made, _is_not(mode, _NOTHING, SET_IDS))


def _sockets() -> Iterator[_Rule]:
    unix, netlink, internet = (_is_whole(0, family) for family in ((socket.AF_UNIX,), (socket.AF_NETLINK,), INTERNET))
    usual = _is(1, TYPES, TYPE_BITS)
    yield from _rules("socket", None, unix)
    yield from _rules("socket", None, netlink, _is_whole(2, (NETLINK_ROUTE,)))
    yield from _rules("socket", errno.EPROTONOSUPPORT, netlink, _is_other(2, (NETLINK_ROUTE,)))
    yield from _rules("socket", None, internet, usual, _is_whole(2, PROTOCOLS))
    yield from _rules("socket", errno.EPROTONOSUPPORT, internet, usual, _is_other(2, PROTOCOLS))
    yield from _rules("socket", errno.EPERM, internet, _is_not(1, TYPES, TYPE_BITS))
    yield from _rules("socket", errno.EAFNOSUPPORT, _is_other(0, (socket.AF_UNIX, socket.AF_NETLINK, *INTERNET)))
    yield from _rules("socketpair", None, unix)
    yield from _rules("socketpair", errno.EAFNOSUPPORT, _is_other(0, (socket.AF_UNIX,)))


def _core_dumps() -> Iterator[_Rule]:
    """Have the call that would change the limit succeed, and change nothing."""
    yield from _rules("setrlimit", None, _is_not(0, (CORE_LIMIT,)))
    yield from _rules("setrlimit", 0, _is(0, (CORE_LIMIT,)))
    asking, changing = ([{"index": 2, "value": 0, "op": f"SCMP_CMP_{compare}"}] for compare in ("EQ", "NE"))
    yield from _rules("prlimit64", None, _is_not(1, (CORE_LIMIT,)))
    yield from _rules("prlimit64", None, _is(1, (CORE_LIMIT,)), asking)
    yield from _rules("prlimit64", 0, _is(1, (CORE_LIMIT,)), changing)


def _rules(name: str, error: int | None, *choices: Sequence[_Condition]) -> Iterator[_Rule]:
    """Allow a call, or have it fail, if of each choice one condition holds."""
    return (_rule((name,), error, conditions) for conditions in itertools.product(*choices))


def _rule(names: Iterable[str], error: int | None, conditions: Iterable[_Condition] = ()) -> _Rule:
    rule: _Rule = {"names": list(names), "args": list(conditions)}
    if error is None:
        return rule | {"action": "SCMP_ACT_ALLOW"}
    return rule | {"action": "SCMP_ACT_ERRNO", "errnoRet": error}


def _is(argument: int, values: Sequence[int], mask: int = _LOWER_HALF) -> list[_Condition]:
    """Return conditions, of which one holds if an argument has one of these values."""
    return [_bits(argument, mask, value) for value in values]


def _is_not(argument: int, values: Sequence[int], mask: int = _LOWER_HALF) -> list[_Condition]:
    """Return conditions, of which one holds if an argument has none of these values."""
    return [_bits(argument, *departure) for departure in _departures(values, mask, mask.bit_length())]


def _is_whole(argument: int, values: Sequence[int]) -> list[_Condition]:
    """Return conditions, of which one holds if an argument, with its upper half, has one of these values."""
    return _is(argument, values, _BOTH_HALVES)


def _is_other(argument: int, values: Sequence[int]) -> list[_Condition]:
    """Return conditions, of which one holds if an argument, with its upper half, has none of these values."""
    length = max(values).bit_length()
    near = [_bits(argument, *departure) for departure in _departures(values, _BOTH_HALVES, length)]
    return [*near, {"index": argument, "value": 1 << length, "op": "SCMP_CMP_GE"}]


def _departures(values: Sequence[int], mask: int, length: int) -> list[tuple[int, int]]:
    """Return masks and values of all numbers that depart from all of these in the lowest bits.

    Each stands for numbers that agree with one of the values down to some bit, have another one there, and cannot
    become any of the values by the bits below.
    """
    bits = [bit for bit in (1 << place for place in range(length)) if mask & bit]
    departures = {(mask & -bit, (value ^ bit) & mask & -bit) for value in values for bit in bits}
    return sorted(departures - {(above, value & above) for above, _ in departures for value in values})


def _bits(argument: int, mask: int, wanted: int) -> _Condition:
    return {"index": argument, "value": mask, "valueTwo": wanted, "op": "SCMP_CMP_MASKED_EQ"}
