"""Receive an archive over HTTP: bounded, straight to the disk, and only after its token was checked.

The parts of a form come in an order that the client chooses. The token has to come before the archive, as a header or
as a field: nothing is written for a client without one.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from belljar.errors import reason
from belljar.harness.judge.session import SubmissionRefusedError
from belljar.harness.judge.tarreader import ArchiveLimits

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_CHUNK_TIMEOUT: Final = 30.0
_UPLOAD_TIMEOUT: Final = 900.0
_MAX_UPLOADS: Final = 32
_MAX_UPLOADS_OF_ONE: Final = 2
_MAX_PARTS: Final = 16
_MAX_HEADERS: Final = 4096
_MAX_FIELD: Final = 4096
_BUFFER: Final = 1 << 20
_MAX_DISCARDED: Final = 64 << 20
_ARCHIVE: Final = "archive"


class Uploads:
    """Receives archives into a directory. `limit` is in bytes."""

    def __init__(self, directory: Path, limit: int = ArchiveLimits().compressed) -> None:
        self._directory, self._limit = directory, limit
        self._running: list[str] = []

    @contextmanager
    def slot(self, token: str) -> Iterator[Path]:
        """Reserve the right to upload, and yield where the archive is to be; what is left there is removed."""
        if self._running.count(token) >= _MAX_UPLOADS_OF_ONE:
            raise SubmissionRefusedError(429, "cooldown: other submissions of this run are being received", 5)
        if len(self._running) >= _MAX_UPLOADS:
            raise SubmissionRefusedError(503, "the judge receives too many submissions; submit again later", 10)
        path = self._directory / secrets.token_hex(12)
        self._running.append(token)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield path
        except OSError as error:
            raise SubmissionRefusedError(503, f"the submission cannot be stored ({reason(error)})", 30) from None
        finally:
            self._running.remove(token)
            path.unlink(missing_ok=True)

    async def receive(self, request: Request, form: "UploadForm") -> None:
        """Receive a request's body. Raises SubmissionRefusedError."""
        try:
            async with asyncio.timeout(_UPLOAD_TIMEOUT):
                await self._receive(request, form)
        except TimeoutError:
            raise SubmissionRefusedError(408, "the submission came too slowly; submit again") from None
        except ClientDisconnect:
            raise SubmissionRefusedError(400, "the submission did not come to its end") from None
        except FormParserError:
            raise SubmissionRefusedError(400, "the form is malformed; send multipart/form-data") from None

    async def _receive(self, request: Request, form: "UploadForm") -> None:
        kind, options = parse_options_header(request.headers.get("content-type"))
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 0 < len(boundary) <= 200:
            raise SubmissionRefusedError(400, "the submission is no form; send multipart/form-data with an archive")
        parser = MultipartParser(boundary, form.callbacks())
        chunks = aiter(request.stream())
        received = 0
        while True:
            async with asyncio.timeout(_CHUNK_TIMEOUT):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            received += len(chunk)
            if received > self._limit + (1 << 16):
                raise SubmissionRefusedError(413, f"the archive is larger than {self._limit >> 20} MB; submit less")
            try:
                parser.write(chunk)
            except SubmissionRefusedError:
                await _discard(chunks)
                raise
            if len(form.buffer) >= _BUFFER:
                await asyncio.to_thread(form.flush)
        parser.finalize()
        await asyncio.to_thread(form.finish)
        if form.file is None:
            raise SubmissionRefusedError(400, 'the form has no "archive"; send the archive as a file of that name')


async def _discard(chunks: AsyncIterator[bytes]) -> None:
    """Read what a client is still sending: if the connection were closed on it, it would not see the answer."""
    discarded = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_CHUNK_TIMEOUT):
            async for chunk in chunks:
                discarded += len(chunk)
                if discarded > _MAX_DISCARDED:
                    return


class UploadForm:
    """The fields of a form, and the file that its archive is written to once `open_archive` has agreed."""

    def __init__(self, open_archive: Callable[["UploadForm"], BinaryIO]) -> None:
        self.fields: dict[str, str] = {}
        self.buffer = bytearray()
        self.file: BinaryIO | None = None
        self._open_archive = open_archive
        self._parts = self._header_bytes = 0
        self._name = ""
        self._header, self._value, self._disposition, self._field = (bytearray() for _ in range(4))

    def callbacks(self) -> "MultipartCallbacks":
        """Return what the parser calls."""
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._add_header(self._header, data[start:end]),
            "on_header_value": lambda data, start, end: self._add_header(self._value, data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": self._end_part,
        }

    def flush(self) -> None:
        """Write what has come of the archive."""
        if self.file is not None:
            self.file.write(self.buffer)
            self.buffer.clear()

    def finish(self) -> None:
        """Write what is left of the archive to the disk."""
        self.flush()
        if self.file is not None:
            os.fsync(self.file.fileno())

    def _begin_part(self) -> None:
        self._parts += 1
        self._header_bytes = 0
        if self._parts > _MAX_PARTS:
            raise SubmissionRefusedError(400, f"the form has more than {_MAX_PARTS} parts")
        for each in (self._header, self._value, self._disposition, self._field):
            each.clear()

    def _add_header(self, to: bytearray, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > _MAX_HEADERS:
            raise SubmissionRefusedError(400, "the headers of a part of the form are too long")
        to += data

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition[:] = self._value
        self._header.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        _, options = parse_options_header(bytes(self._disposition))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name == _ARCHIVE:
            if self.file is not None:
                raise SubmissionRefusedError(400, "the form has several archives; send one")
            self.file = self._open_archive(self)

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._name == _ARCHIVE:
            self.buffer += memoryview(data)[start:end]
            return
        self._field += data[start:end]
        if len(self._field) > _MAX_FIELD:
            raise SubmissionRefusedError(400, f"a field of the form is longer than {_MAX_FIELD} bytes")

    def _end_part(self) -> None:
        if self._name != _ARCHIVE:
            self.fields[self._name] = self._field.decode("utf-8", "replace")
