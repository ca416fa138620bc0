"""What lies in the working directory before anything is tried; the same is expected there at the end."""

from pathlib import Path
from typing import Final

PLANTED: Final = (
    ".git/hooks/pre-commit",
    ".git/config",
    ".envrc",
    ".vscode/tasks.json",
    ".claude/settings.json",
    ".mcp.json",
    ".bashrc",
)
"""Files from which the host's tools run code, or take orders."""

POLICY_OF_THE_AGENT: Final = ".belljar.toml"
"""A file that somebody could take for the policy."""

POLICY_OF_THE_MACHINE: Final = Path("/etc/belljar.yaml")
"""A file that somebody could take for everybody's policy. In an image of its own, an agent may write it."""

LINK_OUT: Final = "link-out"
"""A symbolic link to a file outside of the working directory."""
