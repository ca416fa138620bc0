"""What agents try against a run: each attempt fails, and honest work beside it is scored."""

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.harness.evaluations import GRADE, counting, inits_around

RUN_WORK = """
set -e
sh work.sh
echo '>>>>> Start Structured Result'
echo '{"score": 1, "pass_rate": 0.25}'
echo '>>>>> End Structured Result'
"""
FAKE = "; ".join(
    f"echo '{line}'"
    for line in (
        ">>>>> Start Structured Result",
        r"{\"score\": 1000, \"pass_rate\": 1.0}",
        ">>>>> End Structured Result",
    )
)
NO_TESTS = "grep -rls canary-of-the-tests / --exclude-dir=proc --exclude-dir=sys 2>/dev/null"


def test_hidden_tests_are_nowhere_in_the_work_sandbox(evaluations):
    evaluations.write(counting())
    done = evaluations.run(agent=f"{NO_TESTS}; ls /home/workspace/count; env")
    assert done.result()["outcome"] == "failed"
    assert "canary" not in done.output()
    assert "hidden.txt" not in done.output()
    assert "tests" not in done.output().split()


def test_a_reward_planted_in_advance_counts_nothing(evaluations):
    evaluations.write(counting(submit_paths=["."]))
    plant = """
        fake='{"valid": true, "score": 1000, "pass_rate": 1.0}'
        for name in result.json reward.json report.json reward.txt final_result.json; do echo "$fake" >$name; done
        mkdir -p tests submissions/agent-1 /tmp/belljar; echo "$fake" >submissions/agent-1/report.json
        echo 1 >answer.txt; belljar-submit
    """
    done = evaluations.run(agent=plant)
    assert (done.result()["score"], done.result()["outcome"]) == (25.0, "failed")


def test_planted_files_that_steer_python_do_not_reach_the_judge(evaluations):
    eval_cmd = "PYTHONPATH=. " + GRADE.strip()
    evaluations.write(counting(submit_paths=["."], judge__eval_cmd=eval_cmd))
    plant = """
        for name in conftest.py sitecustomize.py usercustomize.py; do
            echo 'print(">>>>> Start Structured Result"); print({}); import os; os._exit(0)' >$name
        done
        echo 2 >answer.txt; belljar-submit
    """
    done = evaluations.run(agent=plant)
    assert done.result()["score"] == 50.0
    left_out = " ".join(done.data("submissions/agent-1/report.json")["left_out"])
    assert all(name in left_out for name in ("conftest.py", "sitecustomize.py", "usercustomize.py"))


def test_fake_markers_make_a_submission_invalid_and_not_a_winner(evaluations):
    """Beside those of the grader; instead of them, as the grader fails; and on the grader's standard error."""
    evaluations.write(
        counting(submit_paths=["work.sh"], work__setup_cmds=["echo true >work.sh"], judge__eval_cmd=RUN_WORK)
    )
    cheat = f"""
        belljar-submit
        for fake in "{FAKE}" "{FAKE}; exit 3" "({FAKE}) >&2; exit 3" "{FAKE}; kill -9 \\$PPID"; do
            echo "$fake" >work.sh
            belljar-submit
        done; true
    """
    done = evaluations.run(agent=cheat)
    assert (done.result()["score"], done.result()["best_round"]) == (25.0, "agent-1")
    for number in (2, 3, 4, 5):
        cheated = done.data(f"submissions/agent-{number}/report.json")
        assert (cheated["valid"], cheated["score"]) == (False, None), number


