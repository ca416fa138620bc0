"""What is asked for, and what comes back."""

from typing import Final, NamedTuple

from belljar.errors import BelljarError

TOOLS: Final = ("python", "node", "debian", "ubuntu", "rust", "go", "java")


class ToolHost(NamedTuple):
    """A host that a tool would connect to."""

    host: str
    """In the one spelling of belljar.names."""
    port: int
    why: str
    """Where it was found, for a person: ``pip's index-url``."""


class ToolNotFoundError(BelljarError):
    """A tool could not be asked, or named no host; the message shows how to name one instead."""

    def __init__(self, tool: str, problem: str) -> None:
        example = "registry.corp.example"
        super().__init__(
            f"{problem}; name the host instead: presets: [{{{tool}: {example}}}] in a policy, or --allow {example}"
        )
