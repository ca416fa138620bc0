"""Agents that are built in: `nop`, which does nothing, and `oracle`, which runs the reference solution."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from belljar.harness.agents.interface import AgentDefinition, AgentError
from belljar.harness.documents import shown
from belljar.harness.tasks.model import EvalTask
from belljar.sandbox.spec import Bind

SOLUTION_DIRECTORY: Final = PurePosixPath("/belljar/solution")
_SCRIPT: Final = "solve.sh"


class BuiltinAgent(NamedTuple):
    """An agent of ours, or one that will be."""

    summary: str
    make: Callable[[EvalTask], AgentDefinition]
    supported: bool = True


def _nop(task: EvalTask) -> AgentDefinition:  # noqa: ARG001 - every agent is made for a task
    return AgentDefinition(name="nop", command="true")


def _oracle(task: EvalTask) -> AgentDefinition:
    script = task.solution / _SCRIPT
    if not script.is_file():
        raise AgentError(
            f"{task.id} has no reference solution, since there is no {shown(script)}; "
            "write one, or choose another agent"
        )
    inside = SOLUTION_DIRECTORY / _SCRIPT
    return AgentDefinition(
        name="oracle",
        # A script that is not executable is run by the shell.
        command=f"if [ -x {inside} ]; then {inside}; else /bin/sh {inside}; fi && belljar-submit",
        shown=(Bind(source=task.solution.resolve(), target=Path(SOLUTION_DIRECTORY), writable=False),),
    )


def _unsupported(name: str) -> Callable[[EvalTask], AgentDefinition]:
    def refuse(task: EvalTask) -> AgentDefinition:  # noqa: ARG001 - as above
        raise AgentError(
            f"the agent {name} is not supported yet; run any program with --agent-command, "
            "or describe it in a YAML file and name that with --agent"
        )

    return refuse


BUILTIN: Final[Mapping[str, BuiltinAgent]] = {
    "nop": BuiltinAgent("does nothing: what a task scores untouched", _nop),
    "oracle": BuiltinAgent("runs solve.sh of <task_id>.solution beside the task, and submits", _oracle),
    **{
        name: BuiltinAgent("not supported yet", _unsupported(name), supported=False)
        for name in ("claude-code", "codex", "opencode")
    },
}
"""Agents by name."""
