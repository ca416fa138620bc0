"""`belljar eval score` and `belljar eval serve`, as a user runs them."""

import json
import re
import signal
import socket

import httpx2
import pytest

from tests.harness.archives import archive, member
from tests.harness.evaluations import counting
from tests.harness.judges import send, wait_for


@pytest.fixture
def answer(tmp_path):
    """Makes an archive whose answer is a number."""

    def answer(number, *more):
        return archive(tmp_path / f"{number}.tar.gz", member("answer.txt", str(number).encode()), *more)

    return answer


@pytest.fixture
def score(evaluations):
    """Runs `belljar eval score`, and returns its exit code and both outputs."""
    evaluations.write(counting())

    def score(*words, stdin=None):
        places = ("--tasks", evaluations.tasks, "--results", evaluations.results, "--state", evaluations.state)
        process = evaluations.call("score", "--task", "count", *map(str, (*places, *words)), stdin=stdin)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return score


def test_an_archive_is_graded_and_kept_as_manual_1_and_2(score, answer, evaluations):
    code, out, err = score("--archive", answer(3))
    assert code == 0, err
    assert re.search(r"^score: +3$", out, re.MULTILINE)
    assert re.search(r"^pass rate: +75.0%$", out, re.MULTILINE)
    assert "manual/count/manual-1" in out
    with answer(4).open("rb") as file:
        code, out, err = score("--archive", "-", "--json", stdin=file)
    assert (code, json.loads(out)["score"]) == (0, 4), err
    assert sorted(path.name for path in (evaluations.results / "manual/count").iterdir()) == ["manual-1", "manual-2"]
    assert evaluations.leftovers() == []


def test_an_archive_that_is_refused_is_an_error_of_which_nothing_is_kept(score, answer, evaluations):
    for words in (("--archive", answer(3, member("/etc/x", b""))), ("--archive", "/dev/null")):
        code, out, err = score(*words)
        assert (code, out) == (125, "")
        assert re.match("belljar: .*(absolute|cut short)", err)
    assert list((evaluations.results / "manual/count").iterdir()) == []
    code, out, err = score("--archive", "/absent.tar")
    assert (code, out) == (125, "")
    assert "/absent.tar cannot be read" in err


@pytest.fixture
def served(evaluations):
    """A judge that `belljar eval serve` serves: its process, and a client of it."""
    evaluations.write(counting())
    places = ("--tasks", evaluations.tasks, "--results", evaluations.results, "--state", evaluations.state)
    process = evaluations.call("serve", "--port", "0", *map(str, places))
    line = process.stderr.readline()
    port = re.fullmatch(r"belljar: judging 1 tasks at http://127.0.0.1:(\d+)\n", line)
    assert port, line + process.stderr.read()
    connection = evaluations.universe.gateway.call(socket.create_connection, ("127.0.0.1", int(port[1])))
    connection.close()
    yield process, int(port[1])
    if process.poll() is None:
        process.kill()
        process.wait()


def test_a_served_judge_registers_grades_and_ends_without_leftovers(served, answer, evaluations):
    process, port = served
    secret = (evaluations.state / "judge-admin-secret").read_text().strip()

    def use():
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False, timeout=60) as client:
            body = {"task_id": "count", "run_id": "r", "admin_secret": secret}
            token = client.post("/register", json=body).json()["token"]
            assert send(client, token, answer(4).read_bytes()).status_code == 200
            return wait_for(client, token, "agent-1")

    found = evaluations.universe.gateway.call(use)
    assert found["report"]["score"] == 4
    assert (evaluations.results / "r/count/submissions/agent-1/report.json").exists()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert secret not in out + err
    assert "agent-1: score 100.0" in err
    assert evaluations.leftovers() == []


def test_another_host_than_loopback_needs_a_flag(evaluations):
    evaluations.write(counting())
    process = evaluations.call("serve", "--host", "0.0.0.0", "--tasks", str(evaluations.tasks))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, "")
    assert "--expose" in err