def test_a_process_that_goes_on_after_grading_has_begun_changes_nothing(evaluations):
    """Neither in the work sandbox, whose archive was taken, nor in the judge's, whose grader has ended."""
    runs_work = """
        sh work.sh
        cat answer.txt | python3 -c 'import json, sys; n = int(sys.stdin.read()); print(">>>>> Start Structured Result")
print(json.dumps({"score": n, "pass_rate": n / 4})); print(">>>>> End Structured Result")'
    """
    evaluations.write(counting(submit_paths=["answer.txt", "work.sh"], judge__eval_cmd=runs_work))
    cheat = """
        cat >work.sh <<'END'
(setsid sh -c 'while :; do
    echo ">>>>> Start Structured Result"; echo "{\\"score\\": 4, \\"pass_rate\\": 1.0}"
    echo ">>>>> End Structured Result"
    for place in "$BELLJAR_RESULT" /tmp/belljar-result-*/result.json; do echo "{\\"score\\": 4}" >"$place"; done
done' >/tmp/late 2>&1 &)
END
        echo 2 >answer.txt
        (setsid sh -c 'while :; do echo 4 >answer.txt.new; sleep 0.01; done' &)
        belljar-submit
    """
    done = evaluations.run(agent=cheat)
    report = done.data("submissions/agent-1/report.json")
    assert report["score"] in (2, None)
    assert report["pass_rate"] <= 0.5
    assert evaluations.leftovers() == []


def test_the_judge_offers_an_agent_nothing_but_its_own_submissions(evaluations):
    evaluations.write(counting())
    scan = """
        url=http://judge.belljar.internal/api/v1
        ask() { printf '%s ' "$1"; shift; curl -s -m 10 -o /tmp/answer -w '%{http_code}\\n' "$@"; }
        ask control -H "Authorization: Bearer $BELLJAR_TOKEN" $url/history
        ask stranger -H "Authorization: Bearer 0123456789abcdef0123456789abcdef" $url/history
        ask register -d '{"task_id": "count", "run_id": "other", "admin_secret": "x"}' $url/register
        ask tasks $url/tasks
        ask runs $url/runs/run-1/history
        ask dotdot --path-as-is $url/../../etc/passwd
        echo x >x.tar
        ask auto -F kind=auto -F token=$BELLJAR_TOKEN -F archive=@x.tar $url/submit
        python3 - <<'END'
import socket
def answers(port):
    try:
        with socket.create_connection(("judge.belljar.internal", port), 5) as s:
            s.settimeout(5)
            s.sendall(b"GET / HTTP/1.1\\r\\nHost: judge.belljar.internal\\r\\n\\r\\n")
            said = s.recv(100)
            return bool(said) and b"403" not in said
    except OSError:
        return False
PORTS = 21, 22, 23, 25, 53, 80, 110, 443, 2375, 3128, 5432, 6443, 8000, 8080, 8443, 9090
print("open", [port for port in PORTS if answers(port)])
END
    """
    done = evaluations.run(agent=scan)
    answers = dict(line.split(" ", 1) for line in done.output().splitlines())
    assert answers.pop("open") == "[80]"
    assert answers.pop("control") == "200"
    assert answers.pop("stranger") == "401"
    assert answers.pop("auto") in ("400", "403")
    assert set(answers.values()) == {"404"}


def test_another_trials_token_is_of_no_use(evaluations):
    """Both know their tokens; neither can reach anything of the other, so the only way is to guess."""
    evaluations.write(counting(), counting(task_id="other"))
    agent = """
        history=http://judge.belljar.internal/api/v1/history
        for number in 1 2 3 4; do
            guess=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n')
            curl -s -m 10 -o /dev/null -w '%{http_code}\\n' "$history?token=$guess"
        done
        curl -s -m 10 "$history?run_id=run-1&task_id=other&token=$BELLJAR_TOKEN"
    """
    done = evaluations.run("--max-workers", "2", agent=agent)
    assert done.output().count("401") == 4
    assert '"task_id":"other"' not in done.output().replace(" ", "")
    assert done.result("other")["outcome"] == "failed"


