"""`belljar run`, as root and as an ordinary user, in a universe of its own."""

import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from functools import partial
from pathlib import Path

import pytest

from belljar.testing.conformance import SIGNALS_OF_LIBC
from tests.backends.local.conftest import Cli
from tests.privileges import CAP_NET_RAW
from tests.universe import Contact, addresses


def status_of(cli: Cli, *words: str) -> tuple[int, str, str]:
    done = cli.run(*words)
    return done.returncode, done.stdout, done.stderr


def test_the_exit_code_and_the_streams_are_the_commands_own(own_cli):
    assert status_of(own_cli, "--", "sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")
    assert status_of(own_cli, "--", "sh", "-c", "kill -TERM $$")[0] == 128 + signal.SIGTERM
    assert status_of(own_cli, "--", "no-such-command")[0] == 127
    assert status_of(own_cli, "--", "/etc/hosts")[0] == 126


def test_an_allowed_name_is_reached_and_nothing_else(cli, universe):
    fetch = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 10"
    script = f"{fetch} http://plain.test/; {fetch} http://evil.test/; {fetch} http://{addresses.EVIL}/"
    done = cli.run("--allow", "plain.test", "--json", "--", "sh", "-c", script)
    assert done.stdout.split() == ["200", "000", "403"]
    assert {contact.address for contact in universe.wire.contacts() if contact.protocol == "tcp"} <= {
        addresses.PUBLIC,
        addresses.PUBLIC_V6,
    }
    assert Contact("tcp", addresses.EVIL, 80) not in universe.wire.contacts()
    summary = json.loads(done.stderr.splitlines()[-1])
    assert [item["destination"] for item in summary["reached"]] == ["plain.test:80"]
    denied = {item["destination"]: (item["reason"], item["allow_with"]) for item in summary["denied"]}
    assert denied["evil.test"] == ("not_allowed_domain", "--allow evil.test")
    assert denied[f"{addresses.EVIL}:80"] == ("not_allowed_address", f"--allow-cidr {addresses.EVIL}")


def test_whose_hard_limit_on_core_dumps_is_0_has_none_to_files(cli):
    """As it is on hardened machines, and for whatever sudo starts. Nobody but a real root can set another limit."""
    command = ["prlimit", "--core=0:0", *cli.command("run", "--", "grep", "^Max core", "/proc/self/limits")]
    options = {"cwd": cli.workdir, "env": cli.environment(), "capture_output": True, "text": True, "check": False}
    done = cli.universe.gateway.call(subprocess.run, command, **options)
    if Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "@")) and done.returncode != 0:
        assert "core dumps cannot be prevented: they go to a program here" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split()[4:6] in (["0", "0"], ["1", "1"])


def test_without_an_option_nothing_is_reached(own_cli, universe):
    done = own_cli.run("--", "curl", "-sS", "--max-time", "5", "http://plain.test/")
    assert done.returncode == 6
    assert not universe.wire.contacts()


def test_the_working_directory_is_writable_and_the_owner_stays(cli):
    before = cli.workdir.stat().st_uid
    assert cli.run("--", "sh", "-c", "mkdir d && echo x > d/f && cat d/f").stdout == "x\n"
    assert [path.stat().st_uid for path in (cli.workdir / "d", cli.workdir / "d/f")] == [before, before]


def test_nothing_of_the_hosts_secrets_is_there(cli):
    """Files that only root may read stay unread, whatever user the agent is inside."""
    secrets = ("/etc/shadow", "/root", "/home/somebody/.ssh", "/var/lib", "/sys", "/boot")
    script = "; ".join(f"(ls {path}/* || cat {path}) && echo {path}" for path in secrets)
    user, *found = cli.run("--", "sh", "-c", f"id -u; {script}").stdout.splitlines()
    assert user != "0"
    assert found == []
    assert cli.run("--", "sh", "-c", script.replace("/etc/shadow", "/etc/passwd")).stdout.endswith("/etc/passwd\n")


def test_the_system_is_read_only(cli):
    places = ("/usr", "/etc", "/", "/usr/bin/ls", "/proc/sys/kernel/core_pattern", "/run/belljar/policy.json")
    script = "; ".join(f"(echo x > {place}/x || echo x > {place}) 2>/dev/null && echo {place}" for place in places)
    assert not cli.run("--", "sh", "-c", script).stdout


def test_no_capability_no_new_privileges_a_filter(cli):
    status = cli.run("--", "grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status").stdout
    lines = dict(line.split(":\t") for line in status.splitlines())
    assert {lines[name] for name in lines if name.startswith("Cap")} == {"0" * 16}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")


