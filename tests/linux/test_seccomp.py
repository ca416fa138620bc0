"""The system call filter, in an interpreter of the kernel's filter machine; sandboxes are tried in the kernel."""

import errno
import os
import resource
import socket

import pytest

from belljar.linux.seccomp import callfilter, refusals
from belljar.linux.seccomp.syscalls import NUMBERS
from tests.linux.filtermachine import ALLOW, AUDIT, ERRNO, KILL, MACHINES, run


def number(name: str, machine: str = "x86_64") -> int:
    return int(getattr(NUMBERS[name], machine) or -1)


@pytest.fixture(params=MACHINES)
def machine(request):
    return request.param


def test_named_calls_fail_with_an_error_and_all_others_are_allowed(machine):
    program = callfilter.instructions(machine=machine)
    expected = dict.fromkeys((*refusals.REFUSED, *refusals.DEBUGGING), ERRNO | errno.EPERM)
    expected |= dict.fromkeys(refusals.ABSENT, ERRNO | errno.ENOSYS)
    by_number = {number(name, machine): answer for name, answer in expected.items()}
    by_argument = ("socket", "socketpair", "clone", "unshare", "ioctl", "setrlimit", *refusals.MODES, *refusals.OPENING)
    conditional = {number(name, machine) for name in by_argument}
    for call in set(range(600)) - conditional:
        assert run(program, call, machine=machine) == by_number.get(call, ALLOW), call


@pytest.mark.parametrize("architecture", [0x40000003, 0xC0000028, 0x40000028, 0])
def test_calls_of_another_architecture_kill(machine, architecture):
    program = callfilter.instructions(machine=machine)
    assert run(program, 1, architecture=architecture, machine=machine) == KILL


def test_the_other_machine_of_the_two_is_foreign_too():
    program = callfilter.instructions(machine="aarch64")
    assert run(program, 1, architecture=AUDIT["x86_64"]) == KILL


def test_x32_kills():
    program = callfilter.instructions(machine="x86_64")
    assert run(program, 0x40000000) == KILL
    assert run(program, 0x40000000 + number("socket")) == KILL
    assert run(program, 0x3FFFFFFF) == ALLOW


SOCKETS = [
    ((socket.AF_UNIX, socket.SOCK_STREAM, 0), ALLOW),
    ((socket.AF_UNIX, socket.SOCK_SEQPACKET, 0), ALLOW),
    ((socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0), ALLOW),
    ((socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_UDP), ALLOW),
    ((socket.AF_INET, socket.SOCK_STREAM, 6), ALLOW),
    ((socket.AF_NETLINK, socket.SOCK_RAW, 0), ALLOW),
    ((socket.AF_NETLINK, socket.SOCK_RAW, 9), ERRNO | errno.EPROTONOSUPPORT),
    ((socket.AF_NETLINK, socket.SOCK_RAW, 12), ERRNO | errno.EPROTONOSUPPORT),
    ((socket.AF_INET, socket.SOCK_RAW, 1), ERRNO | errno.EPERM),
    ((socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 255), ERRNO | errno.EPERM),
    ((socket.AF_INET, socket.SOCK_PACKET if hasattr(socket, "SOCK_PACKET") else 10, 3), ERRNO | errno.EPERM),
    ((socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP), ERRNO | errno.EPROTONOSUPPORT),
    ((socket.AF_INET, socket.SOCK_STREAM, 262), ERRNO | errno.EPROTONOSUPPORT),
    ((socket.AF_INET, socket.SOCK_STREAM, 132), ERRNO | errno.EPROTONOSUPPORT),
    ((socket.AF_INET6, socket.SOCK_DGRAM, 136), ERRNO | errno.EPROTONOSUPPORT),
    ((socket.AF_INET, 6, 33), ERRNO | errno.EPERM),
    ((socket.AF_PACKET, socket.SOCK_RAW, 0), ERRNO | errno.EAFNOSUPPORT),
    ((socket.AF_VSOCK, socket.SOCK_STREAM, 0), ERRNO | errno.EAFNOSUPPORT),
    ((socket.AF_ALG, socket.SOCK_SEQPACKET, 0), ERRNO | errno.EAFNOSUPPORT),
    ((44, socket.SOCK_RAW, 0), ERRNO | errno.EAFNOSUPPORT),  # AF_XDP
    ((socket.AF_TIPC, socket.SOCK_STREAM, 0), ERRNO | errno.EAFNOSUPPORT),
]


@pytest.mark.parametrize(("arguments", "answer"), SOCKETS)
def test_sockets_by_family_type_and_protocol(machine, arguments, answer):
    program = callfilter.instructions(machine=machine)
    assert run(program, number("socket", machine), arguments, machine=machine) == answer


