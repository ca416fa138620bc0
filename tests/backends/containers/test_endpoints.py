"""Which engine is found, and that each way in which there is none is told apart, with what mends it."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.backends.containers.engine import locate
from belljar.backends.containers.engine.locate import find_engine
from belljar.backends.containers.engine.places import NoEngineError, place
from belljar.backends.interface import MachineError
from belljar.linux.files import usersfiles
from tests.backends.containers.listening import answering, docker, http, podman

ROOT = Path(__file__).parents[3]
NOBODY = 65534
VARIABLES = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}


def refusal(kind, path: Path) -> str:
    with pytest.raises(MachineError) as raised:
        find_engine(kind, {VARIABLES[kind]: f"unix://{path}"})
    return str(raised.value)


class TestRealEngines:
    def test_is_found_by_its_variable(self, engine):
        found = find_engine(engine.kind, {VARIABLES[engine.kind]: engine.url})
        assert (found.kind, found.address) == (engine.kind, engine.socket)
        assert found.get("/info")["ServerVersion"]

    def test_is_taken_for_what_it_is_behind_dockers_variable(self, engine):
        assert find_engine("docker", {"DOCKER_HOST": engine.url}).kind == engine.kind

    def test_docker_is_not_taken_for_podman(self, docker_engine):
        said = refusal("podman", docker_engine.socket)
        assert "is Docker, not Podman" in said
        assert "--backend docker, or unset CONTAINER_HOST" in said

    def test_is_found_by_the_context_that_docker_itself_made(self, docker_engine, settings):
        if shutil.which("docker") is None:
            pytest.skip("needs Docker's client")
        environment = {"DOCKER_CONFIG": str(settings), "PATH": os.environ["PATH"]}
        for words in (("create", "mine", "--docker", f"host={docker_engine.url}"), ("use", "mine")):
            subprocess.run(["docker", "context", *words], env=environment, check=True, capture_output=True)
        assert find_engine("docker", environment).address == docker_engine.socket

    @pytest.mark.long
    def test_stopped_it_is_not_running(self, privileged):
        from tests import engines, privileges  # noqa: PLC0415

        if reason := privileges.missing_for_engines():
            pytest.skip(reason)
        with engines.start_podman() as engine:
            engine.kill()
            assert "podman is not running: nobody listens" in refusal("podman", engine.socket)

    def test_one_that_is_closed_to_the_user_is_told_with_how_to_be_let_in(self, docker_engine):
        said = as_nobody("find_engine('docker', os.environ)", DOCKER_HOST=docker_engine.url)
        assert "you may not use docker" in said
        assert "sudo usermod -aG docker $USER, and log in again" in said
        assert "as good as root" in said
        assert "--backend podman" in said


class TestWhatAnswers:
    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
            (b"", "does not speak HTTP"),
            (b"\xff" * 100_000, "does not speak HTTP"),
            (http(200, "<html>"), "tells no version"),
            (http(200, "OK", "Api-Version: new"), "tells no version"),
            (http(200, "OK", "Api-Version: 1.52"), "does not tell which versions"),
            (http(200, "[]", "Api-Version: 1.52"), "does not tell which versions"),
            (http(200, "{}", "Api-Version: 1.52"), "does not tell which versions"),
            (http(404, "not found"), "it answers with 404"),
        ],
    )
    @pytest.mark.parametrize("kind", ["docker", "podman"])
    def test_a_stranger(self, tmp_path, kind, answer, words):
        path = tmp_path / "s"
        with answering(path, answer):
            said = refusal(kind, path)
        assert f"what answers at {path} (as {VARIABLES[kind]} says) is no container engine" in said
        assert words in said
        assert f"sudo ss -xlpn src {path}" in said
        assert f"unset {VARIABLES[kind]}" in said

    def test_nobody_in_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr(locate, "_PATIENCE", 0.01)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
            listener.listen()
            said = refusal("docker", tmp_path / "s")
        assert f"docker does not answer at {tmp_path}/s" in said
        assert "sudo systemctl restart docker" in said

    def test_an_old_docker(self, tmp_path):
        with answering(tmp_path / "s", docker("19.03.15", "1.40")):
            said = refusal("docker", tmp_path / "s")
        assert f"Docker/19.03.15 (linux) at {tmp_path}/s is too old" in said
        assert "1.40" in said
        assert "sudo apt-get install docker.io" in said

    @pytest.mark.parametrize("kind", ["docker", "podman"])
    def test_an_old_podman(self, tmp_path, kind):
        with answering(tmp_path / "s", podman("3.4.4")):
            said = refusal(kind, tmp_path / "s")
        assert f"Libpod/3.4.4 (linux) at {tmp_path}/s is too old: Podman 4.0 is the oldest" in said
        assert "sudo apt-get install podman" in said

    @pytest.mark.parametrize(
        ("api", "least", "spoken"),
        [
            ("1.41", "1.12", "/v1.40"),
            ("1.48", "1.24", "/v1.40"),
            ("1.52", "1.44", "/v1.44"),
            ("1.53", "1.40", "/v1.40"),
            ("1.60", "1.24", "/v1.40"),
        ],
    )
    def test_an_engine_is_spoken_to_in_words_that_it_still_knows(self, tmp_path, api, least, spoken):
        answers = {
            "/_ping": docker("29.0.0", api),
            f"{spoken}/info": {"Name": "it"},
            "/version": {"MinAPIVersion": least},
        }
        with answering(tmp_path / "s", answers):
            engine = find_engine("docker", {"DOCKER_HOST": f"unix://{tmp_path}/s"})
            assert engine.get("/info") == {"Name": "it"}


class TestNobody:
    @pytest.mark.parametrize("kind", ["docker", "podman"])
    def test_at_a_socket_that_was_left_behind(self, tmp_path, kind):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
        assert f"{kind} is not running: nobody listens at {tmp_path}/s" in refusal(kind, tmp_path / "s")

    @pytest.mark.parametrize("name", ["none", "file/none"])
    def test_where_there_is_no_socket(self, tmp_path, name):
        (tmp_path / "file").touch()
        said = refusal("docker", tmp_path / name)
        assert f"docker is not running: there is nothing at {tmp_path}/{name} (as DOCKER_HOST says)" in said
        assert "or use the usual one: unset DOCKER_HOST" in said

    def test_where_no_socket_can_be(self, tmp_path):
        assert "cannot be reached" in refusal("docker", tmp_path / ("long" * 50))

    @pytest.mark.parametrize(
        "host", ["tcp://192.0.2.1:2375", "ssh://me@remote.example", "npipe:////./pipe/docker_engine", "192.0.2.1:2375"]
    )
    @pytest.mark.parametrize("kind", ["docker", "podman"])
    def test_on_another_machine(self, kind, host):
        with pytest.raises(NoEngineError) as raised:
            find_engine(kind, {VARIABLES[kind]: host})
        assert host in raised.value.culprit
        assert "an engine on this machine, by its unix socket" in raised.value.culprit
        assert f"unset {VARIABLES[kind]}" in raised.value.remedy

    def test_at_a_path_that_depends_on_where_one_is(self):
        with pytest.raises(NoEngineError, match="no absolute path"):
            find_engine("docker", {"DOCKER_HOST": "unix://docker.sock"})


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """The directory of Docker's client, at home."""
    monkeypatch.setattr(usersfiles, "home", lambda: tmp_path)
    (tmp_path / ".docker").mkdir()
    return tmp_path / ".docker"


