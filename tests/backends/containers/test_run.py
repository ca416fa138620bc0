"""`belljar run` and `belljar shell` on engines: Docker, for root and for a user in its group, and a user's Podman."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from belljar.backends.containers.engine.client import Engine as EngineClient
from belljar.backends.containers.engine.images import find_image
from belljar.backends.interface import SpecError
from tests import privileges
from tests.backends.containers.conftest import PATIENCE, Cli, open_cli, program
from tests.engines import BUSYBOX, busybox, make_image
from tests.universe import Contact, addresses

pytestmark = pytest.mark.long

CURL = "curl:latest"
END = "-- the end --"
FETCH = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 10 --cacert ca.pem"


class Agent:
    """A shell in a sandbox, and somebody who says what it does."""

    def __init__(self, cli: Cli, other: Path, process: "subprocess.Popen[str]") -> None:
        self.cli, self.other, self._process = cli, other, process

    def do(self, script: str) -> str:
        """Have something done, and return all that is said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{ {script}\n}} 2>&1; echo; echo '{END}'\n")
        self._process.stdin.flush()
        said = list[str]()
        while (line := self._process.stdout.readline()) != f"{END}\n":
            assert line, f"the agent is gone: {''.join(said)}"
            said.append(line)
        return "".join(said).removesuffix("\n")


ROOT = ["docker_as_root"] if privileges.EVERY_ENGINE else []


