"""`belljar run` at a terminal: pipelines, job control, hanging up. As a user sees it, in a window with a shell."""

import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.backends.local.conftest import Cli, make_cli
from tests.windows import CTRL_C, CTRL_Z, PATIENCE, PROMPT, Window

TUI = """
import os, signal, sys, termios, tty
def say(text): os.write(1, (text + "\\r\\n").encode())
saved = termios.tcgetattr(0)
tty.setraw(0)
say("it is up")
while (key := os.read(0, 1)) != b"q":
    if key == b"\\x1a":
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
        os.kill(0 if sys.argv[1] == "SIGTSTP" else os.getpid(), getattr(signal, sys.argv[1]))
        tty.setraw(0)
        say("it is back")
    else:
        say(f"key {key[0]}")
termios.tcsetattr(0, termios.TCSADRAIN, saved)
sys.exit(7)
"""
"""Reads single keys, and stops itself when it is told to: alone, or with its process group."""

COOKED = "stty -a | grep -owE -- '-?(icanon|opost|echo|isig)' | sort | xargs echo modes"
AS_IT_WAS = "modes echo icanon isig opost"


@pytest.fixture(params=["user", pytest.param("root", marks=pytest.mark.long)])
def cli(request, universe):
    """The command line, as both; little here depends on that."""
    yield from make_cli(request.param, universe)


@pytest.fixture
def belljar(cli):
    """A program that is `belljar run --quiet`, so that a shell has one word for it."""
    program = Path(f"{cli.workdir}-belljar")
    program.write_text(f'#!/bin/sh\nexec {shlex.join(cli.command("run", "--quiet"))} "$@"\n')
    program.chmod(0o755)
    yield str(program)
    program.unlink()


@contextmanager
def window(cli: Cli, *program: str) -> Iterator[Window]:
    options = {"program": program} if program else {}
    with Window(cli.universe.gateway.call, cli.workdir, cli.environment(), **options) as opened:
        yield opened


@contextmanager
def lifeline(cli: Cli, name: str = "lifeline") -> Iterator[int]:
    """Something that ends when the last process inside does: what it holds as descriptor 5."""
    path = cli.workdir / name
    os.mkfifo(path)
    os.chown(path, cli.workdir.stat().st_uid, cli.workdir.stat().st_gid)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    yield reading
    os.close(reading)
    path.unlink()


def read_when_there(descriptor: int) -> bytes:
    """Read from a pipe that perhaps nobody has opened for writing yet."""
    assert select.select([descriptor], [], [], PATIENCE)[0]
    return os.read(descriptor, 100)


REPORT = "sh -c 'exec 3>report; for n in 0 1 2; do test -t $n && printf y >&3 || printf n >&3; done; seq 3; seq 3 >&2'"


@pytest.mark.parametrize("stdin", ["y", "n"])
def test_every_combination_of_terminals_and_pipes(cli, belljar, stdin):
    """Each stream is what it was, and lines begin at the left, whoever shows them."""
    ends = {"yy": "", "ny": "| cat", "yn": "2>err", "nn": "2>&1 | cat"}
    with window(cli) as user:
        for outputs, pipes in ends.items():
            line = f"{'</dev/null ' if stdin == 'n' else ''}{belljar} -- {REPORT} {pipes}"
            shown = user.finish(line)
            assert (cli.workdir / "report").read_text() == stdin + outputs, line
            times = 1 if outputs == "yn" else 2
            assert sorted(shown.split("\r\n")) == sorted(["1", "2", "3"] * times + [""]), (line, shown)
        assert AS_IT_WAS in user.finish(COOKED)


