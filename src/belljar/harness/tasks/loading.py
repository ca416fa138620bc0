"""Directories of tasks: one benchmark, or several of them one level down."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from belljar.errors import BelljarError, reason
from belljar.harness.documents import InvalidDocumentError, UnreadableDocumentError, shown
from belljar.harness.mappings import quote
from belljar.harness.tasks.benchmark import FILE_NAME, load_benchmark
from belljar.harness.tasks.model import EvalTask
from belljar.harness.tasks.task_file import UnsupportedTaskError, load_task
from belljar.policy.language.entries import did_you_mean

DEFAULT_DIRECTORY: Final = Path("tasks")
_ENDING: Final = ".json"


class UnknownTaskError(BelljarError):
    """No such task, or no such directory of tasks. Name another."""


class TaskDirectory(NamedTuple):
    """The tasks of a directory, and those in it that cannot be run yet."""

    tasks: tuple[EvalTask, ...]
    unsupported: tuple[UnsupportedTaskError, ...]


def load_tasks(directory: Path) -> list[EvalTask]:
    """Return all tasks of a directory, by file name. Raises BelljarError with every problem of every file."""
    found = load_directory(directory)
    if found.unsupported:
        raise UnsupportedTaskError("\n".join(map(str, found.unsupported)))
    return list(found.tasks)


def load_directory(directory: Path) -> TaskDirectory:
    """Return what a directory has. Raises BelljarError with every problem of every file."""
    tasks: list[EvalTask] = []
    unsupported: list[UnsupportedTaskError] = []
    problems: list[str] = []
    for home in _benchmarks(directory):
        try:
            loaded = load_benchmark(home)
        except (InvalidDocumentError, UnreadableDocumentError) as error:
            problems.append(str(error))
            continue
        for path in _task_files(home):
            try:
                tasks.append(load_task(path, loaded))
            except UnsupportedTaskError as error:
                unsupported.append(error)
            except (InvalidDocumentError, UnreadableDocumentError) as error:
                problems.append(str(error))
    if problems:
        raise InvalidDocumentError("\n".join(problems))
    return TaskDirectory(tuple(tasks), tuple(unsupported))


def find_task(name_or_path: str, directory: Path) -> EvalTask:
    """Return the task with an id in a directory, or that of a JSON file. Raises BelljarError."""
    if "/" in name_or_path or name_or_path.endswith(_ENDING):
        return load_task(Path(name_or_path))
    files = [path for home in _benchmarks(directory) for path in _task_files(home)]
    found = [path for path in files if path.stem == name_or_path]
    if not found:
        names = [path.stem for path in files]
        raise UnknownTaskError(
            f"there is no task {quote(name_or_path)} in {shown(directory)}{did_you_mean(name_or_path, names)}; "
            "`belljar eval list` lists them, and --tasks names another directory"
        )
    if len(found) > 1:
        paths = " and ".join(map(shown, found))
        raise UnknownTaskError(f"{quote(name_or_path)} is the task of several benchmarks; name its file: {paths}")
    return load_task(found[0])


def _benchmarks(directory: Path) -> list[Path]:
    """Return the directories with a `BENCHMARK.yaml`: this one, and those in it."""
    try:
        homes = [home for home in (directory, *sorted(directory.iterdir())) if _has_benchmark(home)]
    except FileNotFoundError:
        raise UnknownTaskError(
            f"{shown(directory)} does not exist; name the directory of tasks with --tasks, "
            "or make one: belljar eval init DIR"
        ) from None
    except NotADirectoryError:
        raise UnknownTaskError(f"{shown(directory)} is not a directory; name that of the tasks") from None
    except (OSError, ValueError) as error:
        raise UnknownTaskError(f"{shown(directory)} cannot be read: {reason(error)}") from None
    if not homes:
        raise UnknownTaskError(
            f"there is no {FILE_NAME} in {shown(directory)}, nor in a directory in it; "
            "name the directory of a benchmark with --tasks"
        )
    return homes


def _has_benchmark(directory: Path) -> bool:
    try:
        return (directory / FILE_NAME).exists()
    except OSError:
        return False


def _task_files(home: Path) -> Iterator[Path]:
    try:
        yield from sorted(path for path in home.iterdir() if path.suffix == _ENDING)
    except OSError as error:
        raise UnknownTaskError(f"{shown(home)} cannot be read: {reason(error)}") from None
