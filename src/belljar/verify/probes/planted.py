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

LEFT_PROGRAMS: Final = Path("left/bin")
LEFT_NAMES: Final = ("python3", "pip", "uv", "npm", "node", "go", "cargo", "mvn", "apt-get", "git", "docker")
LEFT_TRACE: Final = Path("left/trace")
"""Where an agent leaves programs for the host to run, what they are called, and what they write if they are run."""

LEFT_HOST: Final = "left.evil.test"
LEFT_SETTINGS: Final = {
    "PIP_CONFIG_FILE": ("python", "left/pip.conf", f"[global]\nindex-url = https://{LEFT_HOST}/simple\n"),
    "UV_CONFIG_FILE": ("python", "left/uv.toml", f'index-url = "https://{LEFT_HOST}/simple"\n'),
    "NPM_CONFIG_USERCONFIG": ("node", "left/npmrc", f"registry=https://{LEFT_HOST}/\n"),
    "CARGO_HOME": ("rust", "left/config.toml", f'registries.a.index = "https://{LEFT_HOST}/"\n'),
    "GOENV": ("go", "left/go.env", f"GOPROXY=https://{LEFT_HOST}\n"),
}
"""Settings of package tools that it leaves, by the variable that may lead the tool there."""

LINK_OUT: Final = "link-out"
"""A symbolic link to a file outside of the working directory."""
