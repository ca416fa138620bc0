"""The packet filter of a place, by nft's own library: a program for each question would take most of a test's time."""

import json
from ctypes import CDLL, c_char_p, c_int, c_uint, c_uint32, c_void_p
from threading import Lock
from typing import Any

from tests.universe.places import Place

_JSON, _NUMERIC_PROTOCOLS = 1 << 4, 1 << 7


def _library() -> CDLL:
    library = CDLL("libnftables.so.1")
    library.nft_ctx_new.argtypes, library.nft_ctx_new.restype = [c_uint32], c_void_p
    library.nft_ctx_free.argtypes, library.nft_ctx_free.restype = [c_void_p], None
    library.nft_ctx_output_set_flags.argtypes, library.nft_ctx_output_set_flags.restype = [c_void_p, c_uint], None
    library.nft_run_cmd_from_buffer.argtypes, library.nft_run_cmd_from_buffer.restype = [c_void_p, c_char_p], c_int
    for name in ("output", "error"):
        buffer, get = getattr(library, f"nft_ctx_buffer_{name}"), getattr(library, f"nft_ctx_get_{name}_buffer")
        buffer.argtypes, buffer.restype = [c_void_p], c_int
        get.argtypes, get.restype = [c_void_p], c_char_p
    return library


class PacketFilter:
    """A connection to the packet filter of a place, which any thread may use."""

    def __init__(self, place: Place) -> None:
        self._place, self._lock = place, Lock()
        self._library = _library()
        self._context = place.call(self._library.nft_ctx_new, 0)
        self._library.nft_ctx_buffer_output(self._context)
        self._library.nft_ctx_buffer_error(self._context)
        self._library.nft_ctx_output_set_flags(self._context, _JSON | _NUMERIC_PROTOCOLS)

    def run(self, command: str) -> None:
        """Run a command that prints nothing. Raises RuntimeError."""
        self._run(command)

    def ask(self, command: str) -> Any:
        """Run a command, and return the JSON that it prints. Raises RuntimeError."""
        return json.loads(self._run(command))

    def close(self) -> None:
        """Close the connection."""
        self._library.nft_ctx_free(self._context)

    def _run(self, command: str) -> bytes:
        with self._lock:
            failed = self._place.call(self._library.nft_run_cmd_from_buffer, self._context, command.encode())
            output: bytes = self._library.nft_ctx_get_output_buffer(self._context)
            error: bytes = self._library.nft_ctx_get_error_buffer(self._context)
        if failed:
            raise RuntimeError(f"nft: {error.decode().strip()}")
        return output