@pytest.fixture(scope="module", params=[*ROOT, "docker_as_user", "rootless_podman"])
def whole_agent(request, whole_universe, cache) -> Iterator[Agent]:
    """An agent for many tests: a sandbox takes most of a second to make."""
    with open_cli(request.param, request, whole_universe, cache) as cli:
        make_image(cli.engine, CURL, {**busybox(), **program("curl")})
        shutil.copy(whole_universe.certificates.path, cli.workdir / "ca.pem")
        (cli.workdir / "ca.pem").chmod(0o644)
        for place in (".git/hooks/pre-commit", ".git/config", ".git/HEAD", ".envrc"):
            (cli.workdir / place).parent.mkdir(parents=True, exist_ok=True)
            (cli.workdir / place).write_text("before")
        other = cli.workdir.with_name(f"{cli.workdir.name}-other")
        (other / "directory").mkdir(parents=True)
        (other / "file").write_text("there")
        for path in (cli.workdir, other):
            cli.give(path)
        options = ["--allow", "plain.test", "--host-port", "80", "--env", "KEPT", "--env", "SET=a=b"]
        binds = ["--ro-bind", f"{other}:/shown", "--bind", f"{other}/directory:/given"]
        variables = {"KEPT": "kept", "SECRET": "s3cret"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        try:
            with cli.start(*options, *binds, "--", "sh", image=CURL, variables=variables, **pipes) as process:
                yield Agent(cli, other, process)
            assert process.returncode == 0
        finally:
            shutil.rmtree(other)


@pytest.fixture
def agent(universe, whole_agent):
    """The agent, in a universe that has seen nothing."""
    return whole_agent


class TestInside:
    def test_there_are_no_rights(self, agent):
        status = agent.do("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
        lines = dict(line.split(":\t") for line in status.splitlines())
        assert {value for name, value in lines.items() if name.startswith("Cap")} == {"0" * 16}
        assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")

    def test_there_is_no_network_but_loopback(self, agent):
        assert agent.do("ls /sys/class/net").split() == ["lo"]

    def test_names_are_found_by_asking_the_gateway(self, agent):
        assert agent.do("cat /etc/resolv.conf") == "nameserver 127.0.0.1\noptions edns0\n"
        assert "belljar" in agent.do("cat /etc/hosts")

    def test_what_is_made_belongs_to_the_user(self, agent):
        assert (
            agent.do("mkdir made && echo x >made/file; id -u; stat -c %u . made/file").split() == [agent.cli.user] * 3
        )
        assert {str((agent.cli.workdir / path).stat().st_uid) for path in ("made", "made/file")} == {agent.cli.user}

    def test_places_that_the_host_runs_code_from_are_read_only(self, agent):
        places = (".git/hooks/pre-commit", ".git/config", ".envrc")
        agent.do("for f in .git/hooks/new .git/HEAD " + " ".join(places) + "; do echo changed >$f; rm -f $f; done")
        agent.do("echo control >.git/HEAD; mv .git .moved; mv .git/hooks .git/moved")
        assert (agent.cli.workdir / ".git/HEAD").read_text() == "control\n"
        assert {(agent.cli.workdir / place).read_text() for place in places} == {"before"}
        assert not (agent.cli.workdir / ".git/hooks/new").exists()

    def test_the_environment_is_clean_but_for_what_is_passed(self, agent):
        lines = agent.do("env").splitlines()
        assert {"KEPT=kept", "SET=a=b", "BELLJAR=1"} <= set(lines)
        assert not [line for line in lines if "s3cret" in line or agent.cli.engine.url in line]

    def test_binds(self, agent):
        assert "Read-only" in agent.do("cat /shown/file; touch /shown/new")
        assert agent.do("echo inside >/given/new && cat /shown/file /given/new") == "thereinside\n"
        assert (agent.other / "directory/new").read_text() == "inside\n"

    def test_the_agent_can_read_what_it_may_reach(self, agent):
        told = json.loads(agent.do("cat /run/belljar/policy.json"))
        assert told["policy"]["egress"]["allowed_domains"] == ["plain.test"]

    def test_an_allowed_name_is_reached(self, agent, universe):
        assert agent.do(f"{FETCH} https://plain.test/").split() == ["200"]
        assert [seen.what for seen in universe.internet.witness.of_kind("handshake")] == ["plain.test"]

    def test_nothing_else_is_reached_or_even_looked_up(self, agent, universe):
        tried = agent.do(
            f"{FETCH} http://plain.test/; {FETCH} https://evil.test/; {FETCH} http://{addresses.EVIL}/;"
            f"{FETCH} http://{addresses.METADATA}/; nslookup secret.evil.test {addresses.RESOLVER}; echo over"
        )
        assert [line for line in tried.splitlines() if line.isdecimal()] == ["200", "000", "403", "403"]
        assert tried.splitlines()[-1] == "over"
        assert {seen.what.split()[0] for seen in universe.internet.witness.of_kind("question")} <= {"plain.test"}
        reached = {contact for contact in universe.wire.contacts() if contact.address != addresses.RESOLVER}
        assert reached <= {Contact("tcp", address, 80) for address in (addresses.PUBLIC, addresses.PUBLIC_V6)}

    def test_ports_of_the_host_and_only_those(self, agent, universe):
        fetch = f"{FETCH} http://host.belljar.internal"
        codes = agent.do(f"{fetch}/; {fetch}:22/; {fetch}:5432/").splitlines()
        assert codes[0] == "200"
        assert "200" not in codes[1:]
        assert {seen.port for seen in universe.gateway.seen} == {80}


class TestCommands:
    def test_the_exit_code_and_the_streams_are_the_commands_own(self, cli):
        done = cli.run("--", "sh", "-c", "cat; echo err >&2; exit 7", stdin="in\n" * 10_000)
        assert (done.returncode, done.stdout, done.stderr) == (7, "in\n" * 10_000, "err\n")

    def test_no_such_command(self, docker_as_user):
        done = docker_as_user.run("--", "no-such-command")
        assert (done.returncode, done.stdout) == (127, "")
        assert "no-such-command" in done.stderr

    def test_below_the_top_of_a_repository(self, docker_as_user, rootless_podman):
        """The rest of the working tree is seen, and what the host's git runs is read-only, there and in a bind."""
        for cli in (docker_as_user, rootless_podman):
            for top in ("repository", "bound"):
                for place in ("HEAD", "config", "objects/x"):
                    path = cli.workdir / top / ".git" / place
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("before")
            (cli.workdir / "repository/below").mkdir()
            (cli.workdir / "repository/file").write_text("there")
            cli.give(cli.workdir)
            attack = "for f in config commondir hooks/x; do echo evil >$git/$f; rm -f $git/$f; done; mv $git away"
            script = f"cat ../file; for git in ../.git {cli.workdir}/bound/.git; do {attack}; echo x >$git/HEAD; done"
            words = ("--workdir", f"{cli.workdir}/repository/below", "--bind", f"{cli.workdir}/bound")
            done = cli.run(*words, "--", "sh", "-c", f"{script}; echo evil >../file; :")
            assert (done.returncode, done.stdout) == (0, "there"), done.stderr
            assert (cli.workdir / "repository/file").read_text() == "there"
            for git in (cli.workdir / "repository/.git", cli.workdir / "bound/.git"):
                found = {name: (git / name).read_text() for name in ("HEAD", "config", "commondir")}
                assert found == {"HEAD": "x\n", "config": "before", "commondir": "./\n"}
                assert not list((git / "hooks").iterdir())

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_reaches_the_command(self, docker_as_root, number):
        assert caught(docker_as_root, number) == (9, "caught\n")

    def test_a_signal_reaches_the_command_on_podman(self, rootless_podman):
        assert caught(rootless_podman, signal.SIGTERM) == (9, "caught\n")

    def test_who_asks_twice_to_end_it_need_not_ask_a_third_time(self, docker_as_user):
        with ready(docker_as_user, "trap '' INT TERM; echo ready; while :; do sleep 1; done") as running:
            running.send_signal(signal.SIGINT)
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE) == 128 + signal.SIGKILL

    def test_a_timeout_ends_everything(self, docker_as_root, rootless_podman):
        for cli in (docker_as_root, rootless_podman):
            assert cli.run("--timeout", "0.1", "--", "sleep", "1000").returncode == 124

    @pytest.mark.parametrize("cli", ["docker_as_user", "rootless_podman"], indirect=True)
    def test_a_terminal(self, cli):
        ours, theirs = os.openpty()
        termios.tcsetwinsize(ours, (33, 99))
        script = "trap 'echo caught; exit 5' INT; stty size; read line; echo got $line; while :; do sleep 0.05; done"
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        with cli.start("--quiet", "--", "sh", "-c", script, start_new_session=True, **streams) as running:
            os.close(theirs)
            read_until(ours, b"33 99")
            os.write(ours, b"hello\r")
            read_until(ours, b"got hello")
            os.write(ours, b"\x03")
            read_until(ours, b"caught")
            assert running.wait(PATIENCE) == 5
        os.close(ours)

    def test_a_terminal_changes_its_size(self, docker_as_root):
        ours, theirs = os.openpty()
        script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        with docker_as_root.start("--quiet", "--", "sh", "-c", script, start_new_session=True, **streams) as running:
            os.close(theirs)
            read_until(ours, b"ready")
            termios.tcsetwinsize(ours, (44, 111))
            read_until(ours, b"44 111")
            assert running.wait(PATIENCE) == 0
        os.close(ours)

    def test_a_shell(self, docker_as_user):
        done = docker_as_user.run(task="shell", stdin="echo $((6 * 7)); exit 3\n")
        assert done.returncode == 3
        assert done.stdout.split()[-1] == "42"


class TestOptions:
    def test_the_images_entry_point_takes_arguments_or_the_images_own(self, docker_as_root):
        config = {"Entrypoint": ["echo", "of the image"], "Cmd": ["and", "its own"], "WorkingDir": "/etc"}
        image = make_image(docker_as_root.engine, "entry", busybox(), config)
        assert docker_as_root.run("--", "and ours", image=image).stdout == "of the image and ours\n"
        assert docker_as_root.run(image=image).stdout == "of the image and its own\n"
        done = docker_as_root.run("--no-workdir", image=image, task="shell", stdin="pwd; exit\n")
        assert done.stdout.split()[-1] == "/etc"

    def test_an_image_that_does_not_say_what_to_run(self, docker_as_root):
        assert_fails(docker_as_root.run(), BUSYBOX, "write a command after --")

    @pytest.mark.parametrize("cli", ["docker_as_user", "rootless_podman"], indirect=True)
    def test_no_directory_of_this_machine(self, cli):
        done = cli.run("--no-workdir", "--", "sh", "-c", f"pwd; touch file; ls; ls {cli.workdir}")
        assert done.stdout == "/workspace\nfile\n"

    @pytest.mark.parametrize("cli", ["docker_as_root", "rootless_podman"], indirect=True)
    def test_files_of_an_image_that_stay_as_they_are(self, cli):
        script = "for place in / /etc /bin /run . /tmp ~; do touch $place/file && echo $place; done"
        done = cli.run("--read-only", "--", "sh", "-c", script)
        home = [] if cli.user == "0" else ["/home/belljar"]  # and that of root is in the image
        assert done.stdout.split() == [".", "/tmp", *home]

    def test_a_process_that_takes_too_much_memory_is_ended_and_that_is_said(self, docker_as_user, rootless_podman):
        script = "dd if=/dev/zero of=/dev/null bs=200M count=1; echo went on"
        for cli in (docker_as_user, rootless_podman):
            done = cli.run("--mem-limit", "64m", "--cpu-limit", "1.5", "--", "sh", "-c", script)
            if cli.engine.limits:
                assert done.stdout == "went on\n"
                assert "ran out of memory" in done.stderr
            else:
                assert_fails(done, f"{cli.engine.kind} cannot limit memory")

    def test_the_engines_network_if_that_is_what_is_wanted(self, docker_as_root):
        script = "ls /sys/class/net; grep -hE '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /run/belljar/*.json"
        done = docker_as_root.run("--no-network-isolation", "--", "sh", "-c", script)
        assert "--no-network-isolation" in done.stderr
        assert "docker" in done.stderr
        assert "eth0" in done.stdout.split()
        rights = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("Cap", "NoNew", "Sec"))]
        assert rights == [*["0" * 16] * 5, "1", "2"]

    @pytest.mark.parametrize("how", ["socket", "directory", "link", "workdir"])
    def test_the_engines_socket_is_not_shown(self, docker_as_root, how):
        cli, link = docker_as_root, docker_as_root.workdir / "link"
        link.symlink_to(cli.engine.socket)
        elsewhere = ["--workdir", str(cli.engine.directory / "home")]
        words = {
            "socket": ["--bind", f"{cli.engine.socket}:/run/docker.sock"],
            "directory": ["--ro-bind", f"{cli.engine.directory}:/shown"],
            "link": [*elsewhere, "--bind", f"{link}:/run/docker.sock"],
            "workdir": ["--workdir", str(cli.engine.directory)],
        }
        no_server = {"BELLJAR_SERVER": ""}  # whose state is in the engine's directory would be refused before
        done = cli.run(*words[how], "--", "echo", "ran", variables=no_server)
        assert_fails(done, str(cli.engine.directory), "socket")


