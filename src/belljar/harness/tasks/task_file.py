"""One task: its JSON file, read strictly, with all its problems in one error."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

from belljar.errors import BelljarError
from belljar.harness.documents import StrictDocument, UnreadableDocumentError, shown
from belljar.harness.mappings import MAX_CPUS, MAX_SECONDS, MappingKeys, StrictMapping, quote
from belljar.harness.tasks.benchmark import FILE_NAME, LoadedBenchmark, load_benchmark
from belljar.harness.tasks.images import ImageRecipe, image_name
from belljar.harness.tasks.model import Direction, EvalTask, JudgeStage, Parser, Selection, WorkStage
from belljar.harness.tasks.paths import read_cwd, read_submit_exclude, read_submit_paths
from belljar.harness.tasks.rescale import read_rescale
from belljar.policy.language.entries import did_you_mean
from belljar.policy.language.syntax import Syntax

_REQUIRED: Final = ("task_id", "name", "base_image", "platform", "cwd", "submit_paths", "work", "judge")
_TASK_KEYS: Final = MappingKeys((*_REQUIRED, "submit_exclude", "internet", "game_mode"), required=_REQUIRED)
_STAGE_KEYS: Final = ("setup_cmds", "image_tag", "cpu_limit", "mem_limit")
_WORK_KEYS: Final = MappingKeys((*_STAGE_KEYS, "specs_dir", "agent_query"), nullable=_STAGE_KEYS)
_JUDGE_KEYS: Final = MappingKeys(
    (
        *_STAGE_KEYS,
        "eval_cmd",
        "eval_timeout",
        "parser",
        "score_direction",
        "selection",
        "rescale",
        "game_server_cmd",
        "isolate_submission",
    ),
    required=("eval_cmd", "parser"),
    nullable=(*_STAGE_KEYS, "rescale", "game_server_cmd"),
)

_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9]+)?", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_EVAL_TIMEOUT: Final = 600


class UnsupportedTaskError(BelljarError):
    """A task that is valid, and of a kind that Belljar cannot run yet."""


class _StageFields(TypedDict):
    image: str | None
    setup_cmds: tuple[str, ...]
    prebuilt: bool
    cpus: float | None
    memory_bytes: int | None


def load_task(path: Path, loaded: LoadedBenchmark | None = None) -> EvalTask:
    """Read the JSON file of a task. The benchmark, if it is not given, is that of its directory.

    Raises UnreadableDocumentError, InvalidDocumentError and UnsupportedTaskError.
    """
    document = StrictDocument(path, "task", Syntax.JSON)
    _refuse_games(document)
    keys = StrictMapping(document, "", document.data, _TASK_KEYS)
    return _TaskReader(keys, loaded or _benchmark_of(path)).task()


def _benchmark_of(path: Path) -> LoadedBenchmark:
    if not (path.parent / FILE_NAME).exists():
        raise UnreadableDocumentError(
            f"{shown(path)} has no {FILE_NAME} beside it, which defines its base_image; name the file of a task in the "
            "directory of its benchmark"
        )
    return load_benchmark(path.parent)


def _refuse_games(document: StrictDocument) -> None:
    data = document.data if isinstance(document.data, dict) else {}
    judge = data.get("judge")
    if data.get("game_mode") is True or (isinstance(judge, dict) and judge.get("game_server_cmd") is not None):
        raise UnsupportedTaskError(
            f"{shown(document.path)} is a game (game_mode or judge.game_server_cmd), and games are not supported yet; "
            "choose a task that grades an archive"
        )


class _TaskReader:
    """Reads a task from its keys."""

    def __init__(self, keys: StrictMapping, loaded: LoadedBenchmark) -> None:
        self._keys = keys
        self._document = keys.document
        self._loaded = loaded
        self._id = ""

    def task(self) -> EvalTask:
        keys, benchmark = self._keys, self._loaded.benchmark
        self._id = self._task_id()
        base_key = self._base_key()
        platform = keys.words("platform")
        if isinstance(keys.value("platform"), str) and not _PLATFORM.fullmatch(platform):
            keys.fail("platform", f'is {quote(platform)}; write an operating system and a processor: "linux/amd64"')
        keys.flag("game_mode", default=False)
        cwd = read_cwd(keys)
        recipe = ImageRecipe(base_key or "", self._loaded.specs.get(base_key or "", {}), platform, cwd)
        fields: dict[str, Any] = {
            "name": keys.words("name"),
            "submit_paths": read_submit_paths(keys),
            "submit_exclude": read_submit_exclude(keys),
            "internet": keys.flag("internet", default=True),
            "work": self._work(recipe),
            "judge": self._judge(recipe),
        }
        self._document.check()
        return EvalTask(
            id=self._id,
            path=self._document.path,
            digest=_digest(self._document.raw, recipe),
            benchmark=benchmark,
            base_image=benchmark.base_images[recipe.base_key],
            platform=platform,
            cwd=cwd,
            **fields,
        )

    def _task_id(self) -> str:
        task_id = self._keys.name("task_id")
        path = self._document.path
        if task_id and task_id != path.stem:
            self._keys.fail(
                "task_id",
                f"is {quote(task_id)}, and tasks are found by the names of their files; "
                f'rename the file to {quote(task_id)[1:-1]}.json, or write "{path.stem}"',
            )
        return task_id

    def _base_key(self) -> str | None:
        key = self._keys.text("base_image")
        images = self._loaded.benchmark.base_images
        if key in images:
            return key
        if isinstance(self._keys.value("base_image"), str):
            available = ", ".join(images) or "none"
            self._keys.fail(
                "base_image",
                f"is {quote(key)}, which {FILE_NAME} does not have{did_you_mean(key, images)}; "
                f"add it there to base_images, or write one of those: {available}",
            )
        return None

    def _work(self, recipe: ImageRecipe) -> WorkStage:
        keys = self._section("work", _WORK_KEYS)
        return WorkStage(
            **self._stage(keys, recipe), specs_dir=keys.text("specs_dir"), agent_query=keys.text("agent_query")
        )

    def _judge(self, recipe: ImageRecipe) -> JudgeStage:
        keys = self._section("judge", _JUDGE_KEYS)
        eval_cmd = keys.text("eval_cmd")
        if isinstance(keys.value("eval_cmd"), str) and not eval_cmd.strip():
            keys.fail("eval_cmd", "is blank; write the command that grades a submission")
        timeout = keys.number("eval_timeout", most=MAX_SECONDS)
        return JudgeStage(
            **self._stage(keys, recipe),
            eval_cmd=eval_cmd,
            eval_timeout=_EVAL_TIMEOUT if timeout is None else timeout,
            parser=keys.choice("parser", Parser.STRUCTURED_JSON),
            direction=keys.choice("score_direction", Direction.MAXIMIZE),
            selection=keys.choice("selection", Selection.PASS_RATE_FIRST),
            rescale=read_rescale(keys),
            isolate_submission=keys.flag("isolate_submission", default=False),
        )

    def _section(self, key: str, known: MappingKeys) -> StrictMapping:
        if key not in self._keys:  # which was noted
            return StrictMapping(self._document, key, {}, known._replace(required=()))
        return StrictMapping(self._document, key, self._keys.value(key), known)

    def _stage(self, keys: StrictMapping, recipe: ImageRecipe) -> _StageFields:
        commands = keys.texts("setup_cmds")
        given, prebuilt = "setup_cmds" in keys, "image_tag" in keys
        tags = recipe.tags(commands)
        tag = keys.words("image_tag", tags[0])
        if prebuilt and isinstance(keys.value("image_tag"), str) and not _TAG.fullmatch(tag):
            keys.fail("image_tag", f"is {quote(tag)}, which is no tag of an image; write one such as {tags[0]}")
        elif prebuilt and given and tag not in tags:
            keys.fail(
                "image_tag",
                f"is {quote(tag)}, and the image that setup_cmds make has the tag {tags[0]}; "
                "delete image_tag, or restore the commands that it was made of",
            )
        return _StageFields(
            image=image_name(self._loaded.benchmark.name, keys.where, self._id, tag) if given or prebuilt else None,
            setup_cmds=commands,
            prebuilt=prebuilt and not given,
            cpus=keys.number("cpu_limit", most=MAX_CPUS),
            memory_bytes=keys.memory("mem_limit"),
        )


def _digest(raw: bytes, recipe: ImageRecipe) -> str:
    base: Mapping[str, Any] = {"key": recipe.base_key, "spec": recipe.base_spec}
    parts = (hashlib.sha256(raw).hexdigest(), json.dumps(base, sort_keys=True))
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()