def test_in_a_pipeline_keys_are_for_whoever_reads_them(cli, belljar):
    with window(cli) as user:
        user.run(f"{belljar} -- seq 3000 | LESS= less")
        user.expect(":")
        user.type("G")
        user.expect("3000")
        user.type("q")
        user.expect(PROMPT)
        user.run(f"seq 3000 | {belljar} --env LESS= -- less")
        user.expect(":")
        user.type("G")
        user.expect("3000")
        user.type("q")
        user.expect(PROMPT)
        read = 'read line; echo "got $line"'
        user.run(f"{belljar} -- sh -c 'echo it is up; {read}; {read}' | cat")
        user.expect("it is up\r\n")
        user.type("one\r")
        user.expect("got one\r\n")
        user.type("two\r")
        user.expect("got two\r\n")
        user.expect(PROMPT)
        poll = "import select; select.select([0], [], []); print(chr(103) + 'ot', input())"
        user.run(f"""{belljar} -- python3 -c "print('it is ' + 'up', flush=True); {poll}" | cat""")
        user.expect("it is up\r\n")
        user.type("three\r")
        user.expect("got three\r\n")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(COOKED)


ASKS = """python3 -c "import getpass; print('read', len(getpass.getpass('Pass' + 'word: ')))\""""


@pytest.mark.parametrize("suspended", [False, True])
def test_who_reads_keys_in_a_pipeline_waits_while_a_password_is_asked_for(cli, belljar, suspended):
    """If all were stopped instead, the shell would be back, and show what is typed."""
    reads = "while ! test -e asked; do sleep 0.05; done; touch tries; read line </dev/tty; echo got $line >&2"
    with window(cli) as user:
        become = shlex.join(cli.command()[:-3])  # the same user, whom Belljar could stop
        user.run(f"{belljar} -- sh -c '{reads}' | {become} {ASKS}")
        user.expect("Password: ")
        (cli.workdir / "asked").touch()
        given_up = time.monotonic() + PATIENCE
        while not (cli.workdir / "tries").exists():
            assert time.monotonic() < given_up
        time.sleep(1)  # many looks at a command that is stopped
        if suspended:
            user.type(CTRL_Z)
            user.expect("Stopped")
            user.expect(PROMPT)
            user.run("fg")
            time.sleep(1)
        user.type("secret\r")
        assert "secret" not in user.expect("read 6\r\n")
        user.type("hello\r")
        user.expect("got hello\r\n")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(COOKED)


