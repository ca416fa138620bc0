"""Settings: what wins, what is said of where a value comes from, and what is refused."""

import pytest

from belljar.errors import BelljarError
from belljar.harness.settings.resolve import FLAGS, resolve
from belljar.harness.settings.variables import SUPPORTED, VariableError, check_sforge_variables, find_directory
from belljar.harness.tasks.loading import find_task
from tests.harness.benchmarks import task_data, write_benchmark

KEY = "sk-very-secret"
SECRETS = {"SFORGE_AGENT_API_KEY": KEY, "SFORGE_AGENT_EXTRA_ENV": "A=first-secret,B=second=secret"}


@pytest.fixture
def task(tmp_path):
    return find_task("lru", write_benchmark(tmp_path, task_data()))


def refusal(flags, environ, task) -> str:
    with pytest.raises(BelljarError) as raised:
        resolve(flags, environ, task)
    return str(raised.value)


class TestPrecedence:
    def test_defaults(self, task):
        resolved = resolve({}, {}, task)
        settings = resolved.settings
        assert (settings.backend, settings.timeout, settings.eval_interval) == ("local", 3600, 300)
        assert (settings.setup_timeout, settings.max_submissions, settings.submission_cooldown) == (600, None, 0)
        assert str(resolved.sources["timeout"]) == "default"
        assert resolved.notices == ()

    def test_the_task_sets_limits_and_internet(self, task):
        resolved = resolve({}, {}, task)
        assert (resolved.settings.work_cpu_limit, resolved.settings.work_mem_limit) == (2, 4 << 30)
        assert resolved.settings.internet is False
        assert str(resolved.sources["internet"]) == str(task.path)
        assert (resolved.settings.judge_cpu_limit, str(resolved.sources["judge_cpu_limit"])) == (None, "default")

    def test_a_variable_is_stronger_than_the_task_and_a_flag_is_stronger_than_both(self, task):
        environ = {"BELLJAR_WORK_MEM_LIMIT": "2g"}
        resolved = resolve({}, environ, task)
        assert (resolved.settings.work_mem_limit, str(resolved.sources["work_mem_limit"])) == (
            2 << 30,
            "BELLJAR_WORK_MEM_LIMIT",
        )
        resolved = resolve({"work_mem_limit": 1 << 30}, environ, task)
        assert (resolved.settings.work_mem_limit, str(resolved.sources["work_mem_limit"])) == (
            1 << 30,
            "--work-mem-limit",
        )

    def test_a_variable_of_sforge_counts_and_a_notice_says_so(self, task):
        resolved = resolve({}, {"SFORGE_AGENT_TIMEOUT": "7200"}, task)
        assert (resolved.settings.timeout, str(resolved.sources["timeout"])) == (7200, "SFORGE_AGENT_TIMEOUT")
        assert resolved.notices == ("SFORGE_AGENT_TIMEOUT is set, and counts as BELLJAR_AGENT_TIMEOUT",)

    def test_ours_is_stronger_than_that_of_sforge(self, task):
        resolved = resolve({}, {"SFORGE_AGENT_TIMEOUT": "7200", "BELLJAR_AGENT_TIMEOUT": "60"}, task)
        assert (resolved.settings.timeout, resolved.notices) == (60, ())

    def test_a_variable_that_is_empty_is_not_set(self, task):
        assert resolve({}, {"BELLJAR_BACKEND": "", "SFORGE_BACKEND": ""}, task).settings.backend == "local"

    @pytest.mark.parametrize("backend", ["docker", "podman", "local"])
    def test_backends_are_chosen_by_variable(self, task, backend):
        assert resolve({}, {"SFORGE_BACKEND": backend}, task).settings.backend == backend

    @pytest.mark.parametrize(("flag", "internet"), [("disable_internet", False), ("enable_internet", True)])
    def test_flags_are_stronger_than_the_task_about_the_internet(self, tmp_path, flag, internet):
        task = find_task("lru", write_benchmark(tmp_path, task_data(internet=not internet)))
        resolved = resolve({flag: True}, {}, task)
        assert resolved.settings.internet is internet
        assert str(resolved.sources["internet"]) == "--" + flag.replace("_", "-")

    def test_the_time_of_an_agent_counts_where_nothing_else_sets_it(self, task):
        resolved = resolve({}, {}, task).with_agent_timeout("mine", 90)
        assert (resolved.settings.timeout, str(resolved.sources["timeout"])) == (90, "agent mine")
        assert resolve({"timeout": 5}, {}, task).with_agent_timeout("mine", 90).settings.timeout == 5
        assert resolve({}, {}, task).with_agent_timeout("mine", None).settings.timeout == 3600

    def test_no_automatic_evaluation_is_an_interval_of_zero(self, task):
        assert resolve({"eval_interval": 0}, {}, task).settings.eval_interval == 0

    def test_every_setting_has_a_source(self, task):
        resolved = resolve({"agent": "nop"}, {}, task)
        assert {row.name for row in resolved.shown()} == set(resolved.sources)


