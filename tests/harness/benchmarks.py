"""A small benchmark, written into a directory, for tests to change."""

import copy
import json
from pathlib import Path
from typing import Any

BENCHMARK = """\
name: small
base_images:
  python:
    official_image: python:3.12-slim
    extra_packages: [git]
"""

TASK: dict[str, Any] = {
    "task_id": "lru",
    "name": "LRU cache",
    "base_image": "python",
    "platform": "linux/amd64",
    "cwd": "/home/workspace/lru",
    "submit_paths": ["lru/"],
    "internet": False,
    "work": {"setup_cmds": ["mkdir -p lru"], "agent_query": "Implement lru.LRU.", "cpu_limit": 2, "mem_limit": "4g"},
    "judge": {"setup_cmds": ["mkdir -p tests"], "eval_cmd": "sh tests/run.sh", "parser": "pytest_v"},
}


def task_data(**changes: Any) -> dict[str, Any]:
    """Return the data of a task with changes; ``judge__parser`` is a key of ``judge``, and ``...`` deletes a key."""
    data = copy.deepcopy(TASK)
    for name, value in changes.items():
        *sections, key = name.split("__")
        section = data
        for each in sections:
            section = section[each]
        if value is ...:
            del section[key]
        else:
            section[key] = value
    return data


def write_benchmark(directory: Path, *tasks: dict[str, Any], benchmark: str = BENCHMARK) -> Path:
    """Write a benchmark with some tasks into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "BENCHMARK.yaml").write_text(benchmark)
    for task in tasks:
        (directory / f"{task['task_id']}.json").write_text(json.dumps(task, indent=1))
    return directory