class TestContexts:
    def test_the_current_one(self, settings):
        make_context(settings, "one", "unix:///one.sock")
        (settings / "config.json").write_text('{"currentContext": "one"}')
        assert place("docker", {"DOCKER_CONFIG": str(settings)}).path == Path("/one.sock")

    def test_a_home_directory_has_them_too(self, settings, tmp_path):
        make_context(settings, "one", "unix:///one.sock")
        (settings / "config.json").write_text('{"currentContext": "one"}')
        assert place("docker", {"HOME": str(tmp_path)}).path == Path("/one.sock")

    def test_the_variable_is_asked_before_the_file_and_the_host_before_both(self, settings):
        for name in ("one", "two"):
            make_context(settings, name, f"unix:///{name}.sock")
        (settings / "config.json").write_text('{"currentContext": "one"}')
        chosen = {"DOCKER_CONFIG": str(settings), "DOCKER_CONTEXT": "two"}
        assert place("docker", chosen).path == Path("/two.sock")
        assert place("docker", {**chosen, "DOCKER_HOST": "unix:///three.sock"}).path == Path("/three.sock")

    def test_the_default_one_is_the_usual_socket(self, settings):
        make_context(settings, "one", "unix:///one.sock")
        (settings / "config.json").write_text('{"currentContext": "one"}')
        chosen = {"DOCKER_CONFIG": str(settings), "DOCKER_CONTEXT": "default", "XDG_RUNTIME_DIR": "/none"}
        assert place("docker", chosen).path == Path("/var/run/docker.sock")

    @pytest.mark.parametrize("configuration", ["{}", '{"auths": {}, "currentContext": ""}', '{"currentContext": null}'])
    def test_none_is_chosen(self, settings, configuration):
        (settings / "config.json").write_text(configuration)
        chosen = {"DOCKER_CONFIG": str(settings), "XDG_RUNTIME_DIR": "/none"}
        assert place("docker", chosen).path == Path("/var/run/docker.sock")

    def test_one_that_leads_away_is_named_with_the_command_that_leaves_it(self, settings):
        make_context(settings, "far", "ssh://remote.example")
        (settings / "config.json").write_text('{"currentContext": "far"}')
        with pytest.raises(NoEngineError) as raised:
            place("docker", {"DOCKER_CONFIG": str(settings)})
        assert 'the context "far" leads to ssh://remote.example' in raised.value.culprit
        assert "docker context use default" in raised.value.remedy

    def test_an_unknown_one_is_named(self, settings):
        with pytest.raises(NoEngineError, match='no context "gone"') as raised:
            place("docker", {"DOCKER_CONFIG": str(settings), "DOCKER_CONTEXT": "gone"})
        assert "docker context ls" in raised.value.remedy

    @pytest.mark.parametrize(
        ("configuration", "words"),
        [("{", "is no JSON"), ("\xff", "is no JSON"), ("[]", "is not as Docker writes it"), ("", "is no JSON")],
    )
    def test_a_broken_file_is_named(self, settings, configuration, words):
        (settings / "config.json").write_text(configuration, encoding="latin-1")
        with pytest.raises(NoEngineError, match=words) as raised:
            place("docker", {"DOCKER_CONFIG": str(settings)})
        assert f"{settings}/config.json" in raised.value.culprit

    @pytest.mark.parametrize(
        ("context", "words"),
        [("{", "is no JSON"), ('{"Endpoints": []}', "names no"), ('{"Endpoints": {"docker": "x"}}', "not as Docker")],
    )
    def test_a_broken_context_is_named(self, settings, context, words):
        make_context(settings, "one", "unix:///one.sock").write_text(context)
        with pytest.raises(NoEngineError, match=words) as raised:
            place("docker", {"DOCKER_CONFIG": str(settings), "DOCKER_CONTEXT": "one"})
        assert "meta.json" in raised.value.culprit

    @pytest.mark.parametrize("place_of_it", ["project", "home/project/.docker"])
    def test_those_that_an_agent_can_have_written_are_not_believed(self, tmp_path, settings, place_of_it):
        """A directory that a variable names, a home directory that is none, and a link to either."""
        planted = tmp_path / place_of_it
        make_context(planted, "evil", f"unix://{tmp_path}/evil.sock")
        (planted / "config.json").write_text('{"currentContext": "evil"}')
        refused = f"{planted}/config.json is not trusted, since it is where a sandbox can have written"
        with pytest.raises(NoEngineError, match=re.escape(refused)) as raised:
            place("docker", {"DOCKER_CONFIG": str(planted)})
        assert "DOCKER_HOST=unix://" in raised.value.remedy
        with pytest.raises(NoEngineError, match="is not trusted"):
            place("docker", {"DOCKER_CONFIG": str(planted), "DOCKER_CONTEXT": "evil"})
        (settings / "config.json").symlink_to(planted / "config.json")
        with pytest.raises(NoEngineError, match="it leads to"):
            place("docker", {"HOME": str(tmp_path)})

    def test_those_that_others_can_write_to_are_not_believed(self, settings):
        (settings / "config.json").write_text('{"currentContext": "one"}')
        (settings / "config.json").chmod(0o666)
        with pytest.raises(NoEngineError, match="others can write to it"):
            place("docker", {"DOCKER_CONFIG": str(settings)})