class TestWhatIsWrong:
    @pytest.mark.parametrize("name", ["a b", "UPPER", "../info", "x?y=z", "a" * 5000, "-", ".", "x/./y", "é", ""])
    def test_the_name_of_the_image(self, docker_engine, name):
        with pytest.raises(SpecError, match="docker") as raised:
            find_image(EngineClient("docker", docker_engine.socket), name)
        assert name[:100] in str(raised.value)

    def test_the_image(self, docker_as_root, rootless_podman):
        assert_fails(docker_as_root.run("--", "true", image="absent:1.0"), "absent:1.0", "docker pull absent:1.0")
        assert_fails(rootless_podman.run("--", "true", image="absent"), "absent", "podman pull absent")
        assert_fails(rootless_podman.run("--", "true", image="a b"), "a b")

    def test_no_image(self, docker_as_root):
        assert_fails(docker_as_root.run("--", "true", image=""), "--image")

    def test_the_engine_is_not_running(self, docker_as_root):
        done = docker_as_root.run("--", "true", variables={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
        assert_fails(done, "/nowhere/docker.sock", "not running")

    def test_the_engine_is_closed_to_this_user(self, docker_as_user):
        words = ["run", "--backend", "docker", "--image", BUSYBOX, "--", "true"]
        argv = docker_as_user.engine.as_user(sys.executable, "-m", "belljar", *words, workdir=docker_as_user.workdir)
        argv = ["--clear-groups" if word.startswith("--groups=") else word for word in argv]
        done = subprocess.run(argv, env=docker_as_user.environment(), capture_output=True, text=True, check=False)
        assert_fails(done, str(docker_as_user.engine.socket), "may not use")

    def test_options_that_nobody_can_follow(self, docker_as_root):
        for words, culprit in (
            (["--workdir", "/usr"], "/usr"),
            (["--ro-bind", "/nonexistent"], "/nonexistent"),
            (["--env", "NOT_THERE"], "NOT_THERE"),
            (["--mem-limit", "7m", "--cpu-limit", "100000"], "cpu"),
        ):
            assert_fails(docker_as_root.run(*words, "--", "true"), culprit)


def assert_fails(done: "subprocess.CompletedProcess[str]", *named: str) -> None:
    """It is Belljar that has failed, and it has said why."""
    assert (done.returncode, done.stdout) == (125, ""), done.stderr
    assert done.stderr.startswith("belljar: ")
    assert "Traceback" not in done.stderr
    assert [name for name in named if name.lower() not in done.stderr.lower()] == []


def caught(cli: Cli, number: signal.Signals) -> tuple[int, str]:
    """Have a command catch a signal that is sent to `belljar run`; return how that ends."""
    name = number.name.removeprefix("SIG")
    with ready(cli, f"trap 'echo caught; exit 9' {name}; echo ready; while :; do sleep 0.05; done") as running:
        running.send_signal(number)
        said, _ = running.communicate(timeout=PATIENCE)
        return running.returncode, said


@contextmanager
def ready(cli: Cli, script: str, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Have a script run that has said that it is ready."""
    with cli.start(*words, "--", "sh", "-c", script, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running


def read_until(terminal: int, wanted: bytes) -> None:
    said = b""
    while wanted not in said:
        assert select.select([terminal], [], [], PATIENCE)[0], said
        said += os.read(terminal, 4096)


def test_an_agent_that_keeps_the_engine_from_running_anything_is_ended_all_the_same(docker_as_root):
    """Engines read these files before they run anything inside, and wait for whoever writes to them."""
    script = "rm -f /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group; echo ready; while :; do sleep 0.1; done"
    with docker_as_root.start("--", "sh", "-c", f"trap '' INT TERM; {script}", stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)  # which somebody inside is to pass on
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 137
    with docker_as_root.start("--timeout", "3", "--", "sh", "-c", script) as running:
        assert running.wait(PATIENCE) == 124
