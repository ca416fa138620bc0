"""Children and files: what comes back, and what does not. What is never run or believed is in test_trust.py."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from belljar.discovery.asking import Machine
from belljar.discovery.running import MAX_BYTES, NoAnswerError
from belljar.linux import programs


def test_a_program_answers_with_what_it_prints(played):
    played.install("tool", 'echo "asked: $*"; echo noise >&2')
    assert played.machine.run("tool", "one", "two words") == "asked: one two words\n"


def test_a_program_has_no_input_and_starts_in_the_root_directory(played):
    played.install("tool", 'read line || echo "no input in $(pwd), $PWD"')
    assert played.machine.run("tool") == f"no input in {played.root}, {played.root}\n"


def test_arguments_meet_no_shell(played):
    played.install("tool", 'echo "$1"')
    assert played.machine.run("tool", "$(SITE); `id`") == "$(SITE); `id`\n"


def test_a_program_gets_nothing_of_the_callers_environment(played):
    played.env |= {"LD_PRELOAD": "/x.so", "APT_CONFIG": "/x"}
    played.install("tool", "exec /usr/bin/env")
    told = dict(line.split("=", 1) for line in played.machine.run("tool").splitlines())
    assert {name: value for name, value in told.items() if name != "PWD"} == programs.ENVIRONMENT


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 3", "tool failed (exit status 3)"),
        ("kill -9 $$", "tool failed (exit status -9)"),
        (f"exec /usr/bin/head -c {MAX_BYTES + 1} /dev/zero", "tool answered more than can be read"),
        ("exec /bin/cat /dev/zero", "tool answered more than can be read"),
    ],
    ids=["non-zero", "killed", "one byte too many", "endless"],
)
def test_a_program_that_gives_no_usable_answer(played, script, problem):
    played.install("tool", script)
    with pytest.raises(NoAnswerError) as caught:
        played.machine.run("tool")
    assert str(caught.value) == problem


def test_a_file_that_cannot_be_executed_as_a_program(played):
    played.write("bin/tool", b"\x00garbage").chmod(0o755)
    with pytest.raises(NoAnswerError, match=r"^tool cannot be started$"):
        played.machine.run("tool")


@pytest.mark.parametrize(
    "script",
    [
        "exec /bin/sleep 600",
        "exec >&-; exec /bin/sleep 600",
        "/bin/sleep 600 & exit 0",
    ],
    ids=["silent", "closes its output and stays", "leaves a child that holds the output"],
)
def test_a_program_that_hangs_is_killed_with_all_its_children(played, script):
    """Every process of the tool holds the FIFO; its end of file says that all of them are gone."""
    held = played.root / "held"
    os.mkfifo(held)
    played.install("tool", f"exec 3<>{held}\n{script}")
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(NoAnswerError, match=r"^tool did not answer within 0\.2 seconds$"):
        replace(played.machine, timeout=0.2).run("tool")
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_files_that_are_not_there_or_not_files(played):
    os.mkfifo(played.home / ".npmrc")
    assert played.machine.read(played.home / ".npmrc") is None
    assert played.machine.read(played.home / ".config/absent") is None
    assert played.machine.read(played.bin) is None
    assert played.machine.read(played.write("etc/present", "x")) == b"x"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HOME": "/home/me", "CARGO_HOME": "/opt/cargo"}, "/opt/cargo"),
        ({"HOME": "/home/me", "CARGO_HOME": ""}, "/home/me/.cargo"),
        ({}, "/home/me/.cargo"),
        ({"HOME": "/srv/project"}, "/srv/project/.cargo"),
    ],
    ids=["set", "empty", "homeless", "elsewhere"],
)
def test_directories_of_the_user(env, expected):
    machine = Machine(env=env, users_home=Path("/home/me"))
    assert str(machine.directory("CARGO_HOME", ".cargo")) == expected


def test_a_variable_with_a_path_that_depends_on_the_directory():
    with pytest.raises(NoAnswerError) as caught:
        Machine(env={"CARGO_HOME": "cargo"}).directory("CARGO_HOME", ".cargo")
    assert str(caught.value) == "CARGO_HOME names cargo, which is another file in each directory"


def test_this_machine_is_the_default():
    assert Machine().env is os.environ
    assert Machine().users_home is not None
    assert Machine().find("sh") is not None
