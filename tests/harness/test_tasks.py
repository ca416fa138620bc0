"""Tasks: what a file may say, and what is said of one that says something else."""

import hashlib
import json
import os
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.errors import BelljarError
from belljar.harness.judge import rescaling
from belljar.harness.tasks.images import ImageError, check_stages
from belljar.harness.tasks.loading import find_task, load_directory, load_tasks
from belljar.harness.tasks.model import Direction, Parser, Selection
from belljar.harness.tasks.rescale import PARAMETERS
from tests.harness.benchmarks import BENCHMARK, task_data, write_benchmark


@pytest.fixture
def load(tmp_path):
    """Load one task that differs from a good one."""

    def load_changed(**changes):
        directory = write_benchmark(tmp_path / "tasks", task_data(**changes))
        return find_task("lru", directory)

    return load_changed


def refusal(load, **changes) -> str:
    with pytest.raises(BelljarError) as raised:
        load(**changes)
    return str(raised.value)


class TestGoodTasks:
    def test_every_field_is_read(self, load):
        task = load(
            submit_exclude=["tests/", "*.so"],
            work__specs_dir="/home/workspace/lru/docs",
            judge__eval_timeout=30,
            judge__score_direction="minimize",
            judge__selection="valid_then_score",
            judge__rescale={"kind": "linear", "lower": 0, "upper": 2.5},
            judge__cpu_limit=1.5,
            judge__mem_limit="512m",
            judge__isolate_submission=True,
        )
        assert (task.id, task.name, task.platform) == ("lru", "LRU cache", "linux/amd64")
        assert task.cwd == PurePosixPath("/home/workspace/lru")
        assert (task.submit_paths, task.submit_exclude) == (("lru/",), ("tests", "*.so"))
        assert task.internet is False
        assert (task.base_image.key, task.base_image.official_image) == ("python", "python:3.12-slim")
        assert (task.work.cpus, task.work.memory_bytes) == (2, 4 << 30)
        assert task.work.agent_query == "Implement lru.LRU."
        assert task.work.specs_dir == "/home/workspace/lru/docs"
        assert (task.judge.parser, task.judge.direction) == (Parser.PYTEST_V, Direction.MINIMIZE)
        assert (task.judge.selection, task.judge.eval_timeout) == (Selection.VALID_THEN_SCORE, 30)
        assert task.judge.rescale is not None
        assert dict(task.judge.rescale.parameters) == {"lower": 0, "upper": 2.5}
        assert (task.judge.cpus, task.judge.memory_bytes) == (1.5, 512 << 20)
        assert task.judge.isolate_submission

    def test_what_is_left_out_has_the_defaults_of_the_format(self, load):
        task = load(internet=..., work__cpu_limit=None, work__mem_limit=...)
        assert task.internet is True
        assert task.submit_exclude == ("tests",)
        assert (task.work.cpus, task.work.memory_bytes) == (None, None)
        assert (task.judge.eval_timeout, task.judge.rescale) == (600, None)
        assert (task.judge.direction, task.judge.selection) == (Direction.MAXIMIZE, Selection.PASS_RATE_FIRST)
        assert not task.judge.isolate_submission

    def test_the_solution_is_beside_the_task(self, load, tmp_path):
        assert load().solution == tmp_path / "tasks/lru.solution"

    @pytest.mark.parametrize("kind", PARAMETERS)
    def test_every_kind_of_rescale_is_read(self, load, kind):
        rescale = load(
            judge__rescale={"kind": kind} | {name: n for n, name in enumerate(PARAMETERS[kind])}
        ).judge.rescale
        assert (rescale.kind, set(rescale.parameters)) == (kind, set(PARAMETERS[kind]))

    def test_the_judge_has_a_formula_for_every_kind_and_no_other(self):
        assert set(rescaling._FORMULAS) == set(PARAMETERS)

    def test_the_digest_changes_with_the_task_and_with_its_base_image_alone(self, load, tmp_path):
        digest = load().digest
        assert digest.startswith("sha256:")
        assert load().digest == digest
        assert load(name="Another").digest != digest
        path = tmp_path / "tasks/BENCHMARK.yaml"
        load()
        path.write_text(BENCHMARK.replace("[git]", "[git, jq]"))
        assert find_task("lru", path.parent).digest != digest
        path.write_text(BENCHMARK + "  other: {official_image: debian, extra_packages: []}\n")
        assert find_task("lru", path.parent).digest == digest


