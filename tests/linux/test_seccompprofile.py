"""The system call filter as a profile: read by the rules of OCI, compiled by libseccomp, and compared with our own.

The oracle is the filter of `belljar.linux.seccomp`, in an interpreter of the kernel's filter machine.
"""

import errno
import itertools
import json
import operator
import os
import socket
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.linux.seccomp import callfilter, refusals
from belljar.linux.seccomp import profile as engines
from belljar.linux.seccomp.ordinarycalls import ORDINARY
from belljar.linux.seccomp.syscalls import NUMBERS
from tests.linux import libseccomp
from tests.linux.filtermachine import ALLOW, AUDIT, ERRNO, KILL, KILL_THREAD, MACHINES, run

LOWER = 0xFFFFFFFF
UPPER = 0xDEADBEEF << 32
ABSENT = ERRNO | errno.ENOSYS

GONE = {
    "_sysctl", "afs_syscall", "create_module", "epoll_ctl_old", "epoll_wait_old", "get_kernel_syms", "getpmsg",
    "putpmsg", "query_module", "security", "tuxcall", "vserver",
}  # fmt: skip
NEW = {
    "file_getattr", "file_setattr", "getxattrat", "listmount", "listxattrat", "lsm_get_self_attr", "lsm_list_modules",
    "lsm_set_self_attr", "mseal", "removexattrat", "rseq_slice_yield", "setxattrat", "statmount", "uprobe", "uretprobe",
}  # fmt: skip
LOOKED_INTO = {
    "clone": (0,), "ioctl": (1,), "prlimit64": (1, 2), "setrlimit": (0,), "socket": (0, 1, 2), "socketpair": (0,),
    "unshare": (0,), **{name: (mode,) for name, mode in refusals.MODES.items()},
    **{name: (flags, flags + 1) for name, flags in refusals.OPENING.items()},
}  # fmt: skip
"""Calls of which arguments matter, and which ones."""

VALUES = [
    *range(20), socket.AF_VSOCK, 255, 262, 0o755, 0o1777, 0o2755, 0o4755, 0o6755, os.O_TMPFILE, os.O_DIRECTORY,
    *(1 << place for place in range(33)),
    *refusals.TERMINAL_TRICKS, *(request ^ 1 for request in refusals.TERMINAL_TRICKS),
    refusals.NEW_NAMESPACES, 0x3D0F00, 0x01200011, LOWER, UPPER | LOWER, socket.SOCK_STREAM | socket.SOCK_CLOEXEC,
]  # fmt: skip
OTHERS = [0, 1, socket.AF_INET, refusals.CORE_LIMIT, socket.AF_NETLINK, os.O_CREAT, os.O_TMPFILE]


@pytest.fixture(params=MACHINES)
def machine(request):
    return request.param


@cache
def profile(machine: str, *, debugger: bool = False) -> dict[str, Any]:
    return engines.profile(machine=machine, debugger=debugger)


@cache
def rules(machine: str, name: str, *, debugger: bool) -> list[dict[str, Any]]:
    return [rule for rule in profile(machine, debugger=debugger)["syscalls"] if name in rule["names"]]


def holds(condition: dict[str, Any], arguments: tuple[int, ...]) -> bool:
    """Compare 64 bits, as libseccomp does."""
    argument, value = arguments[condition["index"]], condition["value"]
    if condition["op"] == "SCMP_CMP_MASKED_EQ":
        return bool(argument & value == condition["valueTwo"])
    compare = {"SCMP_CMP_EQ": operator.eq, "SCMP_CMP_NE": operator.ne, "SCMP_CMP_GE": operator.ge}[condition["op"]]
    return bool(compare(argument, value))


def answers(machine: str, name: str, arguments: tuple[int, ...], *, debugger: bool = False) -> list[int]:
    """Return the answer of every rule of which all conditions hold, or the one for unknown calls."""
    found = [
        rule
        for rule in rules(machine, name, debugger=debugger)
        if all(holds(condition, arguments) for condition in rule["args"])
    ]
    return [ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else ERRNO | rule["errnoRet"] for rule in found] or [ABSENT]


def filtered(machine: str, name: str, arguments: tuple[int, ...], *, debugger: bool = False) -> int:
    """Return the answer of our own filter."""
    return run(program(machine, debugger=debugger), getattr(NUMBERS[name], machine), arguments, machine=machine)


@cache
def program(machine: str, *, debugger: bool) -> callfilter.Block:
    return callfilter.instructions(machine=machine, debugger=debugger)


@cache
def compiled(machine: str, *, debugger: bool = False) -> callfilter.Block:
    """Return what libseccomp makes of the profile."""
    return libseccomp.compiled(libseccomp.load(), profile(machine, debugger=debugger), machine)


