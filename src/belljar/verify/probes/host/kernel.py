"""What the kernel lets a process inside do: rights, system calls, namespaces, other processes."""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import signal
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from belljar.verify.probes.kit import Finding, Mark, inside

_libc = ctypes.CDLL(None, use_errno=True)

NAMESPACES: Final = ("pid", "net", "mnt", "ipc", "uts")
_NEW: Final = {"mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
               "pid": 0x20000000, "net": 0x40000000, "time": 0x00000080}  # fmt: skip
_CALLS: Final = {
    "x86_64": {"clone": 56, "clone3": 435, "io_uring_setup": 425, "bpf": 321, "userfaultfd": 323, "keyctl": 250,
               "perf_event_open": 298, "mount": 165, "setns": 308, "pidfd_getfd": 438,
               "open_by_handle_at": 304, "init_module": 175, "kexec_load": 246},
    "aarch64": {"clone": 220, "clone3": 435, "io_uring_setup": 425, "bpf": 280, "userfaultfd": 282, "keyctl": 219,
                "perf_event_open": 241, "mount": 40, "setns": 268, "pidfd_getfd": 438,
                "open_by_handle_at": 265, "init_module": 105, "kexec_load": 104},
}  # fmt: skip
_REFUSALS: Final = (errno.EPERM, errno.ENOSYS)
"""How a filter refuses. Anything else comes from the kernel's own code, which was reached."""

_SIOCSIFTXQLEN: Final = 0x8943
_SO_MARK: Final = 36
_IP_TRANSPARENT: Final = 19


