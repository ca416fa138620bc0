"""Other sandboxes that a command can be run in, each as it comes: with its own defaults, and no host granted."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.fetching import MissingError, from_debian, from_npm, from_pip, libraries_of, output_of, version_of

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

_SANDLOCK = """\
import sys
from sandlock import Sandbox
done = Sandbox(fs_readable=["/usr", "/bin", "/lib", "/lib64", "/etc"], fs_writable=["."]).run(["true"])
sys.exit(done.exit_code)
"""
_IMAGE = "busybox"


@dataclass(frozen=True)
class Sandboxed:
    """`true` in a sandbox, as somebody would type it."""

    version: str
    does: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def bubblewrap(_: Path) -> Sandboxed:
    """Bare bubblewrap."""
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    does = "namespaces alone: the whole file system read-only, no network, no gateway, no system call filter"
    return Sandboxed(version_of("bwrap", "--version"), does, command)


def srt(directory: Path) -> Sandboxed:
    """Anthropic's sandbox runtime: bubblewrap, and proxies in a Node.js process."""
    root, tools = from_npm("srt", "@anthropic-ai/sandbox-runtime"), from_debian("srt-tools", "socat", "ripgrep")
    settings = directory / "srt.json"
    network: dict[str, list[str]] = {"allowedDomains": [], "deniedDomains": []}
    settings.write_text(
        json.dumps({"network": network, "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}})
    )
    program = str(root / "srt")
    return Sandboxed(
        version_of(program, "--version"),
        "bubblewrap; HTTP and SOCKS proxies, for programs that use them",
        [program, "--settings", str(settings), "true"],
        {"PATH": f"{tools}/usr/bin:{PATH}", **libraries_of(tools)},
    )


def codex(_: Path) -> Sandboxed:
    """The sandbox that codex has for its commands."""
    program = str(from_npm("codex", "@openai/codex") / "codex")
    does = "bubblewrap, system call filter; no network, and nothing that could be granted"
    return Sandboxed(version_of(program, "--version"), does, [program, "sandbox", "true"])


def sandlock(_: Path) -> Sandboxed:
    """Sandlock, from Python."""
    python = str(from_pip("sandlock", "sandlock") / "bin" / "python")
    version = version_of(python, "-c", "import sandlock; print(sandlock.__version__)")
    does = "Landlock and a system call filter, from Python; no namespaces"
    return Sandboxed(version, does, [python, "-c", _SANDLOCK])


def docker(_: Path) -> Sandboxed:
    """A container, if there is an engine and an image."""
    version = output_of("docker", "version", "--format", "{{.Server.Version}}").strip()
    try:
        output_of("docker", "image", "inspect", _IMAGE)
    except MissingError as error:
        raise MissingError(f"there is no image {_IMAGE}; docker pull {_IMAGE}") from error
    command = ["docker", "run", "--rm", "--network", "none", _IMAGE, "true"]
    return Sandboxed(version, "a container without a network", command)


SANDBOXES: dict[str, Callable[[Path], Sandboxed]] = {
    "bwrap --unshare-all": bubblewrap,
    "srt": srt,
    "codex sandbox": codex,
    "sandlock": sandlock,
    "docker run": docker,
}
