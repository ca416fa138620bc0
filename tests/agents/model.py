"""A stand-in for a language model: it makes the tool calls that a test has written down, one after the other."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class ToolCall(NamedTuple):
    """Something that the model wants its agent to do."""

    tool: str
    arguments: dict[str, Any]


@dataclass
class Model:
    """The model, and what it has learned about its agent."""

    script: list[ToolCall] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    """What agents have shown to be let in."""

    refusals: list[str] = field(default_factory=list)
    """Status lines, and headers, by which requests are refused before the first one is answered."""

    pause: float = 0
    """Seconds between the parts of an answer."""

    results: list[str] = field(default_factory=list)
    """What its calls have come to, as the agent says."""

    def answer(self, tools: list[Any], results: list[Any]) -> ToolCall | str:
        """Return the next call; a text at the end, and to questions aside, in which no tool is offered."""
        if not tools:
            return "Nothing."
        self.results = [result if isinstance(result, str) else json.dumps(result) for result in results]
        return self.script[len(results)] if len(results) < len(self.script) else "Done."
