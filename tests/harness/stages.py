"""Tasks to grade."""

from pathlib import Path, PurePosixPath
from typing import Any

from belljar.harness.tasks.model import BaseImage, Benchmark, EvalTask, JudgeStage, Parser, WorkStage


def stage(eval_cmd: str = "true", parser: Parser = Parser.STRUCTURED_JSON, **fields: Any) -> JudgeStage:
    """How something is judged."""
    return JudgeStage(image="bench.judge.t:0", eval_cmd=eval_cmd, parser=parser, **fields)


def task(judge: JudgeStage, name: str = "tiny", cwd: str = "/work", **fields: Any) -> EvalTask:
    """A task."""
    base = BaseImage(key="python", official_image="python:3")
    return EvalTask(
        **{
            "id": name,
            "name": name,
            "path": Path(f"/bench/{name}.json"),
            "digest": "sha256:0",
            "benchmark": Benchmark(name="bench", directory=Path("/bench"), base_images={"python": base}),
            "base_image": base,
            "platform": "linux/amd64",
            "cwd": PurePosixPath(cwd),
            "submit_paths": (".",),
            "submit_exclude": ("tests",),
            "internet": False,
            "work": WorkStage(image="bench.work.t:0"),
            "judge": judge,
            **fields,
        }
    )
