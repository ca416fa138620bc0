"""Verdicts, and how they are written down."""

import json
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from belljar.verify.auditing import LoggedDenial
from belljar.verify.internet.witness import Sighting, SightingKind
from belljar.verify.judging import ProbeJudge
from belljar.verify.probes.kit import Scene
from belljar.verify.report import ProbeVerdict, Report, Result
from belljar.verify.verifying import choose

ATTEMPT, CONTROL = "11-direct-address-v4", "control-address-v4"
PROBES = {probe.id: probe for probe in choose([ATTEMPT])}
MARKS = {probe: probe.mark(Scene("word")) for probe in PROBES.values()}
MARK = MARKS[PROBES[ATTEMPT]]
WORKED = Sighting(SightingKind.STREAM, "the control", "198.51.100.20", 4000, MARKS[PROBES[CONTROL]].token.encode())


def judge(
    attempt: dict[str, object], *seen: Sighting, control: bool = True, lacking: tuple[str, ...] = ()
) -> dict[str, ProbeVerdict]:
    findings = {ATTEMPT: attempt, CONTROL: {"holds": control, "evidence": ""}}
    judge = ProbeJudge(MARKS, findings, seen, dict.fromkeys(lacking, "the reason"))
    return {row.id: row.verdict for row in judge.results()}


def test_closed_is_what_client_and_witness_agree_on_beside_a_control():
    assert set(judge({"holds": True, "evidence": ""}, WORKED).values()) == {ProbeVerdict.HOLDS}


@pytest.mark.parametrize(
    "seen",
    [
        Sighting(SightingKind.PACKET, "TCP", MARK.address, 443),
        Sighting(SightingKind.PACKET, "UDP", "198.51.100.53", 53, b"\4" + MARK.token.upper().encode()),
        Sighting(SightingKind.STREAM, "bytes", "198.51.100.10", 443, b"hello " + MARK.token.encode()),
        Sighting(SightingKind.QUESTION, "question", data=f"{MARK.token}.evil.test".encode()),
    ],
)
def test_the_witness_is_believed_and_not_the_client(seen):
    assert judge({"holds": True, "evidence": ""}, WORKED, seen)[ATTEMPT] is ProbeVerdict.BROKEN


def test_a_client_that_got_through_is_believed():
    assert judge({"holds": False, "evidence": ""}, WORKED)[ATTEMPT] is ProbeVerdict.BROKEN


def test_what_a_backend_lacks_is_out_of_scope_only_if_that_is_all_there_is_to_it():
    found = {"holds": False, "evidence": ""}
    assert judge(found, WORKED, lacking=(ATTEMPT,))[ATTEMPT] is ProbeVerdict.OUT_OF_SCOPE
    assert judge(found, WORKED, lacking=("48-other",))[ATTEMPT] is ProbeVerdict.BROKEN
    assert judge({"holds": True, "evidence": ""}, WORKED, lacking=(ATTEMPT,))[ATTEMPT] is ProbeVerdict.HOLDS
    assert judge({"crash": "no word"}, WORKED, lacking=(ATTEMPT,))[ATTEMPT] is ProbeVerdict.UNPROVEN
    leak = Sighting(SightingKind.PACKET, "TCP", MARK.address, 443)
    assert judge(found, WORKED, leak, lacking=(ATTEMPT,))[ATTEMPT] is ProbeVerdict.BROKEN


@pytest.mark.parametrize("told", [{}, {"crash": "ended by SIGSEGV"}])
def test_a_crash_proves_nothing(told):
    assert judge(told, WORKED)[ATTEMPT] is ProbeVerdict.UNPROVEN


def test_a_denial_that_the_log_does_not_tell_of_is_a_finding():
    probes = {probe: probe.mark(Scene("word")) for probe in choose(["51-denials-v4"])}
    (told,) = (probe for probe in probes if probe.denials)
    mark, findings = probes[told], {probe.id: {"holds": True, "evidence": ""} for probe in probes}
    names = [LoggedDenial("198.51.100.10", f"way{number}.{mark.name}") for number in range(told.denials - 1)]
    seen = [
        Sighting(SightingKind.STREAM, "the control", data=own.token.encode())
        for probe, own in probes.items()
        if probe is not told
    ]

    def verdict(*denials: LoggedDenial) -> ProbeVerdict:
        rows = ProbeJudge(probes, findings, seen, denials=denials).results()
        return next(row.verdict for row in rows if row.id == told.id)

    assert verdict(*names) is ProbeVerdict.BROKEN
    assert verdict(*names, LoggedDenial("evil.test", "")) is ProbeVerdict.BROKEN
    assert verdict(*names, LoggedDenial(mark.address, "")) is ProbeVerdict.HOLDS


def test_without_a_control_nothing_is_proven():
    verdicts = judge({"holds": True, "evidence": ""}, WORKED, control=False)
    assert (verdicts[CONTROL], verdicts[ATTEMPT]) == (ProbeVerdict.BROKEN, ProbeVerdict.UNPROVEN)


def test_a_control_that_the_witness_did_not_see_has_failed():
    assert judge({"holds": True, "evidence": ""})[CONTROL] is ProbeVerdict.BROKEN


@pytest.mark.parametrize(
    "seen",
    [
        Sighting(SightingKind.PACKET, "TCP", "203.0.113.200", 80),
        Sighting(SightingKind.PACKET, "TCP", "198.51.100.10", 8080),
        Sighting(SightingKind.PACKET, "TCP", "127.0.0.1", 7002),
        Sighting(SightingKind.STREAM, "bytes", "198.51.100.40", 7001, b"anything"),
        Sighting(SightingKind.QUESTION, "question", data=b"unknown.test"),
        Sighting(SightingKind.UNIX, "unix"),
    ],
)
def test_what_nobody_explains_is_a_finding(seen):
    assert judge({"holds": True, "evidence": ""}, WORKED, seen)["witness"] is ProbeVerdict.BROKEN


def test_probes_have_tokens_that_do_not_hold_each_other():
    tokens = [probe.mark(Scene("0")).token for probe in choose([])]
    assert not [(one, other) for one in tokens for other in tokens if one != other and one in other]


def report(*verdicts: ProbeVerdict) -> Report:
    rows = [Result(f"{n}-x", f"{n} way", "tried <&>", verdict, 'says "\u00e9"') for n, verdict in enumerate(verdicts)]
    return Report("local", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 1.25, tuple(rows))


@pytest.mark.parametrize(
    ("verdicts", "all_hold"),
    [
        ([ProbeVerdict.HOLDS, ProbeVerdict.OUT_OF_SCOPE], True),
        ([ProbeVerdict.HOLDS, ProbeVerdict.BROKEN], False),
        ([ProbeVerdict.HOLDS, ProbeVerdict.UNPROVEN], False),
        ([ProbeVerdict.OUT_OF_SCOPE], False),
        ([], False),
    ],
)
def test_all_hold_only_if_everything_in_scope_does(verdicts, all_hold):
    assert report(*verdicts).all_hold is all_hold


def test_the_documents():
    written = report(ProbeVerdict.HOLDS, ProbeVerdict.BROKEN, ProbeVerdict.UNPROVEN, ProbeVerdict.OUT_OF_SCOPE)
    document = json.loads(written.as_json())
    assert document["started"] == "2026-01-02T03:04:05+00:00"
    assert document["summary"] == {"holds": 1, "broken": 1, "unproven": 1, "out of scope": 1}
    suite = ET.fromstring(written.as_junit())
    assert [suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"], ["skipped"]]
    assert suite[1][0].attrib["message"] == 'says "\u00e9"'
