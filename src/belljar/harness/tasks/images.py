"""Names of images: `<benchmark>.work.<task>:<tag>`, with a tag that is a hash of how the image is made.

The hash covers the commands, not what they result in: the same tag can stand for different bytes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from belljar.errors import BelljarError
from belljar.harness.tasks.model import EvalTask, TaskStage

_TAG_DIGITS: Final = 12
_RECIPES: Final[tuple[Mapping[str, int], ...]] = ({}, {"recipe_version": 2})
"""What versions of SForge add to what they hash. We name images by the first; tags by either are right."""


class ImageError(BelljarError):
    """A task with neither the image nor the commands that a backend needs."""


class ImageRecipe(NamedTuple):
    """What the images of a task are made of."""

    base_key: str
    base_spec: Mapping[str, Any]
    """The entry of `base_images` as it is written, without defaults."""

    platform: str
    cwd: PurePosixPath

    def tags(self, setup_cmds: Sequence[str]) -> tuple[str, ...]:
        """Return the tags that an image with these commands may have, ours first."""
        return tuple(self._tag(setup_cmds, recipe) for recipe in _RECIPES)

    def _tag(self, setup_cmds: Sequence[str], recipe: Mapping[str, int]) -> str:
        base_hash = _hash({**recipe, "key": self.base_key, "spec": self.base_spec})
        stage = {"base_hash": base_hash, "platform": self.platform, "cwd": str(self.cwd), "setup_cmds": [*setup_cmds]}
        return _hash({**recipe, **stage})[:_TAG_DIGITS]


def image_name(benchmark: str, stage: str, task_id: str, tag: str) -> str:
    """Return the name of an image; `stage` is `work` or `judge`."""
    return f"{benchmark}.{stage}.{task_id}:{tag}"


def check_stages(task: EvalTask, *, runs_images: bool) -> None:
    """Check that a backend, which runs images or does not, can make both sandboxes of a task. Raises ImageError."""
    for name, stage in (("work", task.work), ("judge", task.judge)):
        if problem := _problem(stage, runs_images=runs_images):
            raise ImageError(f"{task.path}: {name} {problem}")


def _problem(stage: TaskStage, *, runs_images: bool) -> str | None:
    if runs_images and stage.image is None:
        return "has neither setup_cmds nor image_tag, and this backend runs images; add one of them"
    if not runs_images and stage.prebuilt:
        return (
            f"is the image {stage.image} alone, and this backend runs none; "
            "add setup_cmds, or use a backend that runs images: --backend docker"
        )
    return None


def _hash(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
