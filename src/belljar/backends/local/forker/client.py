"""The forker as its server sees it: a process to start and to ask."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socket, socketpair
from typing import Any, Final

import belljar
from belljar.backends.interface import LostError
from belljar.backends.local.forker.protocol import receive_answer, send_request
from belljar.sandbox.files import ownplaces

PATIENCE: Final = 30.0
"""Seconds until a process that does not answer is taken for lost."""

_SECONDS_TO_END: Final = 5.0
_PROGRAM: Final = """\
import sys
sys.path.append(sys.argv.pop())
from belljar.backends.local.forker.process import main
main()
"""
_OUR_MODULES: Final = str(Path(belljar.__file__).resolve().parents[1])


class ForkerProcess:
    """One forker. Any thread may ask it for something."""

    def __init__(self, state: Path) -> None:
        """Start it. Raises MachineError if the state directory cannot be used, and LostError."""
        self._control, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        with theirs:
            # As with the gateway's workers: nothing is imported from a working directory, where an agent may write.
            # Agents may see the arguments, but not the environment; of ours it has nothing that it does not need.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-W", "ignore", "-c", _PROGRAM, str(theirs.fileno()), _OUR_MODULES],
                env={"HOME": os.environ.get("HOME", ""), **ownplaces.variables(os.environ)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control.settimeout(PATIENCE)
        try:
            self._control.send(os.fsencode(state.resolve()))
            receive_answer(self._control)
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def request(self, task: str, *arguments: Any, descriptors: Sequence[int] = ()) -> socket:
        """Have something begun; return the channel that the answer comes over. Raises LostError."""
        try:
            return send_request(self._control, task, arguments, descriptors)
        except OSError as error:
            raise LostError(f"the local backend's forker was lost: {error}") from error

    def ask(self, task: str, *arguments: Any, descriptors: Sequence[int] = ()) -> tuple[Any, list[int], socket]:
        """Have something done; return the answer, descriptors that came with it, and the channel they came over.

        Raises what the task raises, and LostError.
        """
        channel = self.request(task, *arguments, descriptors=descriptors)
        channel.settimeout(PATIENCE)
        try:
            answer, received = receive_answer(channel)
        except BaseException:
            channel.close()
            raise
        return answer, received, channel

    def close(self) -> None:
        """End it. What it has forked lives on."""
        self._control.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:  # somebody else has a copy of our end
            self._process.kill()
            self._process.wait()
