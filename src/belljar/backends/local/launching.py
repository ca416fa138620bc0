"""The parent's side of a sandbox: fork the child that becomes it, take its doors, let it go, and see it end."""

import importlib
import json
import os
import signal
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from belljar.backends.local.child import staging
from belljar.backends.local.child.lacks import Lack
from belljar.backends.local.child.staging import Plan
from belljar.backends.local.surroundings import remedy
from belljar.errors import BelljarError
from belljar.gateway.listeners import Listeners
from belljar.linux.cgroups.limits import JOINED, Group, add
from belljar.linux.descriptors import receive_sockets

if TYPE_CHECKING:
    from belljar.backends.local.jobs import SandboxJob

_MOST_DIGITS: Final = 20


class LaunchError(BelljarError):
    """The sandbox could not be made; its command has not been started."""


class Launched:
    """A sandbox that is sealed and waits for a word to start its command."""

    def __init__(  # noqa: PLR0913 - all that leads to it
        self,
        plan: Plan,
        process: int,
        channel: socket.socket,
        failures: int,
        status: int,
        *,
        session: socket.socket | None = None,
    ) -> None:
        self._plan = plan
        self._process = process
        self._session = session
        self._job: SandboxJob | None = None
        self.listeners: Listeners | None = None
        """Its doors; None where it has the host's network."""

        self._channel = channel
        self._failures = failures
        self._status = os.fdopen(status)
        self._joining: int | None = None
        self._has_ended = False
        self._is_halted = False

    def join(self, groups: Iterable[Path]) -> None:
        """Put the sandbox into control groups, before it is settled. Raises LaunchError."""
        try:
            add(groups, self._process)
        except OSError as error:
            self._not_joined(str(error))

    def watch(self, group: Group) -> None:
        """Have the sandbox put into a control group, which is taken away at the end; do not wait for either."""
        self._joining = group.watch(self._process)

    def identify(self) -> None:
        """Tell the child who it is in its user namespace; then it can seal the others. Raises LaunchError."""
        identity = self._plan.identity
        self._expect(staging.UNSHARED)
        try:
            _write(f"/proc/{self._process}/setgroups", "deny")
            _write(f"/proc/{self._process}/uid_map", f"0 {identity.host_uid} 1")
            _write(f"/proc/{self._process}/gid_map", f"0 {identity.host_gid} 1")
        except OSError as error:
            self.kill()
            lack = Lack.ROOT if identity.is_stand_in else Lack.NAMESPACES
            raise LaunchError(_with_remedy(f"the kernel lets nobody be in a user namespace: {error}", lack)) from error
        self._channel.send(staging.MAPPED)

    def settle(self) -> None:
        """See the child through to where it waits. Raises LaunchError."""
        if self._joining is not None:
            with os.fdopen(self._joining) as told:
                if (word := told.read()) != JOINED:
                    self._not_joined(word or "who was to do it has ended")
        with suppress(BrokenPipeError):  # the child has died, and is asked why in a moment
            self._channel.send(staging.COUNTED)
        self._meet()
        if self._plan.sealed:
            try:
                self.listeners = Listeners(**receive_sockets(self._channel))
            except EOFError:
                raise self._failed() from None

    def go(self) -> None:
        """Start the command. Raises LaunchError."""
        with suppress(BrokenPipeError):  # it has died, and is asked why in a moment
            self._channel.send(staging.GO)
        if not self._status.readline():
            raise self._failed(bubblewrap_failed("; what it said is above"))

    def descriptor(self) -> int:
        """Return a descriptor that becomes readable when it has ended."""
        return os.pidfd_open(self._process)

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        command = self._command()
        if command is not None:
            with suppress(ProcessLookupError):
                os.kill(command, number)

    def group(self) -> int | None:
        """Return the command's process group; None if it has ended."""
        command = self._command()
        with suppress(ProcessLookupError):
            return os.getpgid(command) if command is not None else None
        return None

    def signal_group(self, number: int) -> None:
        """Send a signal to the command's process group."""
        group = self.group()
        if group is not None:
            with suppress(ProcessLookupError):
                os.killpg(group, number)

    def hang_up(self) -> None:
        """Tell the command's process group that the terminal is gone."""
        self.signal_group(signal.SIGHUP)
        self.signal_group(signal.SIGCONT)

    def stopped_by(self) -> int | None:
        """Return the signal that has stopped the command; None if it runs, or has no terminal."""
        return self._job.stopped_by(self._command()) if self._job is not None else None

    def halt(self) -> None:
        """Stop everything inside, if there is a process left to do it: the command itself was stopped without."""
        self._is_halted = True
        self._send_all(signal.SIGSTOP)

    def resume(self, *, foreground: bool) -> None:
        """Have a stopped command go on, with the terminal or without, and everything else inside that was halted."""
        if self._job is not None:
            self._job.resume(self._command(), foreground=foreground)
        if self._is_halted:
            self._is_halted = not self._send_all(signal.SIGCONT)

    def processes(self) -> tuple[int, int]:
        """Return bubblewrap's own process, whose end is the end of all, and the first one inside. It was told to go."""
        return self._process, _children(self._process)[0]

    def kill(self) -> None:
        """End everything inside at once."""
        if not self._has_ended:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def wait(self) -> int:
        """Return the command's exit code once it has ended. Raises LaunchError if it never began."""
        _, ended = os.waitpid(self._process, 0)
        self._has_ended = True
        news = [json.loads(line) for line in self._status]
        self.close()
        if not any("exit-code" in item for item in news) and os.WIFEXITED(ended):
            raise bubblewrap_failed("; what it said is above")
        return os.waitstatus_to_exitcode(ended) if os.WIFEXITED(ended) else 128 + os.WTERMSIG(ended)

    def close(self) -> None:
        """Let go of what led to it."""
        self._channel.close()
        self._status.close()
        if self._job is not None:
            self._job.close()
            self._job = None

    def _send_all(self, number: int) -> bool:
        from belljar.backends.local.halting import send_all  # noqa: PLC0415 - hardly any command is ever stopped

        return self._has_ended or send_all(self._process, number, is_stand_in=self._plan.identity.is_stand_in)

    def _command(self) -> int | None:
        """Return the command's process."""
        # Bubblewrap's own process has a child, the first process inside, which takes no signals; its child is it.
        with suppress(OSError, IndexError):
            return _children(_children(self._process)[0])[0]
        return None

    def _expect(self, word: bytes) -> None:
        if self._channel.recv(1) != word:
            raise self._failed()

    def _meet(self) -> None:
        """Learn which process is the sandbox's: the one that we forked hands over to another child of ours."""
        try:
            number = self._channel.recv(_MOST_DIGITS)
        except ConnectionResetError:  # it died before it had read all that we said
            number = b""
        if not number:
            raise self._failed()
        if int(number) == self._process:
            return
        if self._session is not None:
            from belljar.backends.local.jobs import SandboxJob  # noqa: PLC0415 - see `_session_channel`

            self._job = SandboxJob(self._session, self._process)
        else:
            os.waitpid(self._process, 0)
        self._process = int(number)

    def _not_joined(self, why: str) -> NoReturn:
        self.kill()
        raise LaunchError(f"the sandbox cannot be put into its control group: {why}")

    def _failed(self, unsaid: LaunchError | None = None) -> LaunchError:
        """Return why the child has ended, or else `unsaid`."""
        with os.fdopen(self._failures) as failures:
            lack, _, why = failures.read().partition(staging.END_OF_LACK)
        os.waitpid(self._process, 0)
        self._has_ended = True
        self.close()
        if not why:
            return unsaid or LaunchError("the sandbox's first process ended before the sandbox was made")
        return LaunchError(_with_remedy(why, Lack(lack)) if lack else why)


