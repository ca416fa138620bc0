"""A task as the harness uses it: every field checked, every default filled in."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath


class Parser(StrEnum):
    """How the output of `eval_cmd` is read."""

    STRUCTURED_JSON = "structured_json"
    PYTEST_V = "pytest_v"
    SCORE_SUM = "score_sum"


class Direction(StrEnum):
    """Whether a higher or a lower score is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class Selection(StrEnum):
    """How the best submission of a run is chosen."""

    PASS_RATE_FIRST = "pass_rate_first"  # noqa: S105 - no password
    SCORE_FIRST = "score_first"
    VALID_THEN_SCORE = "valid_then_score"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescale:
    """How a raw score becomes a figure from 0 to 100."""

    kind: str
    parameters: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """An entry of `base_images`."""

    key: str
    official_image: str
    extra_packages: tuple[str, ...] = ()
    pip_packages: tuple[str, ...] = ()
    user_directive: str = ""
    post_install_directive: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A directory of tasks."""

    name: str
    directory: Path
    base_images: Mapping[str, BaseImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStage:
    """How the work or the judge sandbox is made, and what it may use."""

    image: str | None
    """The name of the image, with its tag; None if the task has neither commands nor a tag to make a name of."""

    setup_cmds: tuple[str, ...] = ()
    prebuilt: bool = False
    """Whether there is a tag and no list of commands, so that nothing but the image says what is in it."""

    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStage(TaskStage):
    """Where the agent works."""

    specs_dir: str = ""
    agent_query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStage(TaskStage):
    """Where submissions are graded."""

    eval_cmd: str
    eval_timeout: float = 600
    parser: Parser
    direction: Direction = Direction.MAXIMIZE
    selection: Selection = Selection.PASS_RATE_FIRST
    rescale: Rescale | None = None
    isolate_submission: bool = False
    """Whether submitted code runs in a sandbox of its own, apart from the one that grades it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalTask:
    """One task."""

    id: str
    name: str
    path: Path
    """The JSON file."""

    digest: str
    """`sha256:` and the digest of the JSON file and of the entry of `base_images` that it uses."""

    benchmark: Benchmark
    base_image: BaseImage
    platform: str
    cwd: PurePosixPath
    submit_paths: tuple[str, ...]
    submit_exclude: tuple[str, ...]
    """Without slashes at their ends."""

    internet: bool
    work: WorkStage
    judge: JudgeStage

    @property
    def solution(self) -> Path:
        """The directory of the reference solution, which the `oracle` agent runs."""
        return self.path.with_name(f"{self.id}.solution")
