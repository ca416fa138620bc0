"""`belljar-submit`, as agents run it: one file, under a Python that has nothing else."""

import json
import os
import socket
import subprocess
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

import belljar.harness.submit.client as client_module
from belljar.harness.tasks.model import Parser
from tests.harness.judges import SECRET, ServedJudge, send
from tests.harness.stages import stage, task
from tests.harness.test_judge_api import scoring

CASES = 'echo "CASE one OK score=1"; echo "CASE secret-name WA score=0"'


@pytest.fixture
def work(tmp_path):
    """The agent's directory."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "score").write_text("7")
    return work


@pytest.fixture
def state(tmp_path):
    """Where the program notes results: in `/tmp`, had this test not put it elsewhere."""
    return tmp_path / "state.json"


@pytest.fixture
def submit(work, state, tmp_path):
    """Runs the program in the agent's directory."""
    program = tmp_path / "belljar-submit"
    text = Path(client_module.__file__).read_text()
    assert "/tmp/sforge_state.json" in text
    program.write_text(text.replace("/tmp/sforge_state.json", str(state)))

    def submit(*arguments, url="", token="", check=True, **variables):
        environment = {"BELLJAR_JUDGE_URL": url, "BELLJAR_TOKEN": token, **variables}
        command = [sys.executable, "-I", "-S", str(program), *arguments]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        if check:
            assert done.returncode == 0, done.stderr
        return done

    return submit


def archive_of(judge: ServedJudge) -> dict[str, tarfile.TarInfo]:
    path = judge.directory / "results/run-1/tiny/submissions/agent-1/submission.tar.gz"
    with tarfile.open(path) as archive:
        return {info.name: info for info in archive.getmembers()}


def test_it_submits_waits_and_prints_the_result(judge, submit, state):
    token = judge.register(max_submissions=3)
    done = submit(url=judge.url, token=token)
    assert "Round: agent-1  (remaining submissions: 2)" in done.stdout
    assert "agent-1 Results" in done.stdout
    assert "Score:       7" in done.stdout
    noted = json.loads(state.read_text())
    assert [(each["round"], each["score"]) for each in noted["submissions"]] == [("agent-1", 7)]


def test_names_of_failed_tests_are_printed_with_details_alone(serve, submit):
    judge = serve(task(stage(CASES, Parser.SCORE_SUM)))
    token = judge.register()
    done = submit(url=judge.url, token=token)
    assert "Pass rate:   50.0%" in done.stdout
    assert "Passed:      1/2" in done.stdout
    assert "secret-name" not in done.stdout
    assert "--details --result agent-1" in done.stdout
    for arguments in (["--details"], ["--details", "--result", "agent-1"]):
        assert "[FAILED] secret-name: WA" in submit(*arguments, url=judge.url, token=token).stdout
    assert judge.agent.get("/history", params={"token": token}).json()["agent_submissions"] == 2


def test_the_history_lists_the_agents_own_submissions(judge, submit):
    token = judge.register()
    submit(url=judge.url, token=token)
    send(judge.host, token, scoring(9), kind="auto", admin_secret=SECRET)
    done = submit("--list", url=judge.url, token=token)
    assert "Total submissions: 1" in done.stdout
    assert "agent-1" in done.stdout
    assert "auto-1" not in done.stdout


def test_it_goes_by_sforges_variables_too(judge, submit, work):
    token = judge.register()
    (work / "lru" / ".git").mkdir(parents=True)
    for name in ("lru/a.py", "lru/b.so", "lru/.git/config", "other.py"):
        (work / name).write_text("x")
    submit(
        SFORGE_JUDGE_URL=judge.url,
        SFORGE_TOKEN=token,
        SFORGE_PATCH_DIR=str(work),
        SFORGE_SUBMIT_PATHS="lru score absent",
        SFORGE_SUBMIT_EXCLUDE_FLAGS="--exclude='*.so' --exclude tests",
    )
    assert list(archive_of(judge)) == ["lru", "lru/a.py", "score"]


def test_files_with_two_names_links_and_odd_files_are_packed_so_that_the_judge_takes_them(judge, submit, work):
    token = judge.register()
    os.link(work / "score", work / "same")
    (work / ("ä" * 50)).write_text("long name")
    (work / "link").symlink_to("score")
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(work / "s"))
        submit(url=judge.url, token=token)
    members = archive_of(judge)
    assert sorted(members) == sorted([".", "score", "same", "ä" * 50, "link"])
    assert members["same"].isreg()
    assert members["score"].isreg()
    assert {(info.uid, info.uname) for info in members.values()} == {(0, "")}


