"""The self-test itself: on a sandbox that is sealed everything holds, for root and for an ordinary user."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from belljar.broker import requirements
from belljar.linux.programs import run
from belljar.verify import brokers
from belljar.verify.bundle import bundle
from belljar.verify.catalogue import OUT_OF_SCOPE, WAYS_OUT
from belljar.verify.probes.kit import PROBES
from belljar.verify.verifying import UnknownProbeError, choose
from tests.backends.local.commands import USER, belljar

ROOT = Path(__file__).parents[2]
PATIENCE = 300
BOUNDED_MEMORY = "71-seen-from-outside"
"""Takes a control group, which ordinary users can have on some machines only."""

OUTSIDE = {
    "1-invalid-policies",
    "33-seen-from-outside",
    "51-audit",
    "53-seen-from-outside",
    "58-seen-from-outside",
    "59-seen-from-outside",
    "61-seen-from-outside",
    BOUNDED_MEMORY,
    "witness",
}


def test_ctrl_c_ends_the_probes_without_a_traceback(tmp_path):
    probes = tmp_path / "probes.pyz"
    probes.write_bytes(bundle())
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, probes], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"here": true}\n'
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (-signal.SIGINT, b"")


class Cli:
    """`belljar verify`, as root or as an ordinary user."""

    def __init__(self, directory: Path, *, root: bool) -> None:
        self.directory, self.temporary, self._root = directory, directory / "tmp", root

    def verify(self, *words: str, script: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run it, or a script that does."""
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": "/home/somebody", "PYTHONPATH": f"{ROOT}", "TMPDIR": str(self.temporary)
        }  # fmt: skip
        command = belljar("verify", *words, root=self._root)
        if script is not None:
            program = command.index("-m")
            command[program : program + 2] = ["-P", "-c", script]
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )


def make_cli(user: str) -> Iterator[Cli]:
    """Yield the command as root or as an ordinary user, with a directory."""
    if user != "root" and os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    directory = Path(f"/var/tmp/belljar-verify-test-{os.getpid()}-{user}")  # pytest's own are closed to others
    (directory / "tmp").mkdir(parents=True)
    if user != "root":
        for path in (directory, directory / "tmp"):
            os.chown(path, USER, USER)
    yield Cli(directory, root=user == "root")
    shutil.rmtree(directory)


@pytest.fixture(params=["root", "user"])
def cli(request, privileged):
    yield from make_cli(request.param)


@pytest.fixture
def own_cli(privileged):
    """The command as the user who runs the tests, for what does not depend on the user."""
    yield from make_cli("root")


def test_everything_holds(cli):
    done = cli.verify("--json", "report.json", "--junit", "report.xml")
    report = json.loads((cli.directory / "report.json").read_text())
    failed = [row for row in report["results"] if row["verdict"] not in ("holds", "out of scope")]
    assert not failed, json.dumps(failed)
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["id"] for row in report["results"]} == {*PROBES, *OUTSIDE, *map(str, OUT_OF_SCOPE)}
    assert {row["id"] for row in report["results"] if row["verdict"] == "holds"} >= {*PROBES, *OUTSIDE} - {
        BOUNDED_MEMORY
    }
    evidence = {row["id"]: row["evidence"] for row in report["results"]}
    assert evidence["34-visible-sockets"] == "none, but for 2 dead ones"  # what was planted is seen
    assert evidence["59-homes"].startswith("the tools in it can be seen")
    assert set(report) == {"backend", "started", "seconds", "results", "summary"}
    assert all(set(row) == {"id", "way_out", "tried", "verdict", "evidence"} for row in report["results"])
    suite = ET.parse(cli.directory / "report.xml").getroot()
    assert suite.tag == "testsuite"
    assert len(suite.findall("testcase")) == int(suite.attrib["tests"]) == len(report["results"])
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("0", "0")
    assert "11-direct-address-v6" in done.stdout
    assert not list(cli.temporary.iterdir())


def test_memory_that_is_the_callers_is_not_the_sandboxs(own_cli):
    """On many machines, what is below /tmp is in memory."""
    run("mount", "-t", "tmpfs", "-o", "size=10T", "tests", str(own_cli.temporary))
    try:
        done = own_cli.verify("--only", "71-memory")
    finally:
        run("umount", str(own_cli.temporary))
    assert done.returncode == 0, done.stdout


def test_a_probe_is_run_with_the_control_beside_it(own_cli):
    done = own_cli.verify("--only", "11-direct-address-v4", "--only", "48")
    rows = [line.split()[0] for line in done.stdout.splitlines()[1:-2]]
    assert rows == [
        "control-address-v4",
        "11-direct-address-v4",
        "48-capabilities",
        "48-no-new-privileges",
        "48-seccomp",
        "48-namespaces",
        "48-user-namespace",
        "48-control-groups",
        "witness",
    ]
    assert done.returncode == 0


def test_brokers_are_not_tried_where_there_can_be_none(own_cli):
    lacking = "import sys; sys.modules |= dict.fromkeys(['h11', 'httpcore2'])"
    script = f"{lacking}; from belljar.cli.main import main; main()"
    done = own_cli.verify("--only", "72", "--only", "48-seccomp", "--json", "report.json", script=script)
    report = json.loads((own_cli.directory / "report.json").read_text())
    verdicts = {row["id"]: (row["verdict"], row["evidence"]) for row in report["results"]}
    assert verdicts["48-seccomp"][0] == "holds"
    why = "there are no brokers without h11 and httpcore2; pip install 'belljar[broker]'"
    of_brokers = ("72-key", "72-other-paths-v4", "72-server-tools-v6", "control-broker-v4")
    assert {verdicts[name] for name in of_brokers} == {("out of scope", why)}
    assert done.returncode == 0


def test_errors_are_neither_success_nor_failure(own_cli):
    unknown = own_cli.verify("--only", "11-direct-adress-v4")
    assert unknown.returncode == 125
    assert 'did you mean "11-direct-address-v4"?' in unknown.stderr
    assert own_cli.verify("--json", "/nonexistent/report.json").returncode == 125


def test_every_way_out_is_tried_or_out_of_scope_for_a_reason():
    tried = {probe.way_out for probe in PROBES.values()} | {int(name.split("-")[0]) for name in OUTSIDE - {"witness"}}
    assert tried - {0} | set(OUT_OF_SCOPE) == set(WAYS_OUT) == set(range(1, 73))
    assert not tried & set(OUT_OF_SCOPE)


def test_every_probe_has_addresses_of_its_own_and_a_control_that_exists():
    assert len(PROBES) <= 253
    assert all(probe.beside is None or PROBES[probe.beside].is_control for probe in PROBES.values())
    assert all(probe.beside for probe in PROBES.values() if probe.id.endswith(("-v4", "-v6")) and not probe.is_control)


def test_brokers_need_what_they_say_they_need():
    assert brokers.MODULES == requirements._MODULES


def test_an_unknown_probe_is_an_error():
    with pytest.raises(UnknownProbeError):
        choose(["73"])


def test_the_documentation_has_every_way_out_and_every_probe():
    text = (ROOT / "docs/verify.md").read_text()
    for number, name in WAYS_OUT.items():
        assert f"| {number} | {name} |" in text
        assert number not in OUT_OF_SCOPE or OUT_OF_SCOPE[number] in text
    for probe in PROBES:
        assert probe.startswith("control-") or f"`{probe.removesuffix('-v4').removesuffix('-v6')}`" in text
