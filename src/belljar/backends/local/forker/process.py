"""The forker: a process without threads that forks others, for a server that has threads and must not.

It does nothing else. Every request is handled by a process forked for it, which makes a sandbox, enters one, and
answers over a channel of its own. A command that was started becomes the forker's child when the process that started
it ends; so the forker is told of its end, and passes signals on to it: only who would have to bury a process can be
sure that its number is still its own.

While it lives, and while any process lives that it has forked for a request, it holds the lock of the state directory:
nobody else makes or looks for sandboxes there. It ends when its server does; sandboxes and commands live on.
"""

import fcntl
import gc
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from belljar.backends.interface import MachineError
from belljar.backends.local.forker import entering, files, making
from belljar.backends.local.forker.protocol import ForkerRequest, receive_request, reply, reply_error
from belljar.backends.local.records import Records
from belljar.gateway.listeners import Listeners
from belljar.linux.processes import inherit_orphans
from belljar.linux.seccomp import callfilter
from belljar.sandbox.arming import ArmingError, arm_here
from belljar.sandbox.looking import look_at_network
from belljar.sandbox.proving import ProofError
from belljar.sandbox.spec import Command, SandboxSpec

_BIRTH: Final = struct.Struct("=ii")
_MOST_PATH_BYTES: Final = 4096
_MOST_SECONDS: Final = 120
"""After which a process that handles a request is ended, whatever it waits for."""

_LOCK_SECONDS: Final = 15.0
_LOCK_PAUSE: Final = 0.02