@pytest.mark.parametrize(
    ("limits", "words"), [({"max_submissions": 1}, "SUBMISSION LIMIT REACHED"), ({"cooldown": 100}, "COOLDOWN")]
)
def test_what_the_judge_limits_is_said_plainly_whatever_the_size_of_the_archive(judge, submit, work, limits, words):
    token = judge.register(**limits)
    submit(url=judge.url, token=token)
    (work / "large").write_bytes(os.urandom(20 << 20))
    done = submit(url=judge.url, token=token, check=False)
    assert done.returncode == 1
    assert words in done.stderr


def test_a_submission_that_was_not_graded_is_no_success(judge, submit):
    token = judge.register()
    judge.sandboxes.faults = ["run"] * 3
    done = submit(url=judge.url, token=token, check=False)
    assert done.returncode == 1
    assert "agent-1 was not graded" in done.stderr


def test_what_is_wrong_is_said_plainly(judge, submit, work):
    token = judge.register()
    good = {"url": judge.url, "token": token, "check": False}
    cases = [
        (submit(**{**good, "token": "x" * 64}), 1, "token"),
        (submit(**{**good, "token": ""}), 1, "BELLJAR_TOKEN is not set"),
        (submit(**{**good, "url": ""}), 1, "BELLJAR_JUDGE_URL is not set"),
        (submit(**{**good, "url": "judge:80"}), 1, "no http URL"),
        (submit(**{**good, "url": "http://127.0.0.1:1"}), 1, "cannot be reached"),
        (submit("--result", "agent-9", **good), 1, "no submission"),
        (submit("--result", "../../x", **good), 1, "nothing at this path"),
        (submit("--nonsense", **good), 2, "--nonsense is not known"),
        (submit("--result", **good), 2, "needs the name"),
        (submit(SFORGE_SUBMIT_PATHS="absent", **good), 1, "none of absent exists"),
        (submit(BELLJAR_PATCH_DIR="/absent", **good), 1, "/absent cannot be entered"),
    ]
    for done, code, words in cases:
        assert done.returncode == code, done.stderr
        assert words in done.stderr
    assert judge.agent.get("/history", params={"token": token}).json()["entries"] == []


def test_a_link_that_leads_out_is_refused_with_its_name(judge, submit, work):
    (work / "out").symlink_to("/etc/passwd")
    done = submit(url=judge.url, token=judge.register(), check=False)
    assert done.returncode == 1
    assert '"out" links to "/etc/passwd", outside' in done.stderr


def test_it_goes_through_a_proxy_of_the_environment_unless_that_is_bypassed(judge, submit):
    token = judge.register()
    done = submit(url=judge.url, token=token, check=False, http_proxy="http://127.0.0.1:1")
    assert "cannot be reached" in done.stderr
    submit(url=judge.url, token=token, http_proxy="http://127.0.0.1:1", no_proxy="127.0.0.1")
    with HTTPServer(("127.0.0.1", 0), AnsweringProxy) as proxy:
        Thread(target=proxy.serve_forever).start()
        through = f"http://user:pass@127.0.0.1:{proxy.server_port}"
        done = submit("--list", url="http://judge.example:81/x", token=token, http_proxy=through)
        proxy.shutdown()
    assert "http://judge.example:81/x/api/v1/history Basic dXNlcjpwYXNz" in done.stdout


class AnsweringProxy(BaseHTTPRequestHandler):
    """Answers every request with what it was asked for."""

    def do_GET(self):
        entry = {"round": f"{self.path} {self.headers['Proxy-Authorization']}"}
        content = json.dumps({"entries": [entry]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Print nothing."""


def test_what_graders_print_is_shown_without_what_a_terminal_obeys(serve, submit):
    judge = serve(task(stage('printf \'{"score": 1, "summary": "\\\\u001b]0;evil"}\'')))
    done = submit(url=judge.url, token=judge.register())
    assert "evil" in done.stdout
    assert "\x1b" not in done.stdout


def test_help_needs_no_judge(submit):
    assert "--details" in submit("--help").stdout
