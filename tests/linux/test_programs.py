import pytest

from belljar.linux import programs
from belljar.linux.programs import ProgramFailedError, ProgramMissingError, run


def test_a_program_is_given_a_text_and_its_output_is_returned():
    assert run("cat", "-", text="one\ntwo\n") == "one\ntwo\n"


def test_a_program_that_is_not_installed():
    with pytest.raises(ProgramMissingError, match="no-such-program is not installed") as caught:
        run("no-such-program")
    assert caught.value.program == "no-such-program"


def test_a_program_that_fails_is_quoted():
    with pytest.raises(ProgramFailedError, match=r"^ls: .*/nowhere.*No such file"):
        run("ls", "/nowhere")


def test_a_program_that_fails_in_silence_still_says_something():
    with pytest.raises(ProgramFailedError, match=r"^false: exit status 1$"):
        run("false")


def test_what_the_callers_path_leads_to_is_not_run(tmp_path, monkeypatch):
    planted = tmp_path / "cat"
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("cat", text="genuine") == "genuine"


def test_the_callers_environment_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("LD_DEBUG", "all")
    assert dict(line.split("=", 1) for line in run("env").splitlines()) == {
        "PATH": programs.DIRECTORIES,
        "LC_ALL": "C",
    }
