import subprocess
import sys

PRIVATE = """
import ctypes
from belljar.linux.processes import keep_memory_private
dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
before = dumpable()
keep_memory_private()
print(before, dumpable())
"""


def test_a_process_can_keep_its_memory_to_itself():
    done = subprocess.run([sys.executable, "-c", PRIVATE], capture_output=True, text=True, check=True)
    assert done.stdout == "1 0\n"
