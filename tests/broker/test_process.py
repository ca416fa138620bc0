"""The broker's process, and its owner."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from belljar.broker import preamble
from belljar.broker.preamble import PreambleError
from belljar.policy.services import Budget, SharedBudget
from tests.broker.running import Running, drain, service
from tests.broker.standin import StandIn


def test_a_line_says_all_of_a_service():
    for used in (
        service("https://x.test", server_tools=True, budget=Budget(requests=3, dollars=0.5)),
        service("https://x.test", shared=SharedBudget("g", Budget(bytes=7, at_once=1))),
    ):
        line = preamble.write("s", used, refuse_tools=True)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert preamble.read(line) == preamble.Preamble("s", used, True)


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"null", b'{"sandbox": "s", "service": {}}', b"[" * 5000, b"\xff"])
def test_what_is_no_such_line_is_refused(line: bytes):
    with pytest.raises(PreambleError):
        preamble.read(line)


def test_a_line_has_a_bound():
    with pytest.raises(PreambleError):
        preamble.write("s", service("https://x.test", paths=("GET /" + "x" * 70_000,)), refuse_tools=True)


def test_the_gateway_loads_no_library_with_it():
    loaded = "{'asyncio', 'h11', 'httpcore2', 'ssl'} & set(sys.modules)"
    script = f"import sys, belljar.broker.preamble, belljar.broker.starting; print({loaded})"
    assert subprocess.check_output([sys.executable, "-c", script]) == b"set()\n"


def test_a_connection_without_the_line_is_closed(broker: Running, provider: StandIn):
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"x" * 100_000):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(broker.path))
            with suppress(BrokenPipeError):
                connection.sendall(data)
            assert drain(connection) == b""
    assert broker.ask(service(provider.url), body="{}").status == 200


def test_another_user_is_not_served(broker: Running, provider: StandIn):
    """Only root can become somebody else, so only then it can be tried."""
    if os.geteuid() != 0:
        pytest.skip("takes root")
    line = preamble.write("s", service(provider.url), refuse_tools=False)
    script = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(60); "
        "os.setegid(65534); os.seteuid(65534) if sys.argv[1] == 'other' else None; "
        f"s.connect({str(broker.path)!r}); s.sendall({line!r} + b'GET /v1/models HTTP/1.1\\r\\n"
        "Host: anthropic.belljar.internal\\r\\nConnection: close\\r\\n\\r\\n'); print(s.recv(12))"
    )
    for parent in [broker.path, *broker.path.parents]:
        if parent != Path("/") and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    broker.path.chmod(0o777)
    before = len(provider.raw)
    other = subprocess.run([sys.executable, "-c", script, "other"], capture_output=True, text=True, check=False)
    assert "HTTP" not in other.stdout
    assert "PermissionError" not in other.stderr
    assert len(provider.raw) == before
    own = subprocess.run([sys.executable, "-c", script, "own"], capture_output=True, text=True, check=False)
    assert "HTTP/1.1 200" in own.stdout


def test_nothing_is_imported_from_where_it_is_started(
    provider: StandIn, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("h11", "json", "belljar"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    running = Running(tmp_path, {**environ, "PYTHONPATH": str(tmp_path)})
    try:
        assert running.ask(service(provider.url), body="{}").status == 200
    finally:
        running.stop()
    assert not (tmp_path / "imported").exists()


def test_it_can_be_started_by_hand():
    done = subprocess.run([sys.executable, "-m", "belljar.broker"], capture_output=True, text=True, check=False)
    assert (done.returncode, "--listen" in done.stderr) == (2, True)


def test_it_ends_with_its_owner(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    running = Running(tmp_path, environ)
    connection = running.connect(service(provider.url))
    assert running.ask(service(provider.url), body="{}").status == 200
    running.events.close()
    assert running.process.wait(60) == 0
    assert drain(connection) == b""
    connection.close()
    running.stop()
    assert running.output == b""
