"""libseccomp, which compiles profiles for container engines; used as runc and crun use it."""

import ctypes
import os
import struct
from typing import Any

import pytest

from belljar.linux.seccomp.callfilter import Block, Instruction
from tests.linux.filtermachine import ALLOW, AUDIT, ERRNO

_OPERATORS = {"SCMP_CMP_NE": 1, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5, "SCMP_CMP_MASKED_EQ": 7}
_FIELDS = struct.Struct("=HBBI")
_PROTOTYPES = {
    "seccomp_arch_add": [ctypes.c_void_p, ctypes.c_uint32],
    "seccomp_arch_remove": [ctypes.c_void_p, ctypes.c_uint32],
    "seccomp_rule_add_array": [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p],
    "seccomp_export_bpf": [ctypes.c_void_p, ctypes.c_int],
    "seccomp_release": [ctypes.c_void_p],
}


class _Compare(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def load() -> ctypes.CDLL:
    """Return the library; skip the test where it is not installed."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("there is no libseccomp on this machine")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    for name, arguments in _PROTOTYPES.items():
        getattr(library, name).argtypes = arguments
    return library


def number(library: ctypes.CDLL, machine: str, name: str) -> int:
    """Return a call's number; below zero if the library does not know it, or the machine has none."""
    return int(library.seccomp_syscall_resolve_name_arch(AUDIT[machine], name.encode()))


def names(library: ctypes.CDLL, machine: str) -> dict[int, str]:
    """Return all calls that the library knows, by number."""
    found = {call: library.seccomp_syscall_resolve_num_arch(AUDIT[machine], call) for call in range(1024)}
    return {call: ctypes.string_at(name).decode() for call, name in found.items() if name}


def compiled(library: ctypes.CDLL, profile: dict[str, Any], machine: str) -> Block:
    """Compile a profile to instructions. Calls that the library does not know are passed over, as engines do."""
    default = _action(profile["defaultAction"], profile["defaultErrnoRet"])
    context = library.seccomp_init(ctypes.c_uint32(default))
    try:
        if machine != os.uname().machine:
            assert library.seccomp_arch_add(context, AUDIT[machine]) == 0
            assert library.seccomp_arch_remove(context, 0) == 0  # the native one
        for rule in profile["syscalls"]:
            answer = _action(rule["action"], rule.get("errnoRet", 0))
            if answer == default:
                continue
            for name in rule["names"]:
                if (call := library.seccomp_syscall_resolve_name(name.encode())) != -1:
                    _add(library, context, answer, call, rule["args"])
        return _exported(library, context)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: int, answer: int, call: int, conditions: list[dict[str, Any]]) -> None:
    compares = (_Compare * len(conditions))(
        *(
            _Compare(condition["index"], _OPERATORS[condition["op"]], condition["value"], condition.get("valueTwo", 0))
            for condition in conditions
        )
    )
    assert library.seccomp_rule_add_array(context, answer, call, len(conditions), compares) == 0


def _exported(library: ctypes.CDLL, context: int) -> Block:
    file = os.memfd_create("filter")
    try:
        assert library.seccomp_export_bpf(context, file) == 0
        content = os.pread(file, os.fstat(file).st_size, 0)
    finally:
        os.close(file)
    return [Instruction._make(fields) for fields in _FIELDS.iter_unpack(content)]


def _action(name: str, error: int) -> int:
    return ALLOW if name == "SCMP_ACT_ALLOW" else ERRNO | error
