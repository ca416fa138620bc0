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
    ("policy", "presets", "python", "node"),
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


def test_an_answer_that_cannot_be_written_is_not_taken_for_no(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: block-all")
    destinations = " ".join(f"h{n}.example.org" for n in range(2_000))
    script = f'"$0" policy explain "$1" {destinations} | head -1 >/dev/null; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script, BELLJAR, str(policy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


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


def test_what_does_not_fit_in_a_terminal_is_below_its_row(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: block-all")
    shown = on_a_terminal("policy", "explain", str(policy), "evil.example", NO_COLOR="1", COLUMNS="44")
    assert shown.splitlines() == [
        "ACTION  DESTINATION   REASON",
        "deny    evil.example  not_allowed_domain",
        "    mode (line 1)",
        "    evil.example:443 is not among the allowed domains.",
    ]


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


def completed(words: str, **variables: str) -> list[str]:
    """Return what a shell is told that completes the last word of a command line."""
    asked = {"_BELLJAR_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = run(env={**os.environ, **asked, **variables})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ("belljar policy ", ["plain,check", "plain,explain"]),
        ("belljar run --preset py", ["plain,python"]),
        ("belljar shell --broker open", ["plain,openai", "plain,openrouter"]),
        ("belljar run --policy ./po", ["file,./po"]),
        ("belljar policy check ./po", ["file,./po"]),
        ("belljar run --preset python -- prog", ["plain,program"]),
        ("belljar exec jar prog", ["plain,program"]),
        ("belljar run -- program ./in", ["file,./in"]),
        ("belljar run -- ./pro", ["file,./pro"]),
        ("belljar help po", ["plain,policy"]),
        ("belljar help policy ex", ["plain,explain"]),
        ("belljar help nothing ", []),
        ("belljar stop ", []),
    ],
)
def test_completion(tmp_path, words, some):
    (tmp_path / "program").write_text("#!/bin/sh")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "progress").write_text("is no program")
    found = completed(words, PATH=f"{tmp_path}:/nonexistent", BELLJAR_SERVER=str(tmp_path))
    assert found[: len(some)] == some
    assert "plain,progress" not in found


@pytest.mark.parametrize("words", [(), ("policy", "check"), ("network", "allow"), ("run",), ("run", "make")])
def test_help_is_that_of_the_command(words):
    done = run("help", *words)
    if words == ("run", "make"):
        assert (done.returncode, done.stdout) == (125, "")
        assert "belljar run has no command 'make'" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, run(*words, "--help").stdout)


@pytest.mark.parametrize("command", [("run", "--", "true"), ("exec", "jar", "true")], ids=" ".join)
@pytest.mark.parametrize("item", ["A B=c", "A B", "=c", "A\nB=c", "NOT_THERE"])
def test_a_variable_that_cannot_be_is_refused(command, item):
    done = run(command[0], "--env", item, *command[1:])
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("belljar: --env: ")
    assert "write NAME=VALUE" in done.stderr
