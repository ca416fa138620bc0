"""The leader of a session with a terminal: who is told what stops the command, and has it continued.

Theory of operation
-------------------
The terminal stops a command only if one of its process group has a parent outside of the group, in the same session
(`linux.jobs`). Bubblewrap is in the command's group, but no such process: it is our parent's child, and as the first
process of a namespace no terminal stops it. So the child that the sandbox comes from stays as the session's leader, and
starts another process, the *canary*, in the command's group. The group thus has who can continue it; and whatever
signal the terminal stops it with, the canary is stopped by it as well, and the kernel tells its parent, the leader.

Both are outside of the sandbox's own PID namespace: nothing in it can see them. The leader's part is to tell the
command line which signal has stopped the group, and to do what it is asked: continue the group, with the terminal or
without. A command that stops nobody but itself is not seen here, but by the command line, which looks at it.

Whoever is in the canary's group can kill it. The leader stays all the same, for as long as bubblewrap does: were it
gone, the command would have no terminal, and Ctrl-C would be nobody's. By then the command is dead, or has left for a
group of its own, which the terminal stops without a canary: the first process inside is in the old one.
"""

import os
import select
import signal
import socket
from typing import Final, NoReturn

from belljar.linux.jobs import STOPS, SessionJob
from belljar.linux.processes import get_signal_when_parent_dies, keep_memory_private

FOREGROUND: Final = b"f"
BACKGROUND: Final = b"b"
RESUMED: Final = b"r"


def lead(group: int, terminal: int, command: socket.socket, channel: socket.socket, *, foreground: bool) -> NoReturn:
    """Lead the session of a group: say so to who becomes the command, then obey the channel until its end."""
    try:
        get_signal_when_parent_dies(signal.SIGKILL)
        os.dup2(terminal, 0)
        _close_all_but(command, channel)
        keep_memory_private()
        command.recv(1)
        changed = _changes_of_children()
        canary = _start_canary(group)
        job = SessionJob(group, 0)
        if foreground:
            os.tcsetpgrp(0, group)
        command.send(b"\0")
        command.close()
        _obey(job, canary, channel, changed, os.pidfd_open(group))
    finally:
        os._exit(0)


def _close_all_but(*kept: socket.socket) -> None:
    """Let go of the listeners, the terminal's other names, and whatever tells somebody by its end that we are gone."""
    edges = sorted(one.fileno() for one in kept)
    os.closerange(1, edges[0])
    os.closerange(edges[0] + 1, edges[1])
    os.closerange(edges[1] + 1, os.sysconf("SC_OPEN_MAX"))


def _changes_of_children() -> int:
    """Return a descriptor that becomes readable when a child is stopped."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _start_canary(group: int) -> int:
    canary = os.fork()  # into the namespace around the sandbox, with which it ends
    if canary == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in signal.valid_signals() - STOPS - {signal.SIGKILL, signal.SIGCHLD, signal.SIGCONT}:
            signal.signal(number, signal.SIG_IGN)
        get_signal_when_parent_dies(signal.SIGKILL)
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        while True:
            signal.pause()
    os.setpgid(canary, group)
    return canary


def _obey(job: SessionJob, canary: int, channel: socket.socket, changed: int, sandbox: int) -> None:
    poll = select.poll()
    poll.register(sandbox, select.POLLIN)
    poll.register(changed, select.POLLIN)
    poll.register(channel, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == sandbox:
                return
            if ready == changed:
                os.read(changed, 4096)
                if number := _stop_of(canary):
                    channel.send(bytes([number]))
            elif word := channel.recv(1):
                _stop_of(canary)  # that is what it is continued from
                job.resume(foreground=word == FOREGROUND)
                channel.send(RESUMED)
            else:
                return


def _stop_of(canary: int) -> int | None:
    """Return the signal that has stopped the canary since we last asked; None if none has, or it has ended."""
    try:
        changed, status = os.waitpid(canary, os.WNOHANG | os.WUNTRACED)
    except ChildProcessError:
        return None
    return os.WSTOPSIG(status) if changed and os.WIFSTOPPED(status) else None
