"""What is measured runs from byte code, as users have it, whatever the environment of the benchmark says."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCH = """
import subprocess, sys
from pathlib import Path
from bench.processes import use_byte_code
use_byte_code(Path("given"))
subprocess.run([sys.executable, "-c", "import imported"], check=True)
"""


def test_byte_code_is_written_although_the_environment_forbids_it(tmp_path):
    (tmp_path / "given").mkdir()
    for module in ("given/compiled.py", "imported.py"):
        (tmp_path / module).write_text("")
    forbidding = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path / "elsewhere")}
    environment = {**os.environ, **forbidding, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    subprocess.run([sys.executable, "-c", BENCH], cwd=tmp_path, env=environment, check=True)
    cached = sorted(path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc"))
    assert cached == ["compiled", "imported"]
    assert not (tmp_path / "elsewhere").exists()
