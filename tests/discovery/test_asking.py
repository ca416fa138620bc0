"""Children and files: what comes back, what does not, and what is never run."""

import os
import sys

import pytest

from belljar.discovery.asking import MAX_BYTES, Machine, NoAnswerError


def test_a_program_answers_with_what_it_prints(played):
    played.install("tool", 'echo "asked: $*"; echo noise >&2')
    assert played.machine.run("tool", "one", "two words") == "asked: one two words\n"


def test_a_program_has_no_input_and_starts_in_the_root_directory(played):
    played.install("tool", 'read line || echo "no input in $(pwd), $PWD"')
    assert played.machine.run("tool") == f"no input in {played.root}, {played.root}\n"


def test_arguments_meet_no_shell(played):
    played.install("tool", 'echo "$1"')
    assert played.machine.run("tool", "$(SITE); `id`") == "$(SITE); `id`\n"


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
        Machine(env=played.env, root=played.root, timeout=0.2).run("tool")
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_programs_run_side_by_side(played):
    """Each of the two can end only while the other runs."""
    os.mkfifo(played.root / "meet")
    played.install("writer", f"echo hello >{played.root}/meet; echo written")
    played.install("reader", f"read line <{played.root}/meet; echo $line")
    answers = played.machine.run_together(("writer",), ("absent",), ("reader",))
    assert answers == ["written\n", None, "hello\n"]


def test_a_program_in_the_working_directory_is_never_run(played, monkeypatch):
    """An earlier sandbox may have written it."""
    played.install("tool", f"echo run >{played.root}/traces")
    monkeypatch.chdir(played.bin.parent)
    with pytest.raises(NoAnswerError) as caught:
        played.machine.run("tool")
    assert str(caught.value) == "tool is only in the working directory, where a sandbox may have put it"
    assert not (played.root / "traces").exists()


@pytest.mark.parametrize("entry", [".", "", "bin"])
def test_relative_entries_of_the_path_do_not_count(played, monkeypatch, entry):
    monkeypatch.chdir(played.root)
    played.install("tool", "echo run")
    played.env["PATH"] = entry
    assert played.machine.find("tool") is None


def test_a_link_into_the_working_directory_does_not_hide_it(played, monkeypatch):
    project = played.root / "project"
    played.write("project/bin/tool", "#!/bin/sh\n").chmod(0o755)
    (played.root / "link").symlink_to(project / "bin")
    played.env["PATH"] = str(played.root / "link")
    monkeypatch.chdir(project)
    assert played.machine.find("tool") is None


def test_programs_are_found_from_the_root_directory(played, monkeypatch):
    """A service often runs there: the root directory is nobody's project."""
    tool = played.install("tool")
    monkeypatch.chdir("/")
    assert played.machine.find("tool") == tool


def test_a_module_in_the_working_directory_is_never_imported(played, monkeypatch):
    """``python3 -m pip`` would otherwise run the project's pip.py."""
    played.write("project/pip.py", f"open({str(played.root / 'traces')!r}, 'w')")
    monkeypatch.chdir(played.root / "project")
    python = os.path.realpath(f"/proc/{os.getpid()}/exe")
    Machine(env={}).run_together((python, "-m", "pip", "--version"), (python, "-c", "import pip"))
    assert not (played.root / "traces").exists()


def test_files_that_are_not_there_or_not_files(played):
    assert played.machine.read(played.root / "absent") is None
    assert played.machine.read(played.bin) is None
    assert played.machine.read(played.write("present", "x")) == b"x"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HOME": "/home/me", "CARGO_HOME": "/opt/cargo"}, "/opt/cargo"),
        ({"HOME": "/home/me", "CARGO_HOME": ""}, "/home/me/.cargo"),
        ({"HOME": "/home/me", "CARGO_HOME": "relative"}, "/relative"),
        ({}, "/.cargo"),
    ],
    ids=["set", "empty", "relative to the root, not to a project", "homeless"],
)
def test_directories_of_the_user(env, expected):
    assert str(Machine(env=env).directory("CARGO_HOME", ".cargo")) == expected


def test_this_machine_is_the_default():
    assert Machine().env is os.environ
    assert Machine().find(sys.executable) is not None