def status(process: str = "self") -> dict[str, str]:
    """Return what the kernel tells about a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def call(number: int, *arguments: int) -> int:
    """Make a system call; return 0, or the error."""
    result = _libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    return ctypes.get_errno() if result < 0 else 0


@inside(48, "capabilities", "capabilities in any set")
def capabilities(_: Mark) -> Finding:
    sets = {name: value for name, value in status().items() if name.startswith("Cap")}
    held = {name: value for name, value in sets.items() if int(value, 16)}
    return Finding(not held and len(sets) == 5, f"has {held}" if held else f"none in {', '.join(sets)}")


@inside(48, "no-new-privileges", "privileges from setuid programs")
def no_new_privileges(_: Mark) -> Finding:
    value = status().get("NoNewPrivs")
    return Finding(value == "1", f"NoNewPrivs is {value}")


@inside(48, "seccomp", "the system call filter, as the kernel tells and as it works")
def seccomp(_: Mark) -> Finding:
    mode = status().get("Seccomp")
    calls = _CALLS[platform.machine()]
    empty = ("bpf", "userfaultfd", "keyctl", "perf_event_open", "mount", "open_by_handle_at", "init_module", "setns")
    reached = [name for name in empty if call(calls[name], 0, 0, 0, 0, 0) not in _REFUSALS]
    evidence = f"mode {mode}, reached: {', '.join(reached)}" if reached else f"mode {mode}"
    return Finding(mode == "2" and not reached, evidence)


@inside(48, "namespaces", "namespaces that are shared with whoever made the sandbox")
def namespaces(mark: Mark) -> Finding:
    return none_shared(NAMESPACES, mark.scene.outside)


@inside(48, "user-namespace", "the user namespace of whoever made the sandbox, in which users inside are users outside")
def user_namespace(mark: Mark) -> Finding:
    return none_shared(("user",), mark.scene.outside)


@inside(48, "control-groups", "the view of control groups of whoever made the sandbox")
def control_groups(mark: Mark) -> Finding:
    return none_shared(("cgroup",), mark.scene.outside)


def namespace(kind: str) -> str:
    """Return what tells the namespace of this process from others of its kind."""
    return str(Path(f"/proc/self/ns/{kind}").readlink())


def none_shared(kinds: Sequence[str], others: Mapping[str, Sequence[str]]) -> Finding:
    """Expect that all namespaces of these kinds are our own."""
    if not all(others.get(kind) for kind in kinds):
        raise RuntimeError("it is not known whose they would be")
    shared = [kind for kind in kinds if namespace(kind) in others[kind]]
    return Finding(not shared, f"shared: {', '.join(shared)}" if shared else f"own: {', '.join(kinds)}")


@inside(31, "interfaces", "network interfaces other than loopback")
def interfaces(_: Mark) -> Finding:
    names = [name for _, name in socket.if_nameindex()]
    return Finding(names == ["lo"], ", ".join(names))


@inside(31, "network-settings", "the packet filter, routes, interfaces, and options of sockets that take rights")
def network_settings(mark: Mark) -> Finding:
    return none_works(
        {
            "nftables": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close(),
            "iptables": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close(),
            "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3).close(),
            "routes": lambda: _add_route(mark),
            "interfaces": _change_interface,
            "marks": lambda: _set_option(socket.SOL_SOCKET, _SO_MARK),
            "foreign addresses": lambda: _set_option(socket.IPPROTO_IP, _IP_TRANSPARENT),
            "sysctl": lambda: os.close(os.open("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY)),
        }
    )


def none_works(attempts: Mapping[str, Callable[[], object]]) -> Finding:
    """Expect an OSError from each of these."""
    worked = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        worked.append(name)
    return Finding(not worked, f"worked: {', '.join(worked)}" if worked else f"refused: {', '.join(attempts)}")


def _add_route(mark: Mark) -> None:
    """Ask the kernel for a route to an address that nobody else uses."""
    address = socket.inet_aton(mark.address)
    route = struct.pack("=8BI", socket.AF_INET, 32, 0, 0, 254, 4, 253, 1, 0)
    body = route + struct.pack("=HH4s", 8, 1, address) + struct.pack("=HHI", 8, 4, 1)
    message = struct.pack("=IHHII", 16 + len(body), 24, 0x405, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.bind((0, 0))
        netlink.send(message)
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    if error:
        raise OSError(-error, os.strerror(-error))


def _change_interface() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFTXQLEN, struct.pack("=16si20x", b"lo", 1000))


def _set_option(level: int, option: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(level, option, 1)


@inside(32, "other-users", "becoming another user, root included")
def other_users(_: Mark) -> Finding:
    others = [uid for uid in (0, 1, 65534) if uid != os.getuid()]
    return none_works(
        {f"user {uid}": partial(os.setuid, uid) for uid in others}
        | {f"group {gid}": partial(os.setgid, gid) for gid in others if gid != os.getgid()}
        | {"groups": partial(os.setgroups, [0])}
    )


@inside(33, "new-namespaces", "new namespaces, by unshare, clone and clone3")
def new_namespaces(_: Mark) -> Finding:
    calls = _CALLS[platform.machine()]
    request = (ctypes.c_uint64 * 11)(_NEW["user"], 0, 0, 0, signal.SIGCHLD)
    attempts: dict[str, Callable[[], int]] = {
        **{f"unshare {name}": partial(_libc.unshare, flag) for name, flag in _NEW.items()},
        **{
            f"clone {name}": partial(call, calls["clone"], _NEW[name] | signal.SIGCHLD, 0, 0, 0, 0)
            for name in ("user", "net")
        },
        "clone3 user": lambda: call(calls["clone3"], ctypes.addressof(request), 88),
    }
    made = [name for name, attempt in attempts.items() if _succeeds_in_a_child(attempt)]
    return Finding(not made, f"made: {', '.join(made)}" if made else "all refused")


def _succeeds_in_a_child(function: Callable[[], int]) -> bool:
    """Call a function in a process of its own; tell whether it returned 0, rather than an error, or was killed."""
    process = os.fork()
    if process == 0:
        os._exit(0 if function() == 0 else 1)
    return os.waitpid(process, 0)[1] == 0


@inside(35, "io-uring", "io_uring, which makes system calls that no filter sees")
def io_uring(_: Mark) -> Finding:
    parameters = ctypes.create_string_buffer(120)
    error = call(_CALLS[platform.machine()]["io_uring_setup"], 1, ctypes.addressof(parameters))
    return Finding(error in _REFUSALS, os.strerror(error) if error else "it works")


@inside(36, "foreign-calls", "system calls of another architecture")
def foreign_calls(_: Mark) -> Finding:
    if platform.machine() != "x86_64":
        return Finding(holds=True, evidence=f"there are none on {platform.machine()}")
    worked = [name for name, attempt in (("x32", _call_x32), ("i386", _call_i386)) if _succeeds_in_a_child(attempt)]
    return Finding(not worked, f"work: {', '.join(worked)}" if worked else "refused: x32, i386")


def _call_x32() -> int:
    return call(0x40000000 | 39)  # getpid


def _call_i386() -> int:
    code = bytes([0x53, 0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0x5B, 0xC3])  # push rbx; mov eax, getpid; int 0x80; pop rbx; ret
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return 0 if function() > 0 else 1
