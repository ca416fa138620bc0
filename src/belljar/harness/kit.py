"""Temporary."""

from pathlib import Path
from typing import Final, NamedTuple

KIT_PLACE: Final = "/belljar/kit"
PROGRAMS: Final = ("belljar-submit", "sforge-submit")


class Kit(NamedTuple):
    directory: Path


def default_cache(environment: object) -> Path:
    return Path("/var/tmp/belljar-kit")


def open_kit(cache: Path) -> Kit:
    (cache / "bin").mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "submit" / "client.py"
    if source.exists():
        (cache / "client.py").write_bytes(source.read_bytes())
    for name in PROGRAMS:
        (cache / "bin" / name).write_text(f'#!/bin/sh\nexec python3 -I {KIT_PLACE}/client.py "$@"\n')
        (cache / "bin" / name).chmod(0o755)
    return Kit(cache)