def as_intended(machine: str, name: str, arguments: tuple[int, ...], *, debugger: bool = False) -> bool:
    """Tell whether one rule holds, so that their order does not matter, and the answer is that of our own filter.

    Families and protocols of sockets are refused if there is anything in their upper half.
    """
    (answer,) = answers(machine, name, arguments, debugger=debugger)
    whole = {"socket": (0, 2), "socketpair": (0,)}.get(name, ())
    if any(arguments[index] > LOWER for index in whole):
        return answer != ALLOW or filtered(machine, name, arguments) == ALLOW
    return answer == filtered(machine, name, arguments, debugger=debugger)


def every_call(machine: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Give each argument that matters every value, with and without an upper half, beside some of the others."""
    for name, indexes in LOOKED_INTO.items():
        if getattr(NUMBERS[name], machine) is None:
            continue
        for index, others in itertools.product(indexes, itertools.product(OTHERS, repeat=len(indexes) - 1)):
            for value in (*VALUES, *(UPPER | value for value in VALUES)):
                rest = iter(others)
                yield name, tuple(value if at == index else next(rest) if at in indexes else 0 for at in range(6))


number = st.one_of(st.sampled_from(VALUES), st.integers(0, LOWER), st.integers(0, UPPER | LOWER))
any_call = st.tuples(st.sampled_from(sorted(NUMBERS)), st.tuples(*[number] * 6))


def test_every_value_of_an_argument_has_the_answer_of_the_filter(machine):
    wrong = [call for call in every_call(machine) if not as_intended(machine, *call)]
    assert not wrong


@settings(max_examples=500, deadline=None)
@given(any_call, st.sampled_from(MACHINES), st.booleans())
def test_any_call_has_the_answer_of_the_filter(call, machine, debugger):
    if getattr(NUMBERS[call[0]], machine) is not None:
        assert as_intended(machine, *call, debugger=debugger)


@pytest.mark.long
def test_libseccomp_makes_of_the_profile_what_it_says(machine):
    program = compiled(machine)
    for name, arguments in every_call(machine):
        number = getattr(NUMBERS[name], machine)
        assert [run(program, number, arguments, machine=machine)] == answers(machine, name, arguments), (
            name,
            arguments,
        )


@pytest.mark.parametrize("debugger", [False, True])
def test_other_calls_are_allowed_refused_or_absent_by_name(machine, debugger):
    names = libseccomp.names(libseccomp.load(), machine)
    for number in range(1024):
        if (name := names.get(number)) not in LOOKED_INTO:
            expected = answers(machine, name or "a call to come", (0,) * 6, debugger=debugger)
            assert [run(compiled(machine, debugger=debugger), number, machine=machine)] == expected, name


def test_calls_of_another_architecture_are_killed(machine):
    for architecture in (0x40000003, 0xC0000028, 0x40000028, 0, *(set(AUDIT.values()) - {AUDIT[machine]})):
        assert run(compiled(machine), 1, architecture=architecture, machine=machine) in {KILL, KILL_THREAD}


def test_x32_is_killed():
    assert run(compiled("x86_64"), 0x40000000 + 41) in {KILL, KILL_THREAD}


def test_the_tables_have_every_call_by_the_name_and_number_that_libseccomp_knows(machine):
    library = libseccomp.load()
    known = libseccomp.names(library, machine)
    assert set(known.values()) - GONE <= {*ORDINARY, *NUMBERS}
    for name, numbers in NUMBERS.items():
        number = getattr(numbers, machine)
        assert number is None or number > max(known) or known[number] == name
    # A name that no libseccomp knows would be a slip of the pen.
    assert {name for name in ORDINARY if libseccomp.number(library, machine, name) == -1} <= NEW


def test_every_call_is_in_one_table_only():
    tables = [*ORDINARY, *refusals.REFUSED, *refusals.ABSENT, *refusals.DEBUGGING, *LOOKED_INTO]
    assert len(tables) == len(set(tables))
    assert set(tables) == {*ORDINARY, *NUMBERS}


def test_no_rule_looks_at_an_argument_twice(machine):
    for rule in profile(machine)["syscalls"]:
        indexes = [condition["index"] for condition in rule["args"]]
        assert len(indexes) == len(set(indexes))


def test_a_profile_is_json_for_one_architecture():
    for machine, name in (("x86_64", "SCMP_ARCH_X86_64"), ("aarch64", "SCMP_ARCH_AARCH64")):
        assert profile(machine)["architectures"] == [name]
        assert json.loads(json.dumps(profile(machine))) == profile(machine)
    assert engines.profile() == engines.profile(machine=os.uname().machine)


def test_calls_that_nobody_has_heard_of_are_absent(machine):
    assert profile(machine)["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile(machine)["defaultErrnoRet"] == errno.ENOSYS


def test_an_unknown_machine_has_no_profile():
    with pytest.raises(callfilter.UnknownArchitectureError, match="riscv64"):
        engines.profile(machine="riscv64")