def test_suspend_and_resume(cli, belljar):
    with window(cli) as user:
        user.run(f"""{belljar} -- sh -c 'echo it is up; read line; echo "got $line"; exit 7'""")
        user.expect("it is up\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(COOKED)
        user.run("fg")
        user.type("hello\r")
        user.expect("got hello\r\n")
        user.expect(PROMPT)
        assert "code 7" in user.finish("echo code $?")


@pytest.mark.parametrize("how", ["SIGTSTP", "SIGSTOP"])
def test_a_program_that_reads_keys_suspends_itself(cli, belljar, how):
    (cli.workdir / "tui").write_text(TUI)
    with window(cli) as user:
        user.run(f"{belljar} -- python3 tui {how}")
        user.expect("it is up\r\n")
        user.type(CTRL_C * 3)
        for _ in range(3):
            user.expect("key 3\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(COOKED)
        user.resize(50, 100)
        user.run("fg")
        user.expect("it is back\r\n")
        user.type("x")
        user.expect("key 120\r\n")
        user.type("q")
        user.expect(PROMPT)
        assert "code 7" in user.finish("echo code $?")


STOPS_NOBODY_INSIDE = """
import os, signal, sys, time
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(0.01)
print("it is " + "up", flush=True)
os.kill(0, signal.SIGTSTP)
while not os.path.exists("go"):
    time.sleep(0.01)
print("it is " + "back", flush=True)
while True:
    time.sleep(0.01)
"""


def states_of(marker: str) -> list[str]:
    """Return the states of the processes that have a word among their arguments, as Linux tells them."""
    states = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[:2] == [b"python3", b"stops"] and marker.encode() in words:
                states.append((process / "stat").read_text().rpartition(")")[2].split()[0])
    return states


def test_nothing_inside_runs_while_belljar_is_stopped(cli, belljar):
    """A command that stops its process group, but not itself, would outlive its time."""
    (cli.workdir / "stops").write_text(STOPS_NOBODY_INSIDE)
    marker = f"marker-{os.getpid()}-{cli.workdir.name}"
    with window(cli) as user:
        user.run(f"{belljar} --timeout 2 -- python3 stops {marker}")
        user.expect("it is up\r\n")
        user.expect("Stopped")
        user.expect(PROMPT)
        given_up = time.monotonic() + PATIENCE
        while states_of(marker) != ["T", "T"]:
            assert time.monotonic() < given_up, states_of(marker)
        user.run("fg; echo code $?")
        user.expect("code 124")
        user.expect(PROMPT)
        assert not states_of(marker)
        user.run(f"{belljar} -- python3 stops {marker}")
        user.expect("Stopped")
        user.expect(PROMPT)
        (cli.workdir / "go").touch()
        user.run("fg")
        user.expect("it is back\r\n")
        user.type(CTRL_C)
        user.expect(PROMPT)


def test_background_and_foreground(cli, belljar):
    work = "while ! test -e go; do sleep 0.05; done; echo it went on; read line; echo got $line"
    with window(cli) as user:
        user.run(f"{belljar} -- sh -c 'echo it is up; {work}'")
        user.expect("it is up\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect(PROMPT)
        user.finish("bg")
        user.run("touch go")
        user.expect("it went on\r\n")  # and it reads in the background, for which it is stopped again
        user.finish_until("jobs", "Stopped")
        user.run("fg")
        user.type("hello\r")
        user.expect("got hello\r\n")
        user.expect(PROMPT)


def test_a_job_in_the_background_from_the_start(cli, belljar):
    with window(cli) as user:
        user.run(f"{belljar} -- sh -c 'seq 3; echo it is done' & wait $!; echo code $?")
        assert "1\r\n2\r\n3\r\n" in user.expect("it is done\r\n")
        user.expect("code 0")
        user.expect(PROMPT)
        user.run(f"{belljar} -- sh -c 'echo it reads; read line; echo got $line' &")
        user.expect("it reads")
        user.finish_until("jobs", "Stopped")
        user.run("fg")
        user.type("hello\r")
        user.expect("got hello\r\n")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(COOKED)


def test_a_shell_inside_has_jobs_of_its_own_and_can_be_suspended(cli, belljar):
    with window(cli) as user:
        user.run(f"{belljar} --env PS1='inside> ' -- bash --norc --noprofile -i")
        user.expect("inside> ")
        user.run("sh -c 'echo it is; exec sleep 1000'")
        user.expect("it is\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect("inside> ")
        user.run("sh -c 'trap \"echo got it\" INT; echo it is up; while ! test -e go; do sleep 0.05; done'")
        user.expect("it is up")
        user.type(CTRL_C * 3)  # the shell's job is the shell's to end
        user.expect("got it\r\n")  # before the job ends, which they were for
        (cli.workdir / "go").touch()
        user.expect("inside> ")
        user.type("suspend\r")
        user.expect("Stopped")
        user.expect(PROMPT)
        user.finish("bg")
        user.run("fg")
        user.type("echo $((6 * 7))\r")
        user.expect("\r\n42\r\n")
        user.type("exit\rexit\r")
        user.expect(PROMPT)


def test_where_nobody_would_continue_it_a_command_goes_on(cli):
    """There is no shell: whatever stops the command, the terminal answers."""
    script = "kill -STOP $$; echo it goes on; sleep 1000 & read line; echo got $line"
    with window(cli, *cli.command("run", "--quiet", "--", "sh", "-c", script)) as user:
        user.expect("it goes on\r\n")
        user.type(CTRL_Z)
        user.type("hello\r")
        user.expect("got hello\r\n")
        assert user.process.wait(PATIENCE) == 0


def test_who_types_ctrl_c_three_times_ends_what_ignores_it(cli, belljar):
    script = "trap '' INT; echo it is up; while :; do sleep 1000; done"
    with window(cli) as user:
        user.run(f'{belljar} -- sh -c "{script}"')
        user.expect("it is up\r\n")
        user.type(CTRL_C)
        user.type(CTRL_C)
        user.type(CTRL_C)
        user.expect("Ctrl-C was typed three times")
        user.expect(PROMPT)
        assert "code 137" in user.finish("echo code $?")
        assert AS_IT_WAS in user.finish(COOKED)
        script = "trap 'echo it goes on >&2' INT; echo it is up; while :; do sleep 0.05; done"
        user.run(f'{belljar} -- sh -c "{script}" | cat')  # here, the user's terminal makes signals of it
        user.expect("it is up\r\n")
        user.type(CTRL_C)
        user.expect("it goes on\r\n")
        user.type(CTRL_C)
        user.expect(PROMPT)


LEAVES = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTTOU):
    signal.signal(number, signal.SIG_IGN)
told, tell = os.pipe()
if (child := os.fork()) == 0:
    os.read(told, 1)
    os.kill(0 if sys.argv[1] == "kills" else os.getpid(), signal.SIGKILL)
os.setpgid(0, 0)
os.tcsetpgrp(0, os.getpgrp())
os.write(tell, b"x")
os.waitpid(child, 0)
time.sleep(0.5)
print("it is " + "up", flush=True)
while True:
    time.sleep(0.01)
"""
"""Has a process group of its own, and kills the one that it was in, or not."""


@pytest.mark.parametrize("how", ["leaves", "kills"])
def test_who_kills_its_old_process_group_is_stopped_and_ended_by_keys_all_the_same(cli, belljar, how):
    (cli.workdir / "leaves").write_text(LEAVES)
    with window(cli) as user:
        user.run(f"{belljar} -- python3 leaves {how}")
        user.expect("it is up\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect(PROMPT)
        user.run("fg")
        time.sleep(0.5)
        user.type(CTRL_C * 3)
        user.expect("Ctrl-C was typed three times")
        user.expect(PROMPT)
        assert "code 137" in user.finish("echo code $?")
        assert AS_IT_WAS in user.finish(COOKED)


def test_ctrl_c_ends_a_command_whose_session_has_lost_its_leader(cli, belljar):
    """The kernel can want its memory, say. Then no process group has the terminal."""
    marker = f"marker-{os.getpid()}-{cli.workdir.name}"
    with window(cli) as user:
        user.run(f"{belljar} -- sh -c 'trap \"\" HUP; echo it is up; while :; do sleep 0.05; done' {marker}")
        user.expect("it is up\r\n")
        [leader] = leaders_of(marker)
        os.kill(leader, signal.SIGKILL)
        time.sleep(0.5)
        user.type(CTRL_C * 3)
        user.expect("Ctrl-C was typed three times")
        user.expect(PROMPT)
        assert "code 137" in user.finish("echo code $?")
        assert AS_IT_WAS in user.finish(COOKED)


def leaders_of(marker: str) -> list[int]:
    """Return the processes that lead a session with a terminal, and have a word among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, _, _, session, terminal, *_ = (process / "stat").read_text().rpartition(")")[2].split()
            words = (process / "cmdline").read_bytes().split(b"\0")
            if marker.encode() in words and session == process.name and terminal != "0":
                found.append(int(process.name))
    return found


def test_closing_a_window_ends_everything(cli, belljar):
    """All at once, since each takes the seconds that a command has until it is killed."""
    hows = {"joined": "{}", "in-a-pipeline": "{} | cat", "in-the-background": "{} &", "alone": ""}
    with ExitStack() as stack:
        lives, users = {}, []
        for how, line in hows.items():
            script = f"trap '' HUP; exec 5>{how}; echo held >&5; sleep 1000; sleep 1000"
            lives[how] = stack.enter_context(lifeline(cli, how))
            alone = () if line else cli.command("run", "--quiet", "--", "sh", "-c", script)
            user = stack.enter_context(window(cli, *alone))
            if line:
                user.run(line.format(f'{belljar} -- sh -c "{script}"'))
            users.append(user)
        assert {how: read_when_there(life) for how, life in lives.items()} == dict.fromkeys(hows, b"held\n")
        for user in users:
            user.hang_up()
        assert {how: os.read(life, 100) for how, life in lives.items()} == dict.fromkeys(hows, b"")


def test_without_hanging_up_a_hang_up_is_a_signal_like_any_other(cli):
    script = "trap 'echo caught; exit 9' HUP; echo ready; while :; do sleep 0.05; done"
    running = cli.start("--", "sh", "-c", script, stdout=subprocess.PIPE, start_new_session=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(1)
    assert running.communicate(timeout=PATIENCE)[0] == "caught\n"
    assert running.returncode == 9


def test_a_window_changes_its_size(cli, belljar):
    with window(cli) as user:
        user.run(f"{belljar} -- sh -c 'trap \"stty size\" WINCH; stty size; while :; do sleep 0.05; done'")
        user.expect("24 80\r\n")
        user.resize(44, 111)
        user.expect("44 111\r\n")
        user.type(CTRL_C)
        user.expect(PROMPT)


def test_what_has_no_terminal_is_stopped_with_us(cli, belljar):
    with window(cli) as user:
        script = "trap 'echo it is back' CONT; echo it is up; while :; do sleep 0.05; done"
        user.run(f'{belljar} -- sh -c "{script}" </dev/null 2>&1 | cat')
        user.expect("it is up\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect(PROMPT)
        user.run("fg")
        user.expect("it is back\r\n")
        user.type(CTRL_C)
        user.expect(PROMPT)


def test_tmux(cli, belljar):
    """The terminal of a program that many have around everything."""
    name = cli.workdir.name
    tmux = ("tmux", "-L", name, "-f", "/dev/null")

    def control(*words: str) -> str:
        done = cli.universe.gateway.call(
            subprocess.run, [*tmux, *words], env=cli.environment(), cwd=cli.workdir, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def expect(text: str) -> None:
        given_up = time.monotonic() + PATIENCE
        while text not in (shown := control("capture-pane", "-p", "-t", "work")):
            assert time.monotonic() < given_up, shown

    (cli.workdir / "tui").write_text(TUI)
    script = "trap '' HUP; exec 5>lifeline; echo held >&5; exec python3 tui SIGTSTP"
    with lifeline(cli) as life:
        control("new-session", "-d", "-x", "90", "-y", "30", "-s", "work", "env PS1='ready> ' bash --norc --noprofile")
        try:
            expect("ready>")
            control("send-keys", "-t", "work", f'{belljar} -- sh -c "{script}"', "Enter")
            expect("it is up")
            control("send-keys", "-t", "work", "C-z")
            expect("Stopped")
            control("send-keys", "-t", "work", "fg", "Enter")
            expect("it is back")
            control("send-keys", "-t", "work", "x")
            expect("key 120")
            assert read_when_there(life) == b"held\n"
        finally:
            control("kill-server")
        assert os.read(life, 100) == b""


def test_a_command_of_many_words(cli):
    words = list(map(str, range(20_000)))
    assert cli.run("--", "echo", *words).stdout.split() == words
    odd = ["a'b", "", "$x *", "\\", "-n", "=", "\x01\x7f", "\udc81\udcff"]
    done = cli.run("--", "python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *odd)
    assert done.stdout == f"{odd!a}\n"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("nosuch", 127, "belljar: nosuch: command not found\nNothing of that name is on your PATH"),
        ("cd", 127, "belljar: cd: command not found\nIt is a word of the shell's"),
        ("A=1", 127, "belljar: A=1: command not found\nVariables are set by an option, before --: --env A=1\n"),
        ("./nosuch", 127, "belljar: ./nosuch: there is no such file inside\n"),
        ("/etc", 126, "belljar: /etc: that is a directory"),
        ("./plain", 126, "belljar: ./plain: not executable; if it is a program: chmod +x ./plain\n"),
        ("./script", 127, "belljar: ./script cannot be started"),
    ],
)
def test_what_is_wrong_with_a_command_is_said_in_our_words(cli, command, code, said):
    (cli.workdir / "plain").touch()
    (cli.workdir / "script").write_text("#!/nowhere/interpreter\n")
    (cli.workdir / "script").chmod(0o755)
    done = cli.run("--quiet", "--", command)
    assert done.returncode == code
    assert said in done.stderr


def test_a_program_on_the_path_that_is_not_shown_is_told_with_what_shows_it(cli):
    home = Path(f"{cli.workdir}-home")
    for place in ("conda/bin", "bin", "elsewhere", ".opencode/bin", ".ssh"):
        (home / place).mkdir(parents=True)
    for program in ("conda/bin/tool", "elsewhere/linked", ".opencode/bin/shown"):
        (home / program).write_text("#!/bin/sh\necho it runs\n")
        (home / program).chmod(0o755)
    (home / "bin/linked").symlink_to(home / "elsewhere/linked")
    (home / ".ssh/key").write_text("secret")
    path = f"{cli.environment()['PATH']}:{home}/conda/bin:{home}/bin:{home}/.opencode/bin"
    variables = {"HOME": str(home), "PATH": path}
    try:
        assert cli.run("--", "shown", **variables).stdout == "it runs\n"
        for name, flags in (
            ("tool", f"--ro-bind {home}/conda"),
            ("linked", f"--ro-bind {home}/bin --ro-bind {home}/elsewhere"),
        ):
            done = cli.run("--quiet", "--", name, **variables)
            assert done.returncode == 127
            assert done.stderr.startswith(f"belljar: {name}: command not found\n")
            assert done.stderr.endswith(f": {flags}\n")
            script = f"{name}; ls {home}/.ssh"
            done = cli.run("--quiet", *flags.split(), "--", "sh", "-c", script, **variables)
            assert done.stdout == "it runs\n"
    finally:
        shutil.rmtree(home)


TYPE = """
import fcntl, os, termios
for terminal in (0, os.open("/dev/tty", os.O_RDWR)):
    for key in b"touch typed\\r":
        try:
            fcntl.ioctl(terminal, termios.TIOCSTI, bytes([key]))
        except OSError as error:
            os.write(1, f"refused {error.errno}\\n".encode())
            break
"""


def test_nothing_inside_types_into_the_users_terminal(cli, belljar):
    (cli.workdir / "type").write_text(TYPE)
    with window(cli) as user:
        user.run(f"{belljar} -- python3 type")
        user.expect("refused 1\r\nrefused 1\r\n")
        user.expect(PROMPT)
        user.finish("touch control")
        assert (cli.workdir / "control").exists()
        assert not (cli.workdir / "typed").exists()


@pytest.mark.parametrize("victims", ["0", "-1", "1"])
def test_who_kills_all_it_can_at_a_terminal_ends_itself_alone(cli, belljar, victims):
    """Who leads its session is out of reach, and out of sight."""
    script = f"import glob, os; print(len(glob.glob('/proc/[0-9]*')), 'seen', flush=True); os.kill({victims}, 9)"
    with window(cli) as user:
        user.run(f'{belljar} -- python3 -c "{script}"')
        assert int(user.expect(" seen").strip()) <= 2
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(COOKED)


def test_killing_belljar_at_a_terminal_kills_everything_inside(cli):
    words = cli.command("run", "--quiet", "--", "sh", "-c", "exec 5>lifeline; echo held >&5; sleep 1000 & sleep 1000")
    with lifeline(cli) as life, window(cli, *words) as user:
        assert read_when_there(life) == b"held\n"
        user.process.kill()
        assert os.read(life, 100) == b""