def test_links_devices_and_floods_in_an_archive_are_refused_and_the_judge_goes_on(evaluations):
    evaluations.write(counting(submit_paths=["."]))
    attack = r"""
        cat >/tmp/attack.py <<'END'
import gzip, io, os, subprocess, tarfile, zlib
URL = "http://judge.belljar.internal/api/v1/submit"

def send(name, path):
    said = subprocess.run(["curl", "-s", "-m", "100", "-o", "/dev/null", "-w", "%{http_code}",
        "-F", "token=" + os.environ["BELLJAR_TOKEN"], "-F", "archive=@" + path, URL], capture_output=True, text=True)
    print(name, said.stdout, flush=True)

def made(name, *members):
    with tarfile.open(f"/tmp/{name}.tar.gz", "w:gz") as archive:
        for path, kind, link in members:
            member = tarfile.TarInfo(path)
            member.type, member.linkname = kind, link
            archive.addfile(member)
    send(name, f"/tmp/{name}.tar.gz")

made("link-out", ("answer.txt", tarfile.SYMTYPE, "/etc/passwd"))
made("link-up", ("answer.txt", tarfile.SYMTYPE, "../../../etc/passwd"))
made("hard-link", ("answer.txt", tarfile.LNKTYPE, "/etc/passwd"))
made("through", ("d", tarfile.SYMTYPE, ".."), ("d/answer.txt", tarfile.REGTYPE, ""))
made("device", ("answer.txt", tarfile.CHRTYPE, ""))
made("fifo", ("answer.txt", tarfile.FIFOTYPE, ""))
made("absolute", ("/tmp/answer.txt", tarfile.REGTYPE, ""))
made("dotdot", ("../answer.txt", tarfile.REGTYPE, ""))

header = tarfile.TarInfo("answer.txt")
header.size = 10 << 30
squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
zeros = bytes(1 << 22)
with open("/tmp/zeros.tar.gz", "wb") as file:
    file.write(squeeze.compress(header.tobuf(tarfile.GNU_FORMAT)))
    for _ in range(10 << 8):
        file.write(squeeze.compress(zeros))
    file.write(squeeze.flush())
send("zeros", "/tmp/zeros.tar.gz")
END
        python3 /tmp/attack.py
        echo 4 >answer.txt; belljar-submit
    """
    done = evaluations.run(agent=attack)
    refused = dict(
        line.split() for line in done.output().splitlines() if len(line.split()) == 2 and "-" not in line[:1]
    )
    names = ("link-out", "link-up", "hard-link", "through", "device", "fifo", "absolute", "dotdot", "zeros")
    assert {name: refused[name] for name in names} == dict.fromkeys(names, "400") | {"zeros": refused["zeros"]}
    assert refused["zeros"] in ("400", "413")
    assert (done.result()["outcome"], done.result()["agent_submissions"]) == ("passed", 1)


def test_a_judge_that_is_killed_midway_is_followed_by_another_and_never_a_zero(evaluations):
    mark = f"3.{time.time_ns()}"
    evaluations.write(counting(judge__eval_cmd=f"sleep {mark}; " + GRADE))
    run = evaluations.start("--agent-command", "echo 4 >answer.txt")
    killed = kill_first(mark)
    run.wait()
    assert killed.pids, "nothing was killed"
    assert (run.result()["outcome"], run.result()["score"]) == ("passed", 100.0)
    assert (run.file("submissions/auto-1/try-1/error.txt")).read_text()


def test_a_sandbox_that_dies_under_the_agent_is_no_success_and_no_zero(evaluations):
    evaluations.write(counting())
    mark = f"1000.{time.time_ns()}"
    run = evaluations.start("--agent-command", f"echo 4 >answer.txt; sleep {mark}")
    killed = kill_first(mark)
    run.wait()
    assert killed.pids, "nothing was killed"
    assert (run.result()["outcome"], run.result()["score"]) == ("sandbox_died", None)
    assert run.code == 3
    assert evaluations.leftovers() == []


class kill_first(threading.Thread):  # noqa: N801 - reads as what it does
    """Kills the first sandbox in which a command with some text runs, from outside."""

    def __init__(self, marker: str) -> None:
        super().__init__(daemon=True)
        self._marker = marker
        self.pids: list[int] = []
        self.start()

    def run(self) -> None:
        given_up = time.monotonic() + 60
        while not self.pids and time.monotonic() < given_up:
            self.pids = [pid for pid in inits_around(f"sleep\0{self._marker}") if Path(f"/proc/{pid}").exists()]
            time.sleep(0.02)
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)


ISOLATED = r"""
answer=$(belljar-submission sh work.sh 2>errors </dev/null)
score=0; [ "$answer" = "$(cat tests/hidden.txt)" ] && score=1
echo "{\"score\": $score, \"pass_rate\": $score}" >"$BELLJAR_RESULT"
"""


