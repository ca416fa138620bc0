"""Reads large bodies in a process of its own, so that no sandbox waits for another's.

Theory of operation
-------------------
Python's JSON reader keeps the interpreter to itself until it has ended, in a thread as well: a body of 32 MiB would
stop the broker's loop for a large part of a second. So bodies beyond a small size are read by child processes: one for
those of the size that agents usually send, and one for larger ones, so that neither waits for the other. Each reads one
body at a time, which bounds the memory that they take. A sandbox has one place in the queue of each, however many
bodies it sends. What the broker does for a child has an account of its own: a sandbox that keeps its own turns busy
would otherwise keep the child from the others for as long.

The child is forked and not started anew: by the time that it is needed, a sandbox may have been given a directory that
the code would be imported from. It has no descriptor but its socket, and none of the broker's environment. It is killed
when its answer is late, and another is forked for the next body.
"""

import asyncio
import gc
import json
import os
import signal
import socket
import struct
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, NoReturn
from weakref import WeakValueDictionary

from belljar.broker.asking.bodies import BodyFacts, BodyQuestion, read_facts
from belljar.broker.http.bytestream import ByteStream, StalledError
from belljar.broker.http.fairloop import owned_by
from belljar.broker.http.room import Kept
from belljar.broker.refusals import RefusedRequest
from belljar.linux.descriptors import close_all_but
from belljar.turns import Owner

_TIMEOUT: Final = 30.0
_MAX_USUAL: Final = 1 << 20
_NICENESS: Final = 10
_LENGTH: Final = struct.Struct("!I")
"""Before each piece of a body; nothing follows the last. A client may leave in between."""


class JudgeProcesses:
    """Reads bodies for all sandboxes."""

    def __init__(self) -> None:
        self._usual, self._large = _JudgeProcess(), _JudgeProcess()

    async def read_facts(self, sandbox: str, question: BodyQuestion, body: Kept) -> BodyFacts:
        """Return what a body says. Raises RefusedRequest."""
        process = self._usual if len(body) <= _MAX_USUAL else self._large
        return await process.read_facts(sandbox, question, body)

    def close(self) -> None:
        """End the children."""
        self._usual.close()
        self._large.close()


class _JudgeProcess:
    """Reads bodies, one after the other."""

    def __init__(self) -> None:
        self._queue = JudgeQueue()
        self._child: _Child | None = None
        self._asking = set[asyncio.Task[dict[str, Any]]]()
        self._context = copy_context()
        self._context.run(owned_by, Owner())

    async def read_facts(self, sandbox: str, question: BodyQuestion, body: Kept) -> BodyFacts:
        """Return what a body says. Raises RefusedRequest."""
        release = await self._queue.acquire(sandbox)
        # Not ended with its client: the child has to be done with one body before it is given another.
        asking = asyncio.create_task(self._ask(question, body, release), context=self._context)
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        reply = await asyncio.shield(asking)
        if "refused" in reply:
            raise RefusedRequest(*reply["refused"])
        lists = {name: tuple(value) for name, value in reply.items() if isinstance(value, list)}
        return BodyFacts(**{**reply, **lists})

    def close(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    async def _ask(self, question: BodyQuestion, body: Kept, release: Callable[[], None]) -> dict[str, Any]:
        try:
            child = self._child = self._child or await _Child.fork()
            async with asyncio.timeout(_TIMEOUT):
                return await child.ask(question, body)
        except (StalledError, TimeoutError, ValueError):
            self.close()
            return {"refused": (503, "json", "the body could not be judged in time; try again later")}
        finally:
            release()


class JudgeQueue:
    """One turn at a time. A sandbox that wants many turns waits for others between them."""

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._each = WeakValueDictionary[str, asyncio.Lock]()

    async def acquire(self, sandbox: str) -> Callable[[], None]:
        """Wait for a turn; return what ends it."""
        own = self._each.setdefault(sandbox, asyncio.Lock())
        await own.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            own.release()
            raise

        def release() -> None:
            self._all.release()
            own.release()

        return release


class _Child:
    """The child process, and the stream to it."""

    def __init__(self, pid: int, stream: ByteStream) -> None:
        self._pid = pid
        self._stream = stream

    @classmethod
    async def fork(cls) -> "_Child":
        ours, theirs = socket.socketpair()
        with theirs:
            pid = os.fork()
            if pid == 0:
                _serve(theirs)
        ours.setblocking(False)  # noqa: FBT003 - the standard library's interface
        _, stream = await asyncio.get_running_loop().create_connection(ByteStream, sock=ours)
        return cls(pid, stream)

    async def ask(self, question: BodyQuestion, body: Kept) -> dict[str, Any]:
        """Return the child's reply. Raises StalledError if it has ended, TimeoutError and ValueError."""
        await self._stream.send(json.dumps(question.to_data()).encode() + b"\n", None)
        async for piece in body.pieces():
            await self._stream.send(_LENGTH.pack(len(piece)) + piece, None)
        await self._stream.send(_LENGTH.pack(0), None)
        reply = bytearray()
        while not reply.endswith(b"\n"):
            data = await self._stream.receive(None)
            if not data:
                raise StalledError
            reply += data
        read: dict[str, Any] = json.loads(reply)
        return read

    def kill(self) -> None:
        self._stream.transport.abort()
        loop, process = asyncio.get_running_loop(), os.pidfd_open(self._pid)
        os.kill(self._pid, signal.SIGKILL)
        loop.add_reader(process, self._reap, loop, process)  # it takes a while to give much memory back

    def _reap(self, loop: asyncio.AbstractEventLoop, process: int) -> None:
        loop.remove_reader(process)
        os.close(process)
        os.waitpid(self._pid, 0)


def _serve(sock: socket.socket) -> NoReturn:
    """Be the child: reply to one question after the other until the broker has ended."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.environ.clear()
        close_all_but(sock.fileno())
        os.nice(_NICENESS)
        gc.freeze()
        stream = sock.makefile("rwb")
        while line := stream.readline():
            pieces = []
            while (length := _LENGTH.unpack(stream.read(_LENGTH.size))[0]) > 0:
                pieces.append(stream.read(length))
            stream.write(_reply(b"".join(pieces), BodyQuestion.from_data(json.loads(line))) + b"\n")
            stream.flush()
            del pieces
    finally:
        os._exit(0)


def _reply(body: bytes, question: BodyQuestion) -> bytes:
    try:
        return json.dumps(read_facts(body, question)._asdict()).encode()
    except RefusedRequest as refusal:
        return json.dumps({"refused": [refusal.status, refusal.code, refusal.message]}).encode()
