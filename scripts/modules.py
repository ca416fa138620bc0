"""Writes the list of modules at the end of docs/architecture.md. A test sees to it that it was run."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/belljar"
PAGE = ROOT / "docs/architecture.md"
BEGIN = "<!-- modules: written by scripts/modules.py -->\n"


def page() -> str:
    """Return what the page is to be."""
    written, _, _ = PAGE.read_text().partition(BEGIN)
    return written + BEGIN + "\n".join(_folders()) + "\n"


def _folders() -> Iterator[str]:
    packages = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
    for package in packages:
        modules = sorted(path for path in package.glob("*.py") if not path.name.startswith("__"))
        if not modules:
            continue
        folder = package.relative_to(SOURCE).as_posix()
        yield f"\n### `{'belljar' if folder == '.' else folder}/`\n\n{_idea(package / '__init__.py')}\n"
        yield "| module | its one idea |\n|---|---|"
        yield from (f"| `{module.stem}` | {_idea(module)} |" for module in modules)


def _idea(module: Path) -> str:
    """Return the first paragraph of a module's docstring, on a line."""
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