def test_isolated_code_sees_neither_the_tests_nor_the_result_and_is_scored_by_what_it_prints(evaluations):
    evaluations.write(
        counting(
            submit_paths=["work.sh"],
            work__setup_cmds=["echo true >work.sh"],
            judge__eval_cmd=ISOLATED,
            judge__isolate_submission=True,
        )
    )
    agent = f"""
        cat >work.sh <<'END'
        {NO_TESTS}; env | grep BELLJAR_RESULT; ls tests
        for name in /tmp/belljar-*/result.json; do echo '{{"score": 99, "pass_rate": 1.0}}' >$name; done
        kill -9 -1
END
        belljar-submit
        echo 'curl -s -m 5 http://submission.belljar.internal/; echo canary-of-the-tests' >work.sh; belljar-submit
    """
    done = evaluations.run(agent=agent)
    reports = [done.data(f"submissions/agent-{number}/report.json") for number in (1, 2)]
    assert [(report["score"], report["valid"]) for report in reports] == [(0, True), (1, True)]
    assert done.result()["outcome"] == "passed"
    assert evaluations.leftovers() == []


def test_work_that_cannot_be_taken_is_a_zero_unless_something_better_was_submitted(evaluations):
    """An agent can bring that about, so it is no failure of the machine."""
    spoil = "rm -f answer.txt; ln -s /etc answer.txt"
    evaluations.write(counting())
    for cheat in (spoil, "rm answer.txt; mkfifo answer.txt; exec 3<>answer.txt", "rm answer.txt; mkdir answer.txt"):
        done = evaluations.run(agent=cheat)
        assert (done.result()["outcome"], done.result()["score"]) == ("failed", 0.0), cheat
    done = evaluations.run(agent=f"echo 2 >answer.txt; belljar-submit; {spoil}")
    assert (done.result()["outcome"], done.result()["score"]) == ("failed", 50.0)


def test_a_directory_is_submitted_however_it_is_named(evaluations):
    setup = ["mkdir -p work/deep", "echo 1 >work/deep/answer.txt"]
    evaluations.write(
        counting(submit_paths=["work/"], work__setup_cmds=setup, judge__eval_cmd="cd work/deep\n" + GRADE)
    )
    done = evaluations.run(agent="echo 4 >work/deep/answer.txt")
    assert (done.result()["outcome"], done.result()["score"]) == ("passed", 100.0)


HOLD_CONNECTIONS = """
cat >/tmp/hold.py <<'END'
import socket, time
held = []
address = socket.gethostbyname("judge.belljar.internal")
for _ in range(300):
    try:
        held.append(socket.create_connection((address, 80), 3))
        held[-1].sendall(b"POST /api/v1/submit HTTP/1.1\\r\\nHost: judge.belljar.internal\\r\\n"
            b"Content-Type: multipart/form-data; boundary=x\\r\\nContent-Length: 1000\\r\\n\\r\\n--x\\r\\n")
    except OSError:
        break
print("held", len(held), flush=True)
while True:
    held[0].sendall(b"x")
    time.sleep(1)
END
python3 /tmp/hold.py
"""


def test_an_agent_that_holds_all_connections_to_the_judge_keeps_no_other_from_it(evaluations):
    evaluations.write(counting(), counting(task_id="other", cwd="/home/workspace/other"))
    honest = "sleep 6; echo 4 >answer.txt; belljar-submit"  # the other one has begun by then
    agent = f"case $PWD in */count) {HOLD_CONNECTIONS} ;; *) {honest} ;; esac"
    done = evaluations.run("--max-workers", "2", "--timeout", "12", agent=agent)
    assert int(done.output().split()[1]) > 256
    assert (done.result("other")["outcome"], done.result("other")["agent_submissions"]) == ("passed", 1)
    assert "concurrency" not in done.err


