"""Read the output of `eval_cmd`, as the task's parser has it."""

from typing import Final

from belljar.harness.judge.parsers.graded import Grades, invalid
from belljar.harness.judge.parsers.jsonresults import read_result_file, read_structured_output
from belljar.harness.judge.parsers.lineresults import read_pytest_output, read_score_output
from belljar.harness.tasks.model import JudgeStage, Parser

MAX_OUTPUT: Final = 16 << 20
"""Bytes of output that a grader may print. One that prints more has no result: what was lost may be a failure."""

MAX_RESULT: Final = 4 << 20
"""Bytes of the file that `$BELLJAR_RESULT` names."""


def parse(stage: JudgeStage, output: bytes, result: bytes | None = None) -> Grades:
    """Return the grades that an output reports; `result` is the content of `$BELLJAR_RESULT`, which counts alone."""
    if result is not None:
        return read_result_file(result)
    if len(output) >= MAX_OUTPUT:
        return invalid(f"the output is larger than {MAX_OUTPUT >> 20} MB, and what was lost may be a failure")
    text = output.decode("utf-8", "replace")
    if stage.parser is Parser.STRUCTURED_JSON:
        return read_structured_output(text)
    if stage.parser is Parser.PYTEST_V:
        return read_pytest_output(text, stage.direction)
    return read_score_output(text, stage.direction)
