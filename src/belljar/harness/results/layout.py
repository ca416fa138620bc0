"""The files of a trial, in `RUNS/RUN/TASK/`. Names that SForge has are SForge's."""

import json
import os
from pathlib import Path
from typing import Any, Final

SETTINGS: Final = "run_config.json"
"""Every setting with its source; secrets are masked."""

PROMPT: Final = "agent_prompt.md"
OUTPUT: Final = "agent_output.txt"
LOG: Final = "run_agent.log"
TICKS: Final = "auto_eval_ticks.log"
ARCHIVE: Final = "final_archive.tar.gz"
"""The last state of the agent's work."""

SUBMISSIONS: Final = "submissions"
SEAL: Final = "seal.json"
"""The layers that held the sandbox before the agent was started, and the policy in force."""

NETWORK: Final = "network.json"
"""Every destination that was reached or denied, with counts and bytes."""

AUDIT: Final = "network.ndjson"
"""The gateway's audit lines."""

RESULT: Final = "final_result.json"
"""Written last: a trial that has none was lost."""

HISTORY: Final = "run_history.json"
SUMMARY: Final = "summary.json"
"""In the run's directory."""


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file whole or not at all, so that a killed run leaves no half of one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n")
    os.replace(partial, path)  # noqa: PTH105 - the same