def test_signals_are_as_in_any_program(own_cli):
    masks = own_cli.run("--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").stdout.split()[1::2]
    assert [int(mask, 16) & ~SIGNALS_OF_LIBC for mask in masks] == [0, 0]


def test_a_caller_may_ignore_the_end_of_its_children(own_cli):
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    running = own_cli.start("--", "sh", "-c", "exit 7", stderr=subprocess.PIPE, preexec_fn=ignore)
    assert running.communicate(timeout=60)[1] == ""
    assert running.returncode == 7


def test_python_may_have_capabilities(users_cli):
    """With them, the kernel gives a process's files in /proc to root."""
    python = shutil.copy(os.path.realpath(sys.executable), users_cli.workdir)
    os.setxattr(python, "security.capability", CAP_NET_RAW)
    words = [python if word == sys.executable else word for word in users_cli.command("run", "--", "echo", "started")]
    packages = f"{Path(__file__).parents[3] / 'src'}:{sysconfig.get_path('purelib')}"
    environment = users_cli.environment(PYTHONHOME=sys.base_prefix, PYTHONPATH=packages)
    done = subprocess.run(
        words, cwd=users_cli.workdir, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("started\n", "", 0)


def test_the_environment_is_clean_but_for_what_is_passed(own_cli):
    done = own_cli.run("--env", "KEPT", "--env", "SET=a=b", "--", "env", SECRET="s3cret", KEPT="kept")
    lines = set(done.stdout.splitlines())
    assert {"KEPT=kept", "SET=a=b", "BELLJAR=1"} <= lines
    assert "s3cret" not in done.stdout


def test_only_the_standard_streams_are_open(cli):
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    inside = cli.start("--", "sh", "-c", "ls /proc/self/fd", stdout=subprocess.PIPE, close_fds=False)
    os.close(reading)
    os.close(writing)
    assert inside.communicate(timeout=60)[0].split() == ["0", "1", "2", "3"]  # 3 is the directory that ls reads


def test_processes_of_the_host_are_not_seen(cli):
    assert cli.run("--", "sh", "-c", "ls -d /proc/[0-9]* | wc -l").stdout.strip() in ("2", "3", "4")


def test_the_agent_can_read_what_it_may_reach(own_cli):
    told = json.loads(own_cli.run("--allow", "plain.test", "--", "cat", "/run/belljar/policy.json").stdout)
    assert told["policy"]["egress"]["allowed_domains"] == ["plain.test"]
    assert "plain.test" in told["summary"]


def test_places_that_the_host_runs_code_from_are_read_only(users_cli):
    for place in (".git/hooks/pre-commit", ".git/config", ".git/HEAD", ".envrc", ".vscode/tasks.json"):
        path = users_cli.workdir / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
        for one in (path, *path.parents):
            if one.is_relative_to(users_cli.workdir):
                os.chown(one, users_cli.workdir.stat().st_uid, users_cli.workdir.stat().st_gid)
    attack = (
        "for f in .git/hooks/pre-commit .git/hooks/new .git/config .envrc .vscode/tasks.json; do echo x > $f; done;"
        "rm -rf .envrc .vscode; mv .git .moved; mv .vscode .moved2; mv .git/hooks .git/moved; echo control > .git/HEAD"
    )
    users_cli.run("--", "sh", "-c", attack)
    assert (users_cli.workdir / ".git/HEAD").read_text() == "control\n"
    for place in (".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/tasks.json"):
        assert (users_cli.workdir / place).read_text() == "before"
    assert not (users_cli.workdir / ".git/hooks/new").exists()
    users_cli.run("--allow-write", ".envrc", "--", "sh", "-c", "echo allowed > .envrc")
    assert (users_cli.workdir / ".envrc").read_text() == "allowed\n"


def test_host_ports_and_only_those(own_cli, universe):
    fetch = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 10"
    script = f"{fetch} http://host.belljar.internal/; {fetch} http://host.belljar.internal:22/"
    assert own_cli.run("--host-port", "80", "--", "sh", "-c", script).stdout.split()[0] == "200"
    assert {seen.port for seen in universe.gateway.seen} == {80}


MANY_CONNECTIONS = """
import resource, socket
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
ours = [socket.create_connection(("plain.test", 80), 10) for _ in range(90)]
for one in ours:
    one.sendall(b"GET / HTTP/1.1\\r\\nHost: plain.test\\r\\n\\r\\n")
print(sum(one.recv(12) == b"HTTP/1.1 200" for one in ours))
"""


def test_the_limit_on_descriptors_is_the_commands_and_not_that_of_its_connections(cli):
    limited = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (128, 4096))
    words = ("--allow", "plain.test", "--", "python3", "-c", MANY_CONNECTIONS)
    inside = cli.start(*words, stdout=subprocess.PIPE, preexec_fn=limited)
    assert inside.communicate(timeout=60)[0].split() == ["128", "90"]