class TestSecrets:
    def test_they_are_read(self, task):
        settings = resolve({}, SECRETS, task).settings
        assert settings.agent_api_key == KEY
        assert dict(settings.agent_extra_env) == {"A": "first-secret", "B": "second=secret"}

    def test_nothing_of_them_is_shown_or_kept(self, task):
        resolved = resolve({}, SECRETS, task)
        rows = {row.name: row.value for row in resolved.shown()}
        assert rows["agent_api_key"] == "********"
        assert rows["agent_extra_env"] == "A=********,B=********"
        text = f"{rows} {resolved.to_data()} {resolved!r} {resolved.notices}"
        assert "secret" not in text
        assert KEY[:4] not in text

    @pytest.mark.parametrize(
        "environ",
        [
            {"SFORGE_AGENT_API_KEY": "a secret"},
            {"SFORGE_AGENT_EXTRA_ENV": "A=1,secret"},
            {"SFORGE_AGENT_EXTRA_ENV": "A=1,9=secret"},
            {"SFORGE_AGENT_EXTRA_ENV": "A=secret,A=secret"},
            {"SFORGE_AGENT_EXTRA_ENV": "SFORGE_TOKEN=secret"},
            {"SFORGE_AGENT_API_BASE_URL": "https://user:secret@api.example.org"},
        ],
    )
    def test_what_is_wrong_with_one_is_said_without_it(self, task, environ):
        text = refusal({}, environ, task)
        assert next(iter(environ)) in text
        assert "secret" not in text


