"""`belljar run` in a container, at a terminal: job control, pipelines and hanging up, as a user sees it."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.backends.containers.conftest import Cli, until
from tests.windows import CTRL_C, CTRL_Z, PATIENCE, PROMPT, Window

pytestmark = pytest.mark.long

MODES = "stty -a | grep -owE -- '-?(icanon|opost|echo|isig)' | sort | xargs echo modes"
AS_IT_WAS = "modes echo icanon isig opost"


@contextmanager
def window(cli: Cli, *program: str) -> Iterator[Window]:
    options = {"program": program} if program else {}
    with Window(cli.universe.gateway.call, cli.workdir, cli.environment(), **options) as opened:
        yield opened


def run(cli: Cli, script: str) -> str:
    return shlex.join(cli.words("--quiet", "--", "sh", "-c", script))


@pytest.mark.parametrize("cli", ["docker_as_user", "rootless_podman"], indirect=True)
def test_suspend_resume_and_background(cli):
    work = "while ! test -e go; do sleep 0.05; done; echo it went' 'on; read line; echo got $line; exit 7"
    with window(cli) as user:
        user.run(run(cli, f"echo it is' 'up; {work}"))
        user.expect("it is up\r\n")
        user.type(CTRL_Z)
        user.expect("Stopped")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(MODES)
        user.finish("bg")
        (cli.workdir / "go").touch()
        user.expect("it went on\r\n")
        user.run("fg")
        user.type("hello\r")
        user.expect("got hello\r\n")
        user.expect(PROMPT)
        assert "code 7" in user.finish("echo code $?")


def test_pipelines_and_the_background(docker_as_root):
    cli = docker_as_root
    with window(cli) as user:
        shown = "\r\n" + user.finish(f"{run(cli, 'seq 3')} | cat")
        assert shown.endswith("\r\n1\r\n2\r\n3\r\n")
        user.run(f"{run(cli, 'seq 3; cat; seq 3')} | cat")
        user.expect("1\r\n2\r\n3\r\n")
        user.type("hello\r\x04")
        user.expect("hello\r\nhello\r\n1\r\n2\r\n3\r\n")
        user.expect(PROMPT)
        user.run(f"{run(cli, 'echo it is done')} & wait $!; echo code $?")
        user.expect("it is done\r\n")
        user.expect("code 0")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(MODES)


def test_where_nobody_would_continue_it_a_command_goes_on(docker_as_root):
    script = "kill -STOP $$; echo it goes on; read line; echo got $line"
    words = docker_as_root.words("--quiet", "--", "sh", "-c", script)
    with window(docker_as_root, *words) as user:
        user.expect("it goes on\r\n")
        user.type(CTRL_Z)
        user.type("hello\r")
        user.expect("got hello\r\n")
        assert user.process.wait(PATIENCE) == 0


def test_a_command_that_was_not_continued_is_continued_again(docker_as_root):
    """Its parent is stopped once more each time that it is continued, for as long as the loop lasts."""
    loop = (
        'until read -r name </proc/$PPID/comm && test "$name" != belljar; do :; done; '
        "i=0; while test $i -lt 1000000; do kill -STOP $PPID; i=$((i + 1)); done"
    )
    words = docker_as_root.words("--quiet", "--", "sh", "-c", f"({loop}) & kill -STOP $$; echo it goes on")
    with window(docker_as_root, *words) as user:
        user.expect("it goes on\r\n")
        assert user.process.wait(PATIENCE) == 0


def test_who_types_ctrl_c_three_times_ends_what_ignores_it_and_reads_no_keys(docker_as_user):
    with window(docker_as_user) as user:
        keys = "stty raw -echo; echo it is' 'up; head -c 3 | od -An -tx1; stty sane; trap '' INT; echo it goes' 'on"
        user.run(run(docker_as_user, f"{keys}; while :; do sleep 1000; done"))
        user.expect("it is up")
        user.type(CTRL_C * 3)
        user.expect("03 03 03")
        user.expect("it goes on")
        for _ in range(3):
            user.type(CTRL_C)
        user.expect("Ctrl-C was typed three times")
        user.expect(PROMPT)
        assert AS_IT_WAS in user.finish(MODES)


def test_closing_the_window_ends_everything(docker_as_root):
    """That nothing is left of it is what every test of runs waits for."""
    with window(docker_as_root) as user:
        user.run(run(docker_as_root, "trap '' HUP; echo it is' 'up; while :; do sleep 1000; done"))
        user.expect("it is up")
        user.hang_up()
        until(lambda: not docker_as_root.left())


def test_hanging_up_waits_for_nobody(docker_as_root):
    """Engines read these files before they run anything inside, and wait for whoever writes to them."""
    no_end = "trap '' HUP; echo it is' 'up; while :; do sleep 1000; done"
    with window(docker_as_root) as user:
        user.run(run(docker_as_root, f"cd /etc; rm -f passwd group; mkfifo passwd group; {no_end}"))
        user.expect("it is up")
        user.hang_up()
        until(lambda: not docker_as_root.left())


def test_what_is_wrong_with_a_command_is_said_in_our_words(docker_as_root):
    done = docker_as_root.run("--quiet", "--", "nosuch")
    assert (done.returncode, done.stderr) == (127, "belljar: nosuch: command not found\n")
    done = docker_as_root.run("--quiet", "--", "/etc")
    assert (done.returncode, done.stderr) == (126, "belljar: /etc: that is a directory, and no program\n")
    words = [str(number) for number in range(20_000)]
    assert docker_as_root.run("--", "echo", *words).stdout.split() == words