class Forker:
    """Forks a process for each request."""

    def __init__(self, control: socket.socket, state: Path) -> None:
        self._control, self._records = control, Records(state)
        self._handling: dict[int, socket.socket] = {}
        """Processes that handle a request."""

        self._commands: dict[int, socket.socket] = {}
        self._births, self._birth = os.pipe()
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until the server is gone."""
        deaths, death = os.pipe()
        for end in (deaths, death, self._births):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(death, warn_on_full_buffer=False)
        self._selector.register(deaths, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._take_request():
                        return
                elif key.fd == deaths:
                    os.read(deaths, 4096)
                    self._reap_children()
                elif key.data in self._commands:
                    self._signal(key.data)

    def _take_request(self) -> bool:
        """Fork a process for the next request; tell whether there may be another."""
        try:
            request = receive_request(self._control)
        except OSError:
            return True  # too many descriptors are open; who asked sees the end of the channel
        if request is None:
            return False
        try:
            child = os.fork()
        except OSError as error:
            with suppress(OSError):
                reply_error(request.channel, error)
            request.channel.close()
        else:
            if child == 0:
                self._handle(request)
            self._handling[child] = request.channel
        for descriptor in request.descriptors:
            os.close(descriptor)
        return True

    def _handle(self, request: ForkerRequest) -> NoReturn:
        """Do what was asked for, in a process of its own."""
        tasks: dict[str, Callable[..., None]] = {
            "create": self._create,
            "adopt": self._adopt,
            "start": self._start,
            "put_file": self._put_file,
            "get_file": self._get_file,
            "put_tree": self._put_tree,
            "get_tree": self._get_tree,
            "send_all": self._send_all,
            "look": self._look,
        }
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.alarm(_MOST_SECONDS)
            tasks[request.task](request, *request.arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the server is told
            reply_error(request.channel, error)
        finally:
            os._exit(0)

    def _create(self, request: ForkerRequest, sandbox: str, spec: SandboxSpec) -> None:
        _reply_listeners(request, making.make(self._records, sandbox, spec))

    def _adopt(self, request: ForkerRequest, sandbox: str) -> None:
        entering.enter_network(self._records.read(sandbox))
        try:
            listeners = arm_here()
        except (ArmingError, ProofError) as error:
            raise MachineError(str(error)) from error
        _reply_listeners(request, listeners)

    def _start(self, request: ForkerRequest, sandbox: str, command: Command) -> None:
        kept = [request.channel.fileno(), self._birth]
        child = entering.start(self._records.read(sandbox), command, request.descriptors, kept)
        reply(request.channel)
        os.write(self._birth, _BIRTH.pack(os.getpid(), child))

    def _put_file(self, request: ForkerRequest, sandbox: str, path: str, mode: int) -> None:
        files.put(self._records.read(sandbox), path, mode, request.descriptors[0])
        reply(request.channel)

    def _get_file(self, request: ForkerRequest, sandbox: str, path: str, limit: int) -> None:
        reply(request.channel, descriptors=[files.get(self._records.read(sandbox), path, limit)])

    def _put_tree(self, request: ForkerRequest, sandbox: str, path: str) -> None:
        archive = files.ReportingFile(request.descriptors[0], "rb", _restart_time)
        files.put_tree(self._records.read(sandbox), path, archive)
        reply(request.channel)

    def _get_tree(self, request: ForkerRequest, sandbox: str, path: str, names: Sequence[str], limit: int) -> None:
        archive = files.ReportingFile(request.descriptors[0], "wb", _restart_time)
        files.get_tree(self._records.read(sandbox), path, archive, names, limit)
        reply(request.channel)

    def _send_all(self, request: ForkerRequest, sandbox: str, number: int) -> None:
        entering.send_all(self._records.read(sandbox), number)
        reply(request.channel)

    def _look(self, request: ForkerRequest, sandbox: str) -> None:
        entering.enter(self._records.read(sandbox))
        reply(request.channel, look_at_network())

    # In the forker itself.

    def _reap_children(self) -> None:
        """Take note of processes that have ended, and of first processes of sandboxes, which are our children, too."""
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            self._note_births()  # a command's was announced before it became our child
            if child in self._handling:
                self._handling.pop(child).close()
            elif child in self._commands:
                self._report_exit(child, os.waitstatus_to_exitcode(status))

    def _note_births(self) -> None:
        with suppress(BlockingIOError):
            while True:
                parent, child = _BIRTH.unpack(os.read(self._births, _BIRTH.size))
                channel = self._commands[child] = self._handling.pop(parent)
                self._selector.register(channel, selectors.EVENT_READ, child)

    def _signal(self, child: int) -> None:
        """Pass a signal on to a command's process group."""
        channel = self._commands[child]
        try:
            number = channel.recv(1)
        except ConnectionError:
            number = b""
        if number:
            with suppress(ProcessLookupError):
                os.killpg(child, number[0])
        else:  # nobody is interested any more
            self._selector.unregister(channel)

    def _report_exit(self, child: int, code: int) -> None:
        channel = self._commands.pop(child)
        with suppress(OSError):
            reply(channel, code if code >= 0 else 128 - code)
        with suppress(KeyError):
            self._selector.unregister(channel)
        channel.close()


def _restart_time() -> None:
    """Give a process that carries a tree as much time again: it ends when nothing moves, however large the tree is."""
    signal.alarm(_MOST_SECONDS)


def _reply_listeners(request: ForkerRequest, listeners: Listeners) -> None:
    counts = {door: len(group) for door, group in listeners.groups().items()}
    reply(request.channel, counts, [listener.fileno() for listener in listeners])


def _lock(state: Path) -> None:
    """Have the state directory to ourselves. The last requests of a server that crashed may take a moment."""
    descriptor = os.open(state / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise MachineError(f"another server works with {state}; end it, or name another directory") from None
            time.sleep(_LOCK_PAUSE)


def main() -> None:
    """Run as the program that the backend starts."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    state = Path(os.fsdecode(control.recv(_MOST_PATH_BYTES)))
    try:
        forker = Forker(control, state)
        _lock(state)
        inherit_orphans()
        for debugger in (False, True):
            callfilter.program(debugger=debugger)  # remembered, so that no command has to wait for it
        gc.freeze()  # what is never collected need not be copied in every process that we fork
    except Exception as error:  # noqa: BLE001 - whatever it is, the server is told
        reply_error(control, error)
        return
    reply(control)
    forker.run()