def launch(plan: Plan) -> Launched:
    """Fork the child that becomes a sandbox. For a process without threads; `identify` and `settle` follow.

    The child is at work all the while: what the caller does between them costs no time.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    failures, failed = os.pipe()
    status, told = os.pipe()
    session, leader = _session_channel(plan)
    process = os.fork()
    if process == 0:
        ours.close()
        if session is not None:
            session.close()
        staging.run(plan, theirs, failed, told, leader)
    theirs.close()
    os.close(failed)
    os.close(told)
    if leader is not None:
        leader.close()
    return Launched(plan, process, ours, failures, status, session=session)


def _session_channel(plan: Plan) -> tuple[socket.socket, socket.socket] | tuple[None, None]:
    if plan.in_foreground is None:
        return None, None
    # Many a command has no terminal. But the child may not be able to read where we are installed.
    importlib.import_module("belljar.backends.local.jobs")
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def bubblewrap_failed(said: str) -> LaunchError:
    """Return the error for a sandbox that bubblewrap has given up."""
    return LaunchError(_with_remedy(f"bubblewrap could not make the sandbox{said}", Lack.MOUNTS))


def _with_remedy(complaint: str, lack: Lack) -> str:
    return f"{complaint}\n{remedy(lack)}"


def _children(process: int) -> list[int]:
    """Return a process's children, the oldest first."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _write(path: str, text: str) -> None:
    with suppress(ProcessLookupError, FileNotFoundError):  # the child has died, and is asked why in a moment
        Path(path).write_text(text)
