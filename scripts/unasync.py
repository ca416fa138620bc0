"""Writes the client that waits: that for asyncio, without its awaits. A test sees to it that it was run.

What the two cannot have in common stands between comments: `# with asyncio:`, `# without:` (commented out) and `# end`.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/belljar/client/aio"
TARGET = ROOT / "src/belljar/client/sync"
MODULES = ("client", "connection", "sandbox")

_HEADER = "# Generated from aio/{}.py by scripts/unasync.py: change that, and run this.\n"
_WORDS = {
    r"\basync (?=def|with|for)": "",
    r"\bawait ": "",
    r"\bimport asyncio\b": "import time",
    r"\basyncio\.sleep\b": "time.sleep",
    r"\bclient\.aio\b": "client.sync",
    r"\bAsyncHTTPTransport\b": "HTTPTransport",
    r"\bAbstractAsyncContextManager\b": "AbstractContextManager",
    r"\bAsync(?=[A-Z])": "",
    r"\basynccontextmanager\b": "contextmanager",
    r"\benter_async_context\b": "enter_context",
    r"\b__a(?=enter__|exit__|iter__)": "__",
    r"\ba(?=closing\b|close\b|read\b|iter_bytes\b)": "",
}


def generated(module: str) -> str:
    """Return what a module is to be."""
    lines = _HEADER.format(module) + "".join(_lines((SOURCE / f"{module}.py").read_text()))
    for word, instead in _WORDS.items():
        lines = re.sub(word, instead, lines)
    return _tidy(lines)


def _lines(text: str) -> Iterator[str]:
    within = ""
    for line in text.splitlines(keepends=True):
        word = line.strip()
        if word in ("# with asyncio:", "# without:", "# end"):
            within = word
        elif within == "# without:":
            yield line.replace("# ", "", 1) if word else line
        elif within != "# with asyncio:":
            yield line


def _tidy(text: str) -> str:
    """Leave out imports that nobody needs any more, and write it as everything else is written."""
    for words in (["check", "--quiet", "--fix", "--select", "F401,I,UP028", "--unsafe-fixes"], ["format", "--quiet"]):
        command = [str(ROOT / ".venv/bin/ruff"), *words, "--stdin-filename", str(TARGET / "client.py"), "-"]
        text = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for module in MODULES:
        (TARGET / f"{module}.py").write_text(generated(module))
