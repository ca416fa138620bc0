"""The real program, in a process of its own: exit codes, no tracebacks, colours on a terminal only."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from belljar import __version__

BELLJAR = str(Path(sys.executable).parent / "belljar")


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BELLJAR, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """Return what a command writes to a terminal."""
    script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    command = [sys.executable, "-c", script, BELLJAR, *arguments]
    environment = {**os.environ, "NO_COLOR": "", **variables}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
    )
    return done.stdout


def test_help():
    done = run("--help")
    assert done.returncode == 0
    assert "policy" in done.stdout


def test_version():
    assert run("--version").stdout == f"belljar {__version__}\n"


USAGE_ERRORS = [
    ("polcy",),
    ("policy", "chekc"),
    ("policy", "check"),
    ("policy", "presets", "pyton"),
    ("policy", "show", "x", "--formt", "yaml"),
    ("run",),
    ("run", "--mode", "open", "--", "true"),
    ("shell", "--tiemout", "5"),
    ("exec",),
    ("exec", "--timeout", "5x", "jar", "true"),
    ("proxy",),
    ("serve", "--port", "-1"),
    ("network", "allow", "jar"),
    ("token", "sohw"),
    ("completion", "tcsh"),
]


@pytest.mark.parametrize("arguments", USAGE_ERRORS, ids=" ".join)
def test_a_slip_gets_a_usage_error_without_a_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 125
    assert "Traceback" not in done.stderr
    assert "Error:" in done.stderr


def test_an_error_is_a_message_on_standard_error_and_exit_code_125(tmp_path):
    done = run("policy", "show", str(tmp_path / "no-such.yaml"))
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr.startswith("belljar: ")
    assert "does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "mode: block-all\negress:\n  allowed_domains:\n" + "".join(f"    - h{n}.example.org\n" for n in range(20_000))
    )
    done = subprocess.run(
        ["bash", "-c", '"$0" policy show "$1" | head -1', BELLJAR, str(policy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "mode: block-all\n"
    assert done.stderr == ""


def test_a_terminal_gets_colours(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: block-all")
    assert "\x1b[31mdeny" in on_a_terminal("policy", "explain", str(policy), "evil.example")


def test_no_color_is_heeded(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: block-all")
    shown = on_a_terminal("policy", "explain", str(policy), "evil.example", NO_COLOR="1")
    assert "deny" in shown
    assert "\x1b" not in shown


def test_an_interrupt_ends_without_a_traceback_and_is_not_taken_for_a_denial(tmp_path):
    fifo = tmp_path / "policy.yaml"
    os.mkfifo(fifo)
    command = [BELLJAR, "policy", "check", str(fifo)]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as belljar,
        fifo.open("w"),  # opens once the command is there to read
    ):
        belljar.send_signal(signal.SIGINT)
        _, said = belljar.communicate()
    assert belljar.returncode == 130
    assert said.strip() == ""


def test_a_closed_standard_input_is_named():
    done = subprocess.run(
        ["bash", "-c", '"$0" policy check - <&-', BELLJAR], capture_output=True, text=True, check=False
    )
    assert done.returncode == 125
    assert done.stderr == "standard input is closed; name a file\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_BELLJAR_COMPLETE" in done.stdout


def test_completion_knows_the_commands():
    environment = {
        **os.environ,
        "_BELLJAR_COMPLETE": "bash_complete",
        "COMP_WORDS": "belljar policy ",
        "COMP_CWORD": "2",
    }
    assert "explain" in run(env=environment).stdout