def test_binds(cli):
    other = Path(f"{cli.workdir}-other")
    other.mkdir()
    (other / "file").write_text("there")
    os.chown(other, cli.workdir.stat().st_uid, cli.workdir.stat().st_gid)
    try:
        script = "cat /shown/file; touch /shown/new && echo writable"
        assert cli.run("--ro-bind", f"{other}:/shown", "--", "sh", "-c", script).stdout == "there"
        assert cli.run("--bind", f"{other}:/shown", "--", "sh", "-c", script).stdout == "therewritable\n"
    finally:
        for path in other.iterdir():
            path.unlink()
        other.rmdir()


def test_a_timeout_ends_everything(cli):
    done = cli.run("--timeout", "0.3s", "--", "sleep", "1000")
    assert (done.returncode, done.stdout) == (124, "")
    assert done.stderr == "belljar: everything was ended after 0.3 s; --timeout gives it more\n"
    assert cli.run("--timeout", "2m", "--", "sh", "-c", "exit 124").stderr == ""


def test_a_signal_reaches_the_command(cli):
    running = cli.start(
        "--",
        "sh",
        "-c",
        "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done",
        stdout=subprocess.PIPE,
    )
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGTERM)
    assert running.communicate(timeout=60)[0] == "caught\n"
    assert running.returncode == 9


def test_killing_belljar_kills_everything_inside(cli):
    """The command holds a pipe: it has ended when we read the end of it."""
    running = cli.start("--", "sh", "-c", "echo ready; sleep 1000 & sleep 1000", stdout=subprocess.PIPE)
    assert running.stdout.readline() == "ready\n"
    running.kill()
    assert running.communicate(timeout=60)[0] == ""


def test_a_terminal_of_its_own(cli):
    ours, theirs = pty.openpty()
    script = "test -t 0 && test -t 1 && echo terminal; read line; echo got $line; stty size"
    running = cli.start("--", "sh", "-c", script, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    output = b""
    while b"terminal" not in output:
        output += os.read(ours, 4096)
    os.write(ours, b"hello\r")
    while True:
        try:
            output += os.read(ours, 4096)
        except OSError:
            break
    assert running.wait(60) == 0
    assert b"got hello" in output
    os.close(ours)


def assert_refused(cli: Cli, words: tuple[str, ...], culprit: str) -> None:
    code, output, errors = status_of(cli, *words)
    assert (code, output) == (125, "")
    assert culprit in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (("--allow", "*.com", "--", "true"), '--allow: "*.com"'),
        (("--allow", "10.0.0.1", "--", "true"), "write it with --allow-cidr"),
        (("--allow", "*", "--", "true"), "write --enable-internet"),
        (("--deny", "*", "--", "true"), "write --disable-internet"),
        (("--allow-cidr", "10.0.0.1/8", "--", "true"), "--allow-cidr"),
        (("--allow-port", "0", "--", "true"), "--allow-port"),
        (("--preset", "pyton", "--", "true"), "--preset"),
        (("--env", "NOT_THERE", "--", "true"), "NOT_THERE"),
        (("--mode", "block-all", "--enable-internet", "--", "true"), "--enable-internet"),
        (("--resolver", "nonsense", "--", "true"), "--resolver"),
    ],
)
def test_bad_options_name_the_culprit_and_start_nothing(own_cli, words, culprit):
    assert_refused(own_cli, words, culprit)


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        (("--audit", "/nonexistent/log", "--", "true"), "--audit: /nonexistent/log cannot be written to"),
        (("--policy", "missing.yaml", "--", "true"), "missing.yaml"),
        (("--ro-bind", "/nonexistent", "--", "true"), "/nonexistent"),
        (("--workdir", "/usr", "--", "true"), "/usr"),
    ],
)
def test_bad_paths_name_the_culprit_and_start_nothing(own_cli, words, culprit):
    assert_refused(own_cli, words, culprit)