@pytest.mark.parametrize(
    ("flags", "environ", "problem"),
    [
        ({"disable_internet": True, "enable_internet": True}, {}, "exclude each other; give one of them"),
        ({"agent": "nop", "agent_command": "true"}, {}, "--agent and --agent-command exclude each other"),
        ({"timeout": -1}, {}, "--timeout: is -1; write a number above 0"),
        ({"timeout": float("nan")}, {}, "--timeout: is NaN; write a number"),
        ({"eval_interval": -1}, {}, "--eval-interval: is -1; write a number from 0"),
        ({"max_submissions": 0}, {}, "--max-submissions: is 0; write a number above 0"),
        ({"max_submissions": 1.5}, {}, "write a whole number"),
        ({"judge_url": "judge:8080"}, {}, "--judge-url: is"),
        ({"judge_url": "http://h:99999"}, {}, "--judge-url: is not a URL"),
        ({"agent_command": " "}, {}, "write a shell command"),
        ({}, {"BELLJAR_AGENT_TIMEOUT": "soon"}, 'BELLJAR_AGENT_TIMEOUT: is "soon"; write a number, such as 3600'),
        ({}, {"SFORGE_WORK_CPU_LIMIT": "0"}, "SFORGE_WORK_CPU_LIMIT: is"),
        ({}, {"SFORGE_WORK_MEM_LIMIT": "lots"}, "SFORGE_WORK_MEM_LIMIT:"),
        ({}, {"SFORGE_BACKEND": "k8s"}, "Kubernetes is not supported yet; write one of: local, docker, podman"),
        ({}, {"SFORGE_BACKEND": "dokcer"}, "(did you mean docker?)"),
        ({}, {"SFORGE_JUDGE_EXTRA_ENV": "A=1"}, "write what the grader needs into judge.setup_cmds"),
        ({}, {"SFORGE_AGENT_MODLE": "m"}, "(did you mean SFORGE_AGENT_MODEL?); correct its name or unset it"),
        ({}, {"SFORGE_ZZZ": "1"}, "SFORGE_ZZZ is not a variable of SForge's; correct"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_remedy(task, flags, environ, problem):
    assert problem in refusal(flags, environ, task)


def test_all_problems_are_reported_at_once(task):
    text = refusal({"timeout": -1}, {"SFORGE_ZZZ": "1", "SFORGE_WORK_MEM_LIMIT": "x"}, task)
    assert len(text.splitlines()) == 3


def test_a_flag_that_does_not_exist_is_a_mistake_of_the_caller(task):
    assert "agent_api_key" not in FLAGS
    with pytest.raises(TypeError):
        resolve({"agent_api_key": KEY}, {}, task)


class TestVariablesOfSForge:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("HTTP_PROXY", "the gateway outside of it connects; set HTTPS_PROXY for belljar"),
            ("HTTPS_PROXY", "a sandbox needs no proxy"),
            ("NO_PROXY", "a sandbox needs no proxy"),
            ("PYPI_INDEX_URL", "images are not built yet"),
            ("MAVEN_MIRROR_URL", "images are not built yet"),
            ("GO_PROXY", "images are not built yet"),
            ("APT_MIRROR_URL", "images are not built yet"),
            ("EXTRA_HOSTS", "images are not built yet"),
            ("GIT_USER", "images are not built yet"),
            ("GIT_TOKEN", "images are not built yet"),
            ("NODEJS_MIRROR_URL", "agents are not installed while a trial runs"),
            ("NPM_REGISTRY_URL", "agents are not installed while a trial runs"),
            ("CLAUDE_CACHE_OPT", "claude-code is not supported yet"),
            ("K8S_NAMESPACE", "Kubernetes is not supported yet"),
            ("K8S_IMAGE_REGISTRY", "Kubernetes is not supported yet"),
            ("K8S_KUBECONFIG", "Kubernetes is not supported yet"),
            ("K8S_NODE_SELECTOR", "Kubernetes is not supported yet"),
            ("E2B_TEMPLATE_MAP", "E2B is not supported"),
            ("E2B_SANDBOX_TTL", "E2B is not supported"),
            ("REGISTRY", "images are not pulled or pushed yet"),
            ("JUDGE_URL", "use --judge-url"),
            ("TOKEN", "the harness sets it"),
        ],
    )
    def test_one_without_effect_is_reported_with_what_to_use(self, name, words):
        [notice] = check_sforge_variables({f"SFORGE_{name}": "a-value"})
        assert notice.startswith(f"SFORGE_{name} has no effect: ")
        assert words in notice
        assert "a-value" not in notice

    @pytest.mark.parametrize("name", SUPPORTED)
    def test_one_that_is_supported_is_not_complained_of(self, name):
        assert check_sforge_variables({f"SFORGE_{name}": "1", "BELLJAR_ANYTHING": "1", "PATH": "/bin"}) == []

    def test_all_that_cannot_be_used_are_named(self):
        with pytest.raises(VariableError) as raised:
            check_sforge_variables({"SFORGE_JUDGE_EXTRA_ENV": "A=1", "SFORGE_X": "1"})
        assert len(str(raised.value).splitlines()) == 2

    def test_directories_are_found_by_flag_variable_and_default(self, tmp_path):
        environ = {"SFORGE_TASKS_DIR": "/tasks"}
        assert str(find_directory("here", "TASKS_DIR", tmp_path, environ).path) == "here"
        found = find_directory(None, "TASKS_DIR", tmp_path, environ)
        assert (str(found.path), found.notice) == (
            "/tasks",
            "SFORGE_TASKS_DIR is set, and counts as BELLJAR_TASKS_DIR",
        )
        assert find_directory(None, "TASKS_DIR", tmp_path, {}).path == tmp_path