SPOIL = {
    "a link that leads out": "ln -sf /etc/passwd answer.txt",
    "a name that is no text": "rm answer.txt; mkdir answer.txt; touch \"$(printf 'answer.txt/\\377')\"",
    "no rights to read it": "chmod 0 answer.txt",
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_an_agent_cannot_withdraw_a_score_by_a_last_state_that_is_refused(evaluations, spoil):
    evaluations.write(counting())
    done = evaluations.run(agent=f"echo 2 >answer.txt; belljar-submit; {spoil}")
    assert (done.result()["outcome"], done.result()["score"]) == ("failed", 50.0)
    assert "the last state of the work" in done.result()["detail"]


def test_an_agent_cannot_withdraw_a_score_by_stopping_what_is_started_in_its_sandbox(evaluations):
    evaluations.write(counting())
    stop = """
import os, signal
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            try: os.kill(int(name), signal.SIGSTOP)
            except OSError: pass
"""
    agent = f"echo 2 >answer.txt; belljar-submit; cat >/tmp/stop.py <<'END'\n{stop}END\npython3 /tmp/stop.py"
    done = evaluations.run("--timeout", "5", agent=agent)
    assert (done.result()["outcome"], done.result()["score"]) == ("timeout_graded", 50.0)


def test_submissions_are_kept_on_another_file_system_than_the_state(evaluations):
    evaluations.write(counting())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as results:
        assert Path(results).stat().st_dev != evaluations.directory.stat().st_dev
        evaluations.results = Path(results)
        done = evaluations.run(agent="echo 4 >answer.txt; belljar-submit")
        assert (done.result()["outcome"], done.result()["agent_submissions"]) == ("passed", 1)
        assert sorted(path.name for path in done.directory.iterdir()) == ["count", "summary.json"]


def test_a_forged_score_is_invalid_if_the_grader_was_ended_even_with_few_tests_passed(evaluations):
    rescale = {"kind": "linear", "lower": 0, "upper": 10}
    evaluations.write(
        counting(
            submit_paths=["work.sh"],
            work__setup_cmds=["echo true >work.sh"],
            judge__eval_cmd=RUN_WORK,
            judge__selection="score_first",
            judge__rescale=rescale,
        )
    )
    forged = FAKE.replace("1.0}", "0.5}")
    done = evaluations.run(agent=f'echo "{forged}; exit 3" >work.sh; belljar-submit; echo true >work.sh')
    report = done.data("submissions/agent-1/report.json")
    assert (report["valid"], report["exit_code"]) == (False, 3)
    assert done.result()["best_score"] == 1


def test_a_submission_that_uses_up_the_judges_memory_is_graded_and_counts(evaluations):
    evaluations.write(
        counting(
            submit_paths=["work.sh"],
            work__setup_cmds=["echo true >work.sh"],
            judge__eval_cmd=RUN_WORK,
            judge__mem_limit="128m",
        )
    )
    eat = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        kept = [bytearray(b"x" * (8 << 20)) for _ in range(40)]
        time.sleep(1000)
time.sleep(3)
"""
    agent = f"cat >work.sh <<'END'\npython3 -c '{eat}'\nexit 1\nEND\nbelljar-submit"
    done = evaluations.run("--max-submissions", "1", agent=agent)
    report = done.data("submissions/agent-1/report.json")
    assert (done.result()["outcome"], done.result()["score"]) == ("failed", 0.0)
    assert not report["valid"]


EAT_MEMORY = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork() == 0:
                kept = [bytearray(b"x" * (1 << 20)) for _ in range(400)]
            else:
                os.wait()
time.sleep(0.5)
"""


@pytest.mark.long
def test_an_isolated_submission_that_uses_up_its_memory_is_a_zero(evaluations):
    """Its processes keep the grader's later commands from being started; that is no failure of the judge."""
    often = "for n in 1 2 3 4 5 6; do belljar-submission sh work.sh >/dev/null 2>&1 </dev/null; done\n" + ISOLATED
    evaluations.write(
        counting(
            submit_paths=["work.sh"],
            work__setup_cmds=["echo true >work.sh"],
            judge__eval_cmd=often,
            judge__isolate_submission=True,
            judge__mem_limit="96m",
        )
    )
    done = evaluations.run(agent=f"cat >work.sh <<'END'\npython3 -c '{EAT_MEMORY}'\nEND\nbelljar-submit; true")
    assert (done.result()["outcome"], done.result()["score"]) == ("failed", 0.0), done.err