def test_learning(own_cli):
    done = own_cli.run("--learn", "--", "curl", "-sS", "-o", "/dev/null", "http://plain.test/")
    assert done.returncode == 0
    assert "plain.test" in done.stderr
    assert "mode: block-all" in done.stderr
    told = json.loads(own_cli.run("--learn", "--json", "--", "true").stderr)
    assert told["learned"] == "# what this run reached\nmode: block-all\n"


def test_a_summary_that_is_asked_for_is_never_empty(own_cli):
    done = own_cli.run("--summary", "--", "true")
    assert (done.returncode, done.stderr) == (0, "belljar: nothing was reached, and nothing was denied\n")


def test_a_name_that_does_not_resolve_is_summed_up(own_cli):
    words = ("--allow", "nowhere.test", "--", "curl", "-sS", "http://nowhere.test/", "http://nowhere.test/")
    done = own_cli.run("--summary", *words)
    line = "belljar: allowed, and not reached\n  ✗ nowhere.test:80 (2 times): nowhere.test does not exist\n"
    assert line in done.stderr
    assert json.loads(own_cli.run("--json", *words).stderr.splitlines()[-1])["failed"] == [
        {"destination": "nowhere.test:80", "error": "nowhere.test does not exist", "times": 2}
    ]


def test_a_named_service(own_cli, universe):
    fetch = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 10"
    script = f"{fetch} http://web.belljar.internal/; {fetch} http://db.belljar.internal/"
    (own_cli.workdir / "p.yaml").write_text("mode: block-all\nservices: {web: {port: 80}, db: {port: 5432}}\n")
    done = own_cli.run("--policy", "p.yaml", "--json", "--", "sh", "-c", script)
    assert done.stdout.split() == ["200", "403"]
    assert [seen.what for seen in universe.gateway.witness.of_kind("request")] == ["GET web.belljar.internal /"]
    summary = json.loads(done.stderr.splitlines()[-1])
    assert [item["destination"] for item in summary["reached"]] == ["web.belljar.internal:80"]
    assert [(item["reason"], item["allow_with"]) for item in summary["denied"]] == [("service_not_allowed", None)]
    assert summary["denied"][0]["sentence"].endswith(
        "no service of this sandbox: db is at db.belljar.internal:5432 over TCP."
    )


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("rnu", "--", "true"), "do you mean run?"),
        (("shell", "ls", "-l"), "write: belljar run -- ls -l"),
        (("run", "--", ""), "the command's first word is empty"),
        (("run", "--timeout", "5x", "--", "true"), "10m, 2h, 1d"),
    ],
)
def test_what_a_tired_person_types(words, remedy):
    done = subprocess.run([sys.executable, "-m", "belljar", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert remedy in done.stderr


def groups() -> set[str]:
    """Return the names of sandboxes' control groups; those that vanish meanwhile are no error for `os.walk`."""
    return {name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.startswith("belljar-")}


def test_memory_is_limited(cli):
    """By a control group, or by what each process can allocate: the command cannot have it either way."""
    allocate = ("sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1")
    assert cli.run("--", *allocate).returncode == 0
    assert cli.run("--mem-limit", "64m", "--", *allocate).returncode != 0
    assert cli.run("--mem-limit", "5", "--", "true").returncode == 125


def test_a_limit_on_processors_holds_or_is_refused(cli):
    done = cli.run("--cpu-limit", "0.5", "--", "echo", "ran")
    if (done.returncode, done.stdout) != (0, "ran\n"):
        assert done.returncode == 125
        assert "--cpu-limit" in done.stderr


def test_control_groups_vanish_even_if_belljar_is_killed(cli):
    running = cli.start("--mem-limit", "256m", "--", "sh", "-c", "echo ready; sleep 1000", stdout=subprocess.PIPE)
    assert running.stdout.readline() == "ready\n"
    its_own = {group for group in groups() if str(running.pid) in group.split("-")}
    running.kill()
    running.communicate(timeout=60)
    given_up = time.monotonic() + 60
    while groups() & its_own:
        assert time.monotonic() < given_up, "a control group is left"
        time.sleep(0.01)


def test_the_process_that_holds_the_doors_keeps_its_memory_to_itself(cli):
    """What belongs to root in /proc is closed to other processes of the same user: no debugger, no look at memory."""
    running = cli.start("--", "sh", "-c", "echo ready; read end", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdout.readline() == "ready\n"
    owner = Path(f"/proc/{running.pid}/environ").stat().st_uid
    running.communicate("\n", timeout=60)
    assert owner == 0
