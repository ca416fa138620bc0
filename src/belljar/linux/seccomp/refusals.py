"""What the system call filter of a sandbox refuses, whatever form the filter takes.

Whatever the kernel has besides is allowed: a filter that lists what agents are thought to need breaks them with every
new C library. What is named here is refused with an error that programs know how to take.

The filter is a second wall. No capability, no interface and no device is there to be used even without it; it takes
away what an exploit of the kernel would begin with, and the families of sockets that are not bound to a network
namespace.
"""

import socket
from typing import Final

REFUSED: Final = (
    # Mounts and namespaces: the walls of the sandbox.
    "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "listns", "mount", "mount_setattr", "move_mount",
    "open_tree", "open_tree_attr", "pivot_root", "setns", "umount2",
    # Parts of the kernel that have been the way out before, and that no agent needs.
    "add_key", "bpf", "fanotify_init", "keyctl", "lookup_dcookie", "migrate_pages", "modify_ldt", "move_pages",
    "name_to_handle_at", "nfsservctl", "open_by_handle_at", "perf_event_open", "request_key", "sysfs", "uselib",
    "userfaultfd", "ustat",
    # The machine as a whole.
    "acct", "adjtimex", "clock_adjtime", "clock_settime", "delete_module", "finit_module", "init_module", "ioperm",
    "iopl", "kexec_file_load", "kexec_load", "quotactl", "quotactl_fd", "reboot", "setdomainname", "sethostname",
    "settimeofday", "swapoff", "swapon", "syslog", "vhangup",
    # Other processes' descriptors and memory.
    "kcmp", "pidfd_getfd", "process_madvise", "process_mrelease",
)  # fmt: skip
"""Calls that fail with "operation not permitted"."""

ABSENT: Final = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "openat2")
"""Calls that fail as if the kernel were older: programs then use the ones that can be filtered."""

MODES: Final = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
"""Calls that give a file its mode, and which argument that is."""

OPENING: Final = {"open": 1, "openat": 2}
"""Calls that may make a file, and which argument says so; the mode is the next one."""

DEBUGGING: Final = ("process_vm_readv", "process_vm_writev", "ptrace")
"""Calls that are refused unless a debugger is to work inside."""

INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
"""Families of sockets that are allowed by type and protocol; besides them there are unix sockets and netlink."""

TYPE_BITS: Final = 0xF  # without SOCK_CLOEXEC and SOCK_NONBLOCK
TYPES: Final = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
PROTOCOLS: Final = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)
NETLINK_ROUTE: Final = 0

NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_TIME_NAMESPACE: Final = 0x00000080  # for unshare; in clone these bits are a signal
SET_IDS: Final = 0o6000  # S_ISUID, S_ISGID
MAKING: Final = 0x00400040  # O_TMPFILE, O_CREAT
CORE_LIMIT: Final = 4  # RLIMIT_CORE

TERMINAL_TRICKS: Final = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
"""Requests to a terminal that type on behalf of its user, or have the kernel load a line discipline."""
