"""A benchmark to begin with: one task that works, with its solution, to be changed into one's own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from belljar.errors import BelljarError, reason
from belljar.harness.documents import shown
from belljar.harness.tasks.benchmark import FILE_NAME

TASK_ID: Final = "hello"

_BENCHMARK: Final = """\
# What the tasks of this directory have in common. Each task is a JSON file beside this one.
name: my-benchmark

# The images that tasks can begin with, by the names that their base_image has. The local backend needs none.
base_images:
  python:
    official_image: python:3.12-slim
    extra_packages: []
"""

_START: Final = '''\
"""Greets the names on standard input: to be written."""
'''

_GRADE: Final = '''\
"""Runs hello.py on a few inputs, and reports what it prints. Only the judge's sandbox has this file."""

import json
import os
import shutil
import subprocess
import sys

shutil.rmtree("tests")  # submitted code could read the answers here

CASES = {
    "one name": ("Ada\\n", "Hello, Ada!\\n"),
    "two names": ("Ada\\nGrace\\n", "Hello, Ada!\\nHello, Grace!\\n"),
    "a blank line": ("Ada\\n\\nGrace\\n", "Hello, Ada!\\nHello, Grace!\\n"),
}


def greet(text):
    """Return what the submission prints; None if it fails."""
    command = [sys.executable, "-I", "hello.py"]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=10, env={})
    except (subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


details = []
for name, (text, expected) in CASES.items():
    details.append({"name": name, "status": "PASSED" if greet(text) == expected else "FAILED"})
passed = sum(each["status"] == "PASSED" for each in details)
result = {
    "score": passed,
    "pass_rate": passed / len(details),
    "summary": f"{passed} of {len(details)} inputs are answered right",
    "details": details,
}

channel = os.environ.get("BELLJAR_RESULT")  # a file that the judge reads, apart from the output
if channel:
    with open(channel, "w") as file:
        json.dump(result, file)
else:
    print(">>>>> Start Structured Result")
    print(json.dumps(result))
    print(">>>>> End Structured Result")
'''

_SOLUTION: Final = """\
#!/bin/sh
# The reference solution: `belljar eval run --agent oracle` runs it in the work sandbox, in the task's directory.
cat >hello.py <<'END'
import sys

for name in sys.stdin.read().split("\\n"):
    if name:
        print(f"Hello, {name}!")
END
"""


def write_skeleton(directory: Path) -> list[Path]:
    """Write the benchmark into a directory that is new or empty; return its files. Raises BelljarError."""
    solution = directory / f"{TASK_ID}.solution" / "solve.sh"
    files = {
        directory / FILE_NAME: _BENCHMARK,
        directory / f"{TASK_ID}.json": json.dumps(_task(), indent=2) + "\n",
        solution: _SOLUTION,
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise BelljarError(f"{shown(directory)} is not empty, and nothing is overwritten; name a new directory")
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        solution.chmod(0o755)
    except (OSError, ValueError) as error:
        raise BelljarError(f"{shown(directory)} cannot be written: {reason(error)}; name another directory") from None
    return list(files)


def _task() -> Mapping[str, Any]:
    cwd = f"/home/workspace/{TASK_ID}"
    enter = [f"mkdir -p {cwd}", f"cd {cwd}"]
    return {
        "task_id": TASK_ID,
        "name": "Say hello",
        "base_image": "python",
        "platform": "linux/amd64",
        "cwd": cwd,
        "submit_paths": ["hello.py"],
        "submit_exclude": ["tests/"],
        "internet": False,
        "work": {
            "setup_cmds": [*enter, *_file("hello.py", _START)],
            "agent_query": (
                "Write `hello.py`: it reads names from standard input, a line each, and prints `Hello, NAME!` for each "
                "of them, a line each. Blank lines are ignored."
            ),
            "cpu_limit": 1,
            "mem_limit": "1g",
        },
        "judge": {
            "setup_cmds": [*enter, "mkdir -p tests", *_file("tests/grade.py", _GRADE)],
            "eval_cmd": "python3 tests/grade.py",
            "eval_timeout": 60,
            "parser": "structured_json",
            "score_direction": "maximize",
            "selection": "pass_rate_first",
            "cpu_limit": 1,
            "mem_limit": "1g",
        },
    }


def _file(path: str, content: str) -> list[str]:
    """Return the commands that write a file; the lines of a script, one for each of the file."""
    return [f"cat >{path} <<'END'", *content.splitlines(), "END"]
