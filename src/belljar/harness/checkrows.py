"""The rows of `belljar eval check`: what was found, and what it says of the task."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from belljar.errors import printable
from belljar.harness.exposure import Exposure, summarized
from belljar.harness.gradings import TrialGradings
from belljar.harness.tasks.images import ImageError, check_stages
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.outcome import TrialOutcome

CHECKS: Final = ("loads", "setup", "hidden", "untouched", "solution", "repeatable")
"""The checks, in their order."""


class CheckState(StrEnum):
    """What a check has found."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check, with its evidence and, unless all is well, the remedy."""

    check: str
    state: CheckState
    evidence: str
    remedy: str = ""

    def to_data(self) -> dict[str, str]:
        """Return plain data."""
        return asdict(self)


def check_loading(task: EvalTask, *, runs_images: bool) -> CheckRow:
    """Check that a backend can make both sandboxes of a task whose file is valid."""
    try:
        check_stages(task, runs_images=runs_images)
    except ImageError as error:
        return CheckRow("loads", CheckState.BROKEN, str(error), "give both stages what this backend needs")
    return CheckRow("loads", CheckState.OK, f"{task.path} is valid")


def unchecked_after(broken: str) -> list[CheckRow]:
    """Return the rows of all checks that come after one that is broken."""
    names, remedy = CHECKS[CHECKS.index(broken) + 1 :], "correct that first"
    return [CheckRow(name, CheckState.UNCHECKED, f'"{broken}" is broken', remedy) for name in names]


def check_setup(denied: Sequence[str]) -> CheckRow:
    """Check what setup that has succeeded was denied."""
    if denied:
        evidence = f"both sandboxes were set up, but it tried to reach {summarized(denied)}, which is denied"
        return CheckRow("setup", CheckState.WARNING, evidence, "delete the commands that need a network")
    return CheckRow("setup", CheckState.OK, "both sandboxes were set up without a network, and reached for none")


def check_hidden(found: Exposure) -> CheckRow:
    """Check that an agent can read neither tests nor the solution."""
    if found.leaks:
        remedy = "delete it in work.setup_cmds, or make it in judge.setup_cmds alone"
        return CheckRow("hidden", CheckState.BROKEN, summarized(found.leaks), remedy)
    if found.doubts:
        remedy = "delete it in work.setup_cmds, unless agents are meant to have it"
        return CheckRow("hidden", CheckState.WARNING, summarized(found.doubts), remedy)
    what = f"files that only the judge has: {found.hidden}"
    evidence = f"{what}; none of them is in the work sandbox, nor is the solution"
    return CheckRow("hidden", CheckState.OK, evidence)


def check_untouched(task: EvalTask, trial: TrialGradings) -> CheckRow:
    """Check that untouched work is graded, and does not get full marks."""
    outcome = trial.result.outcome
    if outcome is TrialOutcome.PASSED:
        evidence = f"untouched work gets full marks: {trial.score()}"
        return CheckRow("untouched", CheckState.BROKEN, evidence, "make the tests demand what agent_query asks for")
    if not outcome.is_scored:
        evidence = f"untouched work is not graded ({outcome}): {trial.score()}"
        return CheckRow("untouched", CheckState.BROKEN, evidence, _remedy_of(task, outcome))
    return CheckRow("untouched", CheckState.OK, f"untouched work scores {trial.score()}")


def no_solution(task: EvalTask) -> CheckRow:
    """Return the row of a task without a reference solution."""
    path = task.solution / "solve.sh"
    evidence = f"there is no {path}"
    return CheckRow("solution", CheckState.UNCHECKED, evidence, "write it: what solves the task, run in its directory")


def check_solution(task: EvalTask, trial: TrialGradings) -> CheckRow:
    """Check that the solution gets full marks, and that the judge saw exactly its work."""
    outcome, both = trial.result.outcome, trial.both
    if not outcome.is_scored or outcome is TrialOutcome.TIMEOUT_GRADED:
        evidence = f"the solution was not graded ({outcome}): {trial.score()}; it wrote: {trial.output or 'nothing'}"
        return CheckRow("solution", CheckState.BROKEN, evidence, _remedy_of(task, outcome))
    if both is None:
        which = [each.error for each in (trial.own, trial.final) if each is not None and each.error]
        evidence = f"the solution was not graded twice: {which[0] if which else 'it submitted nothing'}"
        return CheckRow("solution", CheckState.BROKEN, evidence, f"correct the grader, or {task.solution}/solve.sh")
    own, final = both
    if outcome is not TrialOutcome.PASSED:
        evidence = f"the solution does not get full marks: {trial.score()}{own.not_passed()}"
        left_out = own.report["left_out"]
        if left_out:
            evidence += f"; left out of its submission: {summarized(left_out)}"
        return CheckRow("solution", CheckState.BROKEN, evidence, f"correct {task.solution}/solve.sh, or the tests")
    if changed := sorted(name for name in {*own.files, *final.files} if own.files.get(name) != final.files.get(name)):
        evidence = f"what belljar-submit sent is not the final state: {summarized(list(map(printable, changed)))}"
        return CheckRow("solution", CheckState.BROKEN, evidence, "leave nothing running that changes submitted files")
    count = f"{len(own.files)} files" if len(own.files) != 1 else "one file"
    evidence = f"the solution scores {trial.score()}, by belljar-submit and as the final state ({count})"
    return CheckRow("solution", CheckState.OK, evidence)


def check_repeatable(trials: Sequence[TrialGradings]) -> CheckRow:
    """Check that the same files get the same grades."""
    twice = [both for trial in trials if (both := trial.both) is not None]
    if not twice:
        return CheckRow("repeatable", CheckState.UNCHECKED, "no work was graded twice", "write a reference solution")
    for own, final in twice:
        if differences := own.differences(final):
            evidence = f"the same files were graded twice, with different grades: {summarized(differences)}"
            remedy = "fix seeds and orders in the grader, and measure no times, or rescale them with a wide range"
            return CheckRow("repeatable", CheckState.BROKEN, evidence, remedy)
    return CheckRow("repeatable", CheckState.OK, f"{2 * len(twice)} gradings: the same files got the same grades")


def _remedy_of(task: EvalTask, outcome: TrialOutcome) -> str:
    if outcome is TrialOutcome.GRADER_TIMEOUT:
        return f"raise judge.eval_timeout, which is {task.judge.eval_timeout:g} s, or make eval_cmd faster"
    if outcome is TrialOutcome.TIMEOUT_GRADED:
        return "make the solution faster, or give it time: BELLJAR_AGENT_TIMEOUT"
    if outcome is TrialOutcome.GRADER_ERROR:
        return "correct judge.setup_cmds and what they need"
    return f"run {task.solution}/solve.sh by hand in the task's directory"