class TestImages:
    def test_a_name_has_the_hash_of_how_the_image_is_made(self, load):
        task = load()
        spec = {"official_image": "python:3.12-slim", "extra_packages": ["git"]}
        base = hashlib.sha256(json.dumps({"key": "python", "spec": spec}, sort_keys=True).encode()).hexdigest()
        stage = {"base_hash": base, "platform": "linux/amd64", "cwd": "/home/workspace/lru"}
        for name, image, commands in (
            ("work", task.work.image, ["mkdir -p lru"]),
            ("judge", task.judge.image, ["mkdir -p tests"]),
        ):
            text = json.dumps({**stage, "setup_cmds": commands}, sort_keys=True)
            assert image == f"small.{name}.lru:{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def test_a_tag_that_fits_the_commands_is_accepted(self, load):
        tag = load().work.image.rpartition(":")[2]
        assert load(work__image_tag=tag).work.image == f"small.work.lru:{tag}"

    def test_a_tag_that_does_not_fit_the_commands_is_an_error_that_names_the_right_one(self, load):
        tag = load().judge.image.rpartition(":")[2]
        text = refusal(load, judge__image_tag="0123456789ab")
        assert "error: judge.image_tag: " in text
        assert f"has the tag {tag}" in text

    def test_a_tag_alone_names_an_image_that_only_some_backends_run(self, load):
        task = load(work__setup_cmds=..., work__image_tag="0123456789ab")
        assert task.work.image == "small.work.lru:0123456789ab"
        check_stages(task, runs_images=True)
        with pytest.raises(ImageError, match=r"work is the image small\.work\.lru:0123456789ab alone"):
            check_stages(task, runs_images=False)

    def test_a_task_without_commands_and_tag_runs_only_where_no_image_is_needed(self, load):
        task = load(judge__setup_cmds=...)
        check_stages(task, runs_images=False)
        with pytest.raises(ImageError, match="judge has neither setup_cmds nor image_tag"):
            check_stages(task, runs_images=True)


