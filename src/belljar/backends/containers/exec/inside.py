"""What runs in a container: the agent's commands, and programs of our own.

A program of ours has the agent's rights, and an agent can speak in its name. So it has none of the image's variables,
only so much time, and only so much to say.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from belljar.backends.containers.exec import files
from belljar.backends.containers.exec.arguments import (
    asking_about_keys,
    check,
    for_loader,
    launching,
    monitored,
)
from belljar.backends.containers.exec.firstprocess import Exhaustion
from belljar.backends.containers.exec.memoryfiles import holding, room, written
from belljar.backends.containers.exec.monitor import BACKGROUND, FOREGROUND
from belljar.backends.containers.exec.process import ContainerProcess, start
from belljar.backends.containers.exec.state import number_inside
from belljar.backends.containers.exec.terminal import terminal_for
from belljar.backends.containers.inventory import Containers
from belljar.backends.containers.records import ContainerRecord, ContainerRecords
from belljar.backends.interface import FILE_LIMIT, LostError, PathError, Streams
from belljar.backends.treestreams import archive_pipe
from belljar.errors import BelljarError, printable
from belljar.sandbox.spec import Command
from belljar.sandbox.toolbox.model import MODULES, Toolbox
from belljar.sandbox.trees import program

_SECONDS_TO_TELL: Final = 60.0
_SECONDS_TO_SIGNAL: Final = 10.0
"""Until an engine that an agent may keep waiting is taken for one that sends no signal."""

_MOST_TO_SAY: Final = FILE_LIMIT + len(files.OK) + 1
_MOST_TO_COMPLAIN: Final = 4096
_FOR_COMMAND: Final = "kill -$2 -$1 2>/dev/null || kill -$2 $1"  # at first, it may not have a group yet
_FOR_CHILD: Final = "read -r job _ </proc/$1/task/$1/children; kill -$2 -$job 2>/dev/null || kill -$2 $1"
_CONTINUE: Final = "kill -$2 $1; kill -CONT $1"
_FILES_PROGRAM: Final = f"{MODULES}/{files.__name__.replace('.', '/')}.py"


class Inside:
    """What can be run in the containers of one owner."""

    def __init__(self, containers: Containers, records: ContainerRecords, toolbox: Toolbox) -> None:
        self._containers, self._records, self._toolbox = containers, records, toolbox

    def toolbox(self, sandbox: str) -> Toolbox:
        """Return the toolbox as a sandbox sees it."""
        return self._toolbox.seen_at(self._records.read(sandbox).toolbox)

    def start(self, sandbox: str, found: Any, command: Command, streams: Streams) -> ContainerProcess:
        """Start a command of the agent's in a container that was inspected. Raises SpecError, and what engines do."""
        record = self._records.read(sandbox)
        environment = {**record.environment, **command.environment}
        return self._launch(sandbox, found, replace(command, environment=environment), streams)

    def have_file(self, sandbox: str, content: bytes, task: str, path: str, number: str) -> bytes:
        """Have our own program work on a file; return what it says. Raises PathError, LostError, GoneError."""
        if "\0" in path:
            raise PathError("a path with a NUL in it names no file")
        with self._containers.asking(sandbox):
            found = self._containers.inspect(sandbox)
        script = f"{self.toolbox(sandbox).place}{_FILES_PROGRAM}"
        return self.ask(sandbox, found, (script, task, path, number), content)

    def put_tree(self, sandbox: str, path: str, archive: int) -> None:
        """Have our own program unpack an archive. Raises PathError, LostError, GoneError."""
        with archive_pipe() as pipe, archive_pipe() as answers, room(0) as nothing:
            streams = Streams(pipe.receiving.fileno(), nothing, answers.sending.fileno())
            process = self._start_program(sandbox, streams, "put", path)
            pipe.receiving.close()
            answers.sending.close()
            with _ending(process):
                pipe.send(archive, answers.receiving.fileno())
                pipe.sending.close()
                said = b"".join(answers.pieces(_MOST_TO_COMPLAIN))
                _check_tree(process, f"{path} cannot be unpacked inside", lambda: said)

    def get_tree(self, sandbox: str, path: str, archive: int, names: Sequence[str], limit: int) -> None:
        """Have our own program pack what is below a directory. Raises PathError, LostError, GoneError."""
        with archive_pipe() as pipe, room(_MOST_TO_COMPLAIN) as error, holding(b"") as nothing:
            streams = Streams(nothing, pipe.sending.fileno(), error)
            process = self._start_program(sandbox, streams, "get", path, str(limit), *names)
            pipe.sending.close()
            with _ending(process):
                pipe.receive(archive, limit)
                _check_tree(process, f"{path} cannot be packed inside", lambda: written(error))

    def ask(self, sandbox: str, found: Any, words: Sequence[str], content: bytes = b"") -> bytes:
        """Run a Python program of ours; return what it says. Raises LostError, GoneError."""
        toolbox = self.toolbox(sandbox)
        command = Command(tuple(toolbox.inside(toolbox.python, "-I", "-S", "-B", *words)))
        return self.hear(sandbox, found, command, content)

    def hear(self, sandbox: str, found: Any, command: Command, content: bytes = b"") -> bytes:
        """Run a program of ours; return what it says. Raises LostError, GoneError."""
        with holding(content) as given, room(_MOST_TO_SAY) as said, room(_MOST_TO_COMPLAIN) as error:
            with self._containers.asking(sandbox):
                process = self._launch(sandbox, found, command, Streams(given, said, error))
            try:
                process.wait(_SECONDS_TO_TELL)
            except TimeoutError:
                process.signal(signal.SIGKILL)
                raise LostError(f"a program of ours does not come to an end inside the sandbox {sandbox}") from None
            finally:
                process.close()
            if not (answer := written(said)):
                why = written(error).decode(errors="replace").strip()
                raise LostError(f"a program of ours ended inside the sandbox {sandbox}: {why}")
            return answer

    def _start_program(self, sandbox: str, streams: Streams, *arguments: str) -> ContainerProcess:
        """Start the program that works on trees."""
        if any("\0" in argument for argument in arguments):
            raise PathError("a path with a NUL in it names no file")
        with self._containers.asking(sandbox):
            found = self._containers.inspect(sandbox)
            command = Command(tuple(self.toolbox(sandbox).calling(program.__name__, "main()", *arguments)))
            return self._launch(sandbox, found, command, streams)

    def _launch(self, sandbox: str, found: Any, command: Command, streams: Streams) -> ContainerProcess:
        check(command)
        record = self._records.read(sandbox)
        loader = for_loader(command.environment)
        terminal, toolbox = terminal_for(streams), self._toolbox.seen_at(record.toolbox)
        size = terminal.callers.size() if terminal is not None else None
        words = launching(toolbox, str(command.workdir or record.workdir), command.arguments, size, loader)
        if terminal is not None and number_inside(found["State"]["Pid"]) is not None:
            terminal.is_monitored = True
            words = monitored(toolbox, words, foreground=terminal.begins_joined)
        signalling = _FOR_CHILD if terminal is not None and terminal.is_monitored else _FOR_COMMAND
        return start(
            self._containers.engine,
            self._containers.name(sandbox),
            words,
            environment={name: value for name, value in command.environment.items() if name not in loader},
            user=record.user,
            streams=streams,
            signaller=lambda pid, number: self._run(sandbox, record, signalling, pid, number),
            kill_all=lambda: self._kill_all(sandbox),
            ran_out=Exhaustion(self._containers.engine, found).has_come,
            terminal=terminal,
        )

    def continue_monitor(self, sandbox: str, monitor: int, *, foreground: bool) -> None:
        """Have a monitored command go on, with its terminal or without. Raises LostError, GoneError."""
        place = FOREGROUND if foreground else BACKGROUND
        self._run(sandbox, self._records.read(sandbox), _CONTINUE, monitor, place)

    def is_left_keys(self, sandbox: str, found: Any, monitor: int) -> bool:
        """Tell whether the terminal of a monitored command, and no program, makes something of Ctrl-C."""
        command = Command(tuple(asking_about_keys(self.toolbox(sandbox), monitor)))
        return self.hear(sandbox, found, command).strip() == b"yes"

    def _kill_all(self, sandbox: str) -> None:
        with self._containers.asking(sandbox):
            self._containers.kill(sandbox)

    def _run(self, sandbox: str, record: ContainerRecord, script: str, *numbers: int) -> None:
        """Have our shell send signals, from inside: those of the agent's user reach what is the agent's."""
        toolbox = self._toolbox.seen_at(record.toolbox)
        words = toolbox.running("sh", "-c", script, "sh", *(str(int(number)) for number in numbers))
        engine = replace(self._containers.engine, patience=_SECONDS_TO_SIGNAL)
        with self._containers.asking(sandbox):
            made = engine.post(f"{self._containers.path(sandbox)}/exec", {"Cmd": words, "User": record.user})["Id"]
            engine.post(f"/exec/{made}/start", {"Detach": True})


@contextmanager
def _ending(process: ContainerProcess) -> Iterator[None]:
    """Kill a program of ours unless it ends by itself."""
    try:
        yield
    except BaseException:
        with suppress(BelljarError):
            process.signal(signal.SIGKILL)
        raise
    finally:
        process.close()


def _check_tree(process: ContainerProcess, failure: str, reason: Callable[[], bytes]) -> None:
    """Raise an error unless a program that works on trees has succeeded."""
    try:
        code = process.wait(_SECONDS_TO_TELL)
    except TimeoutError:
        raise LostError("a program of ours does not come to an end inside") from None
    said = printable(reason().decode(errors="replace").strip())
    if code == program.FAILED:
        raise PathError(f"{failure}: {said}")
    if code:
        raise LostError(f"{failure}: a program of ours ended with exit code {code} inside: {said}")