@pytest.mark.parametrize("family", range(64))
def test_only_four_families_have_sockets_and_one_has_pairs(family):
    program = callfilter.instructions(machine="x86_64")
    known = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    assert (run(program, number("socket"), (family, socket.SOCK_STREAM, 0)) == ALLOW) is (family in known)
    assert (run(program, number("socketpair"), (family, 1, 0)) == ALLOW) is (family == socket.AF_UNIX)


def test_the_upper_half_of_an_argument_changes_nothing():
    """The kernel ignores it, too."""
    program = callfilter.instructions(machine="x86_64")
    assert run(program, number("socket"), (0xFFFFFFFF00000000 | socket.AF_VSOCK, 1, 0)) == ERRNO | errno.EAFNOSUPPORT
    assert run(program, number("ioctl"), (0, 0x100000000 | 0x5412)) == ERRNO | errno.EPERM


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_new_namespaces(machine, flag):
    program = callfilter.instructions(machine=machine)
    for call in ("clone", "unshare"):
        assert run(program, number(call, machine), (flag | 0x11,), machine=machine) == ERRNO | errno.EPERM


def test_threads_processes_and_terminals_work(machine):
    program = callfilter.instructions(machine=machine)
    threads = 0x3D0F00
    assert run(program, number("clone", machine), (threads,), machine=machine) == ALLOW
    assert run(program, number("clone", machine), (0x01200011,), machine=machine) == ALLOW
    assert run(program, number("unshare", machine), (0x400,), machine=machine) == ALLOW  # CLONE_FILES
    assert run(program, number("ioctl", machine), (0, 0x5413), machine=machine) == ALLOW  # TIOCGWINSZ


def test_nobody_types_into_a_terminal(machine):
    program = callfilter.instructions(machine=machine)
    for request in (0x5412, 0x541C, 0x5423):
        assert run(program, number("ioctl", machine), (0, request), machine=machine) == ERRNO | errno.EPERM


def test_the_limit_on_core_dumps_can_be_read_and_not_changed(machine):
    program = callfilter.instructions(machine=machine)
    unheeded = ERRNO | 0
    setting, both = number("setrlimit", machine), number("prlimit64", machine)
    core, files = resource.RLIMIT_CORE, resource.RLIMIT_NOFILE
    assert run(program, setting, (core, 0x1000), machine=machine) == unheeded
    assert run(program, setting, (files, 0x1000), machine=machine) == ALLOW
    for address in (0x1000, 0x7FFF00000000, 0x7FFF00001000):
        assert run(program, both, (0, core, address), machine=machine) == unheeded
        assert run(program, both, (0, files, address), machine=machine) == ALLOW
    assert run(program, both, (0, core, 0, 0x1000), machine=machine) == ALLOW


@pytest.mark.parametrize("bits", [0o4000, 0o2000, 0o6000])
def test_nobody_makes_a_set_user_id_program(machine, bits):
    program = callfilter.instructions(machine=machine)
    refused = ERRNO | errno.EPERM
    for name, place in refusals.MODES.items():
        if (call := number(name, machine)) >= 0:
            assert run(program, call, (*[0] * place, bits | 0o755), machine=machine) == refused
            assert run(program, call, (*[0] * place, 0o1777), machine=machine) == ALLOW
    for name, place in refusals.OPENING.items():
        if (call := number(name, machine)) >= 0:
            for flags in (os.O_CREAT, os.O_TMPFILE, os.O_CREAT | os.O_EXCL | os.O_RDWR):
                assert run(program, call, (*[0] * place, flags, bits | 0o755), machine=machine) == refused
                assert run(program, call, (*[0] * place, flags, 0o644), machine=machine) == ALLOW
            # Where no file is made, nobody has put anything sensible into the argument.
            assert run(program, call, (*[0] * place, os.O_DIRECTORY, 0xFFFFFFFF), machine=machine) == ALLOW


def test_a_debugger_may_trace_and_no_more(machine):
    strict, relaxed = callfilter.instructions(machine=machine), callfilter.instructions(machine=machine, debugger=True)
    for call in range(600):
        before, after = (run(program, call, machine=machine) for program in (strict, relaxed))
        traced = call in {number(name, machine) for name in refusals.DEBUGGING}
        assert (before != after) is traced


def test_the_program_is_what_the_kernel_reads():
    program = callfilter.program(machine="x86_64")
    assert len(program) == 8 * len(callfilter.instructions(machine="x86_64"))
    assert len(program) // 8 < 4096


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(callfilter.UnknownArchitectureError, match="riscv64"):
        callfilter.program(machine="riscv64")
