"""What the gateway saw of a sandbox, when lines of it are lost."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from belljar.harness.evidence import AuditReader

INTERRUPTED = {"event": "sandbox.interrupted", "sandbox": "one", "cause": "worker_lost"}
CLOSED = {"event": "sandbox.closed", "sandbox": "one"}


def test_half_a_line_makes_evidence_incomplete_and_ends_nothing(tmp_path):
    half = b'{"event": "flow.all'
    network = asyncio.run(read(tmp_path, half + line(CLOSED) + line(CLOSED)))
    assert (network["lines_lost"], network["complete"]) == (1, False)


def test_a_gateway_process_that_was_lost_makes_evidence_incomplete(tmp_path):
    network = asyncio.run(read(tmp_path, line(INTERRUPTED) + line(CLOSED)))
    assert (network["interruptions"], network["complete"]) == (1, False)
    assert asyncio.run(read(tmp_path, line(CLOSED)))["complete"]


async def read(directory: Path, lines: bytes) -> dict[str, Any]:
    reader = AuditReader()
    evidence = reader.record("one", directory / "network.ndjson")
    os.write(reader.descriptor, lines)
    await asyncio.wait_for(evidence.complete.wait(), 10)
    await reader.finish("one")
    reader.close()
    return evidence.to_data()


def line(fields: dict[str, str]) -> bytes:
    return json.dumps(fields).encode() + b"\n"