def make_context(configuration: Path, name: str, host: str) -> Path:
    file = configuration / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    return file


class TestUsualPlaces:
    """Where this machine keeps its own sockets, in a mount namespace that has none of them."""

    def test_docker(self):
        assert usual("docker", user=0) == "/var/run/docker.sock"

    def test_a_rootless_docker(self):
        assert usual("docker", "mkdir -p /run/x; touch /run/x/docker.sock") == "/run/x/docker.sock"

    def test_the_machines_docker_goes_before_a_rootless_one(self):
        both = "mkdir -p /run/x; touch /run/x/docker.sock /run/docker.sock"
        assert usual("docker", both) == "/var/run/docker.sock"

    def test_podman_of_root(self):
        assert usual("podman", user=0) == "/run/podman/podman.sock"

    def test_podman_of_a_user(self):
        assert usual("podman") == "/run/x/podman/podman.sock"

    def test_podman_of_a_user_whose_runtime_directory_is_another(self):
        real = f"/run/user/{NOBODY}/podman"
        assert usual("podman", f"mkdir -p {real}; touch {real}/podman.sock") == f"{real}/podman.sock"

    @pytest.mark.parametrize(
        ("kind", "program", "package"), [("docker", "dockerd", "docker.io"), ("podman", "podman", "podman")]
    )
    def test_an_engine_that_is_not_installed(self, kind, program, package):
        away = f"for p in /usr/bin/{program} /usr/sbin/{program}; do [ ! -e $p ] || mount --bind /dev/null $p; done"
        said = in_empty_run(f"find_engine('{kind}', {{}})", away)
        assert f"{kind} is not installed" in said
        assert f"sudo apt-get install {package}" in said

    @pytest.mark.parametrize(
        ("kind", "program", "user", "remedy"),
        [
            ("docker", "dockerd", NOBODY, "sudo systemctl start docker"),
            ("podman", "podman", 0, "sudo systemctl start podman.socket, or podman system service --time=0 &"),
            ("podman", "podman", NOBODY, "systemctl --user start podman.socket, or podman system service --time=0 &"),
        ],
    )
    def test_an_engine_that_is_installed_and_not_running(self, kind, program, user, remedy):
        there = f"mkdir /run/bin; printf x > /run/bin/{program}; chmod 755 /run/bin/{program}"
        said = in_empty_run(f"find_engine('{kind}', {{'PATH': '/run/bin'}})", there, user=user)
        assert f"{kind} is not running: there is nothing at" in said
        assert remedy in said


def usual(kind: str, setup: str = "true", user: int = NOBODY) -> str:
    variables = {"XDG_RUNTIME_DIR": "/run/x", "DOCKER_CONFIG": "/none"}
    return in_empty_run(f"print(place('{kind}', {variables}).path)", setup, user=user).strip()


def in_empty_run(expression: str, setup: str, user: int = NOBODY) -> str:
    script = f'mount -t tmpfs -o mode=755 empty /run && {{ {setup}; }} && exec "$@"'
    return as_nobody(expression, ["unshare", "-m", "sh", "-c", script, "sh"], user=user)


def as_nobody(expression: str, before: list[str] | None = None, user: int = NOBODY, **variables: str) -> str:
    """Evaluate something as an ordinary user, and return what that says."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    program = f"""
import os
from belljar.backends.containers.engine.locate import find_engine
from belljar.backends.containers.engine.places import NoEngineError, place
os.setgroups([])
os.setresgid({user}, {user}, {user})
os.setresuid({user}, {user}, {user})
try:
    {expression}
except NoEngineError as error:
    print(error)
"""
    command = [*(before or []), sys.executable, "-c", program]
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(ROOT / "src"), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
