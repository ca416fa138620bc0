"""What is looked at after the sandbox has ended."""

from pathlib import Path

import pytest

from belljar.linux.files.trusted import Trust
from belljar.sandbox.files import protected
from belljar.verify.outside import audit_is_intact, left_programs_are_not_asked
from belljar.verify.probes.host.files import left
from belljar.verify.probes.host.planted import PLANTED
from belljar.verify.probes.kit import Mark, Scene
from belljar.verify.report import ProbeVerdict
from belljar.verify.workshop import Workshop


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    made = Workshop(tmp_path)
    made.workdir.mkdir()
    monkeypatch.chdir(made.workdir)
    return made


def test_what_was_left_is_not_asked(workshop):
    assert left(Mark(1, "token", 4, Scene("run"))).holds
    assert left_programs_are_not_asked(workshop).verdict is ProbeVerdict.HOLDS


def test_nothing_that_was_left_proves_nothing(workshop):
    found = left_programs_are_not_asked(workshop)
    assert (found.verdict, found.evidence) == (ProbeVerdict.BROKEN, "nothing was left")


def test_settings_that_are_believed_are_found(workshop, monkeypatch):
    left(Mark(1, "token", 4, Scene("run")))
    monkeypatch.setattr(Trust, "check", lambda _, path: Path(path).resolve())
    found = left_programs_are_not_asked(workshop)
    assert found.verdict is ProbeVerdict.BROKEN
    assert "settings were believed: go, python, rust" in found.evidence


def test_a_program_that_was_run_is_found(workshop):
    left(Mark(1, "token", 4, Scene("run")))
    (workshop.workdir / "left/trace").write_text("python3")
    assert left_programs_are_not_asked(workshop).evidence == "a program was run"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (b'{"v":1,"event":"flow.denied","sandbox":"local"}', ProbeVerdict.HOLDS),
        (b'{"v":1,"event":"belljar-verify.forged","sandbox":""}', ProbeVerdict.BROKEN),
        (b'{"v":1,"event":"flow.denied","sandbox":"\x7f"}', ProbeVerdict.BROKEN),
        ('{"v":1,"event":"flow.denied","sandbox":"\u202e"}'.encode(), ProbeVerdict.BROKEN),
        (b'{"v":1,"event":"flow.denied"', ProbeVerdict.BROKEN),
        (b"[]", ProbeVerdict.BROKEN),
    ],
)
def test_what_is_no_event_in_the_log_is_found(workshop, line, verdict):
    workshop.audit.write_bytes(b'{"v":1,"event":"sandbox.opened","sandbox":"local"}\n' + line + b"\n")
    assert audit_is_intact(workshop).verdict is verdict


def test_a_log_with_nothing_in_it_proves_nothing(workshop):
    workshop.audit.touch()
    assert audit_is_intact(workshop).verdict is ProbeVerdict.BROKEN


def test_something_is_planted_in_every_protected_place():
    assert {*protected.PLACES} <= {*PLANTED, *(place.rpartition("/")[0] for place in PLANTED)}
