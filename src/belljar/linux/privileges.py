"""How a process gives up, for ever, what it could do: capabilities, new privileges, system calls."""

import ctypes
import errno
from typing import Final

from belljar.linux.processes import prctl

_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x20080522
_MOST_CAPABILITIES: Final = 64
_INSTRUCTION_BYTES: Final = 8

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def drop_capabilities() -> None:
    """Empty every capability set, the bounding set first."""
    for capability in range(_MOST_CAPABILITIES):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                break  # the kernel knows no more of them
            raise
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    none = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 of each
    if _libc.capset(ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), ctypes.byref(none)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def forbid_new_privileges() -> None:
    """Have no program that is executed from now on gain anything."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def install_filter(program: bytes) -> None:
    """Put a system call filter in force, as `seccomp.callfilter` makes it."""
    described = _Program(len(program) // _INSTRUCTION_BYTES, program)
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(described))