@pytest.mark.parametrize(
    ("changes", "place", "problem"),
    [
        ({"internet": "no"}, "internet", 'is "no", which is text; write false, without quotes'),
        ({"internet": "yes"}, "internet", "write true, without quotes"),
        ({"internet": 0}, "internet", "is 0, which is a number; write false"),
        ({"internet": None}, "internet", "has no value; write one or delete the key"),
        ({"internt": False}, "internt", "is not a known key (did you mean internet?)"),
        ({"judge__parsr": "x"}, "judge.parsr", "is not a known key (did you mean parser?)"),
        ({"zzz": 1}, "zzz", "is not a known key; known here: task_id,"),
        ({"cwd": ...}, "the task", 'has no "cwd"; add it'),
        ({"judge": ...}, "the task", 'has no "judge"; add it'),
        ({"judge__parser": ...}, "judge", 'has no "parser"; add it'),
        ({"judge": []}, "judge", "is a list; write a mapping"),
        ({"name": 7}, "name", "is 7, which is a number; write text, in quotes"),
        ({"name": "  "}, "name", "write a line of text"),
        ({"work__agent_query": "a\0b"}, "work.agent_query", "has a NUL character"),
        ({"work__agent_query": "\ud800"}, "work.agent_query", "half of a surrogate pair"),
        ({"judge__eval_cmd": " "}, "judge.eval_cmd", "is blank"),
        ({"judge__eval_timeout": -5}, "judge.eval_timeout", "is -5; write a number above 0"),
        ({"judge__eval_timeout": 0}, "judge.eval_timeout", "write a number above 0"),
        ({"judge__eval_timeout": True}, "judge.eval_timeout", "is true; write a number"),
        ({"judge__eval_timeout": "600"}, "judge.eval_timeout", "which is text; write a number"),
        ({"judge__eval_timeout": 10**17}, "judge.eval_timeout", "write a number above 0, up to"),
        ({"judge__cpu_limit": -1}, "judge.cpu_limit", "write a number above 0"),
        ({"work__mem_limit": "lots"}, "work.mem_limit", "is no amount of memory; write a number with a unit"),
        ({"work__mem_limit": "-8g"}, "work.mem_limit", "is no amount of memory"),
        ({"work__mem_limit": 8}, "work.mem_limit", 'write text with a unit, such as "8g"'),
        ({"work__mem_limit": "8"}, "work.mem_limit", "did you forget the unit"),
        ({"work__mem_limit": "9" * 400 + "g"}, "work.mem_limit", "is no amount of memory"),
        ({"judge__parser": "pytest"}, "judge.parser", "(did you mean pytest_v?); write"),
        ({"judge__parser": None}, "judge.parser", "has no value"),
        ({"judge__score_direction": "min"}, "judge.score_direction", '"maximize" or "minimize"'),
        ({"judge__selection": "best"}, "judge.selection", '"pass_rate_first", "score_first" or "valid_then_score"'),
        ({"judge__isolate_submission": "no"}, "judge.isolate_submission", "write false"),
        ({"base_image": "pyton"}, "base_image", "(did you mean python?); add it there to base_images"),
        ({"base_image": "rust"}, "base_image", "write one of those: python"),
        ({"platform": "amd64"}, "platform", '"linux/amd64"'),
        ({"cwd": "workspace"}, "cwd", "write an absolute path"),
        ({"cwd": "/home/../etc"}, "cwd", 'without ".."'),
        ({"cwd": "/"}, "cwd", "is the root of all files"),
        ({"submit_paths": []}, "submit_paths", 'write ["."] for everything'),
        ({"submit_paths": "src"}, "submit_paths", 'write a list of texts, such as ["src"]'),
        ({"submit_paths": ["/etc"]}, "submit_paths[0]", "relative to cwd"),
        ({"submit_paths": ["a", "b/../../c"]}, "submit_paths[1]", 'without ".."'),
        ({"submit_paths": ["a b"]}, "submit_paths[0]", "separates paths by spaces"),
        ({"submit_paths": [7]}, "submit_paths[0]", "write text, in quotes"),
        ({"submit_exclude": ["/"]}, "submit_exclude[0]", "write a path in the working directory"),
        ({"work__setup_cmds": "make"}, "work.setup_cmds", "write a list of texts"),
        ({"work__setup_cmds": ["make", None]}, "work.setup_cmds[1]", "is null; write text"),
        ({"work__image_tag": "a/b"}, "work.image_tag", "is no tag of an image"),
        ({"judge__rescale": {}}, "judge.rescale", 'has no "kind"; add it'),
        ({"judge__rescale": "linear"}, "judge.rescale", "is text; write a mapping"),
        ({"judge__rescale": {"kind": "linera"}}, "judge.rescale.kind", "(did you mean linear?)"),
        ({"judge__rescale": {"kind": []}}, "judge.rescale.kind", "is [], which is not known"),
        ({"judge__rescale": {"kind": "linear", "lower": 0}}, "judge.rescale", 'has no "upper", which linear needs'),
        ({"judge__rescale": {"kind": "linear", "lower": "0", "upper": 1}}, "judge.rescale.lower", "write a number"),
        ({"judge__rescale": {"kind": "linear", "lower": 1, "upper": 1}}, "judge.rescale", "two different numbers"),
        ({"judge__rescale": {"kind": "linear", "lower": 0, "uper": 1}}, "judge.rescale.uper", "(did you mean upper?)"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_the_remedy(load, changes, place, problem):
    text = refusal(load, **changes)
    [line] = [line for line in text.splitlines() if problem in line]
    assert f"error: {place}" in line
    assert "lru.json" in line


@pytest.mark.parametrize("task_id", ["../up", "", ".hidden", "a/b", "a b", "ü", "a\n", "x" * 129])
def test_an_id_that_is_no_name_of_a_directory_is_refused(tmp_path, task_id):
    path = write_benchmark(tmp_path) / "task.json"
    path.write_text(json.dumps(task_data(task_id=task_id)))
    with pytest.raises(BelljarError, match=r"error: task_id: .* becomes the name of directories"):
        find_task(str(path), tmp_path)


def test_an_id_that_is_not_the_name_of_the_file_is_refused(tmp_path):
    path = write_benchmark(tmp_path) / "other.json"
    path.write_text(json.dumps(task_data()))
    with pytest.raises(BelljarError, match=r'rename the file to lru.json, or write "other"'):
        find_task(str(path), tmp_path)


def test_all_problems_of_a_file_are_reported_at_once_with_their_lines(load, tmp_path):
    text = refusal(load, internet="no", judge__eval_timeout=-1, cwd="x", name=...)
    lines = (tmp_path / "tasks/lru.json").read_text().splitlines()
    number = 1 + next(n for n, line in enumerate(lines) if "eval_timeout" in line)
    assert f"lru.json:{number}: error: judge.eval_timeout: is -1" in text
    assert text.count("error:") == 4


def test_a_key_that_stands_twice_is_refused_in_json(tmp_path):
    path = write_benchmark(tmp_path) / "lru.json"
    path.write_text(json.dumps(task_data()).replace('"parser"', '"parser": "score_sum", "parser"'))
    with pytest.raises(BelljarError, match=r"error: judge.parser: stands twice; keep one of them"):
        find_task(str(path), tmp_path)


@pytest.mark.parametrize("change", [{"game_mode": True}, {"judge__game_server_cmd": "python server.py"}])
def test_games_are_refused_as_not_supported_yet(load, change):
    assert "games are not supported yet" in refusal(load, **change)


class TestBenchmarks:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("name: small\nname: large\n", "BENCHMARK.yaml:2: error: name: stands twice"),
            ("name: small\nbase_image: {}\n", "error: base_image: is not a known key (did you mean base_images?)"),
            ("name: 7\n", "BENCHMARK.yaml:1: error: name: is 7, which is a number"),
            ("name: a/b\n", "becomes the name of directories"),
            ("base_images: {}\n", 'error: the benchmark has no "name"; add it'),
            ("name: x\nbase_images: []\n", "error: base_images: is a list; write a mapping"),
            ("name: x\nbase_images: {p: {official_image: a}}\n", 'base_images.p: has no "extra_packages"'),
            ("name: x\nbase_images: {p: nothing}\n", "base_images.p: is text; write a mapping"),
            ("name: x\nbase_images: {p: {official_image: a, extra_packages: git}}\n", "write a list of texts"),
            ("name: x\nbase_images: {p: {official_image: a, extra_packages: [3.1, 7]}}\n", "extra_packages[1]: is 7"),
            ("", "is empty; write the keys that it needs"),
            ("- a\n", "is a list; write a mapping"),
            ("name: [\n", "is not valid YAML"),
            ("[" * 40, "is nested too deeply"),
        ],
    )
    def test_what_is_wrong_with_a_benchmark_is_named(self, tmp_path, text, problem):
        write_benchmark(tmp_path, benchmark=text)
        with pytest.raises(BelljarError) as raised:
            load_tasks(tmp_path)
        assert problem in str(raised.value)


class TestDirectories:
    def test_tasks_are_found_in_a_benchmark_and_in_benchmarks_one_level_down(self, tmp_path):
        write_benchmark(tmp_path / "one", task_data(task_id="a"), task_data(task_id="b"))
        write_benchmark(tmp_path / "two", task_data(task_id="c"))
        (tmp_path / "notes").mkdir()
        assert [task.id for task in load_tasks(tmp_path / "one")] == ["a", "b"]
        assert [task.id for task in load_tasks(tmp_path)] == ["a", "b", "c"]
        assert find_task("c", tmp_path).benchmark.directory == tmp_path / "two"

    def test_a_task_is_found_by_the_path_of_its_file(self, tmp_path):
        write_benchmark(tmp_path / "one", task_data(task_id="a"))
        assert find_task(str(tmp_path / "one/a.json"), tmp_path / "elsewhere").id == "a"

    def test_a_task_without_a_benchmark_beside_it_is_refused(self, tmp_path):
        path = tmp_path / "lru.json"
        path.write_text(json.dumps(task_data()))
        with pytest.raises(BelljarError, match=r"lru.json has no BENCHMARK.yaml beside it"):
            find_task(str(path), tmp_path)

    def test_one_broken_task_does_not_keep_another_from_being_found(self, tmp_path):
        write_benchmark(tmp_path, task_data(), task_data(task_id="broken", cwd="x"))
        assert find_task("lru", tmp_path).id == "lru"

    def test_the_problems_of_all_files_are_reported_at_once(self, tmp_path):
        write_benchmark(tmp_path, task_data(task_id="a", cwd="x"), task_data(), task_data(task_id="b", internet="no"))
        with pytest.raises(BelljarError) as raised:
            load_tasks(tmp_path)
        assert "a.json is not a valid task" in str(raised.value)
        assert "b.json is not a valid task" in str(raised.value)

    def test_games_are_listed_apart(self, tmp_path):
        write_benchmark(tmp_path, task_data(), task_data(task_id="chess", game_mode=True))
        found = load_directory(tmp_path)
        assert [task.id for task in found.tasks] == ["lru"]
        assert "chess.json is a game" in str(found.unsupported[0])

    def test_an_unknown_task_has_a_hint(self, tmp_path):
        write_benchmark(tmp_path, task_data())
        with pytest.raises(
            BelljarError, match=r'there is no task "lur" in .* \(did you mean lru\?\); `belljar eval list`'
        ):
            find_task("lur", tmp_path)

    def test_a_task_of_two_benchmarks_has_to_be_named_by_its_path(self, tmp_path):
        write_benchmark(tmp_path / "one", task_data())
        write_benchmark(tmp_path / "two", task_data())
        with pytest.raises(BelljarError, match=r"name its file: .*one/lru.json and .*two/lru.json"):
            find_task("lru", tmp_path)

    def test_a_directory_without_a_benchmark_is_an_error(self, tmp_path):
        with pytest.raises(BelljarError, match=r"there is no BENCHMARK.yaml in .*; name the directory"):
            load_tasks(tmp_path)
        with pytest.raises(BelljarError, match=r"missing does not exist; .* belljar eval init"):
            load_tasks(tmp_path / "missing")
        (tmp_path / "file").touch()
        with pytest.raises(BelljarError, match="is not a directory"):
            load_tasks(tmp_path / "file")


class TestStrangeFiles:
    @pytest.fixture
    def path(self, tmp_path):
        return write_benchmark(tmp_path) / "lru.json"

    def refusal(self, path) -> str:
        with pytest.raises(BelljarError) as raised:
            find_task(str(path), path.parent)
        return str(raised.value)

    def test_a_fifo_is_refused_at_once(self, path):
        os.mkfifo(path)
        assert "is not a regular file" in self.refusal(path)

    def test_a_directory_is_refused(self, path):
        path.mkdir()
        assert "is a directory" in self.refusal(path)

    def test_a_file_that_is_not_there_is_refused(self, path):
        assert "does not exist" in self.refusal(path)

    def test_a_name_with_a_nul_is_refused(self, path):
        assert "cannot be read" in self.refusal(path.parent / "a\0.json")

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"\xff\xfe", "is not UTF-8 text (byte 0)"),
            (b"", "is empty"),
            (b"{", "is not valid JSON"),
            (b"[]", "is a list; write a mapping"),
            (b"7", "is a number; write a mapping"),
            (b"[" * 100_000, "is nested too deeply"),
            (b'{"a":' * 100_000, "is nested too deeply"),
            (b'{"name": NaN}', "has the value NaN, which is not JSON"),
            (b'{"name": ' + b"9" * 5000 + b"}", "more than 18 digits"),
            (b'{"judge": {"eval_timeout": 1e999}}', "is Infinity; write"),
            (b'{"\\u0007": 1}', "is not a known key"),
        ],
    )
    def test_what_is_no_task_is_refused_with_the_reason(self, path, content, problem):
        path.write_bytes(content)
        text = self.refusal(path)
        assert problem in text
        assert "\a" not in text

    def test_a_file_without_end_is_refused(self, path):
        with path.open("wb") as file:
            file.truncate(1 << 30)
        assert "is larger than 16 MiB" in self.refusal(path)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
PLACES = [
    *task_data(),
    *(f"work__{key}" for key in task_data()["work"]),
    *(f"judge__{key}" for key in ("setup_cmds", "eval_cmd", "parser", "rescale", "selection", "image_tag")),
]


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(PLACES), JUNK, max_size=3))
def test_junk_in_any_place_is_accepted_or_refused_in_words(tmp_path_factory, changes):
    directory = write_benchmark(tmp_path_factory.mktemp("tasks", numbered=True))
    data = task_data()
    for place, value in changes.items():
        *sections, key = place.split("__")
        section = data[sections[0]] if sections else data
        if isinstance(section, dict):
            section[key] = value
    (directory / "lru.json").write_text(json.dumps(data))
    try:
        task = find_task("lru", directory)
    except BelljarError as error:
        assert "lru.json" in str(error)
    else:
        assert task.id == "lru"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(tmp_path_factory, content):
    directory = write_benchmark(tmp_path_factory.mktemp("tasks", numbered=True))
    (directory / "lru.json").write_bytes(content)
    (directory / "two").mkdir()
    (directory / "two/BENCHMARK.yaml").write_bytes(content)
    with pytest.raises(BelljarError):
        load_tasks(directory)
