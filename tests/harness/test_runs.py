"""`belljar eval run` from the outside: what an agent gets, what its work scores, and what is left of it."""

import json
import signal
import tarfile
from pathlib import Path

import pytest

from tests.harness.evaluations import GRADE, Evaluation, counting
from tests.universe import addresses, web


def test_an_agent_submits_while_it_works_and_the_best_submission_counts(evaluations):
    evaluations.write(counting())
    agent = """
        cat "$BELLJAR_PROMPT_FILE"; pwd
        echo 2 >answer.txt; belljar-submit
        echo 4 >answer.txt; sforge-submit --details
        echo 3 >answer.txt
        belljar-submit --list
    """
    done = evaluations.run(agent=agent)
    assert (done.code, done.result()["outcome"]) == (0, "passed"), done.err
    result = done.result()
    assert (result["score"], result["best_round"], result["best_pass_rate"]) == (100.0, "agent-2", 1.0)
    assert (result["agent_submissions"], result["auto_submissions"], result["total_rounds"]) == (2, 1, 3)
    assert [entry["score"] for entry in done.data("run_history.json")["entries"]] == [2, 4, 3]
    said = done.output()
    assert "Implement lru.LRU." in said  # the text of the task
    assert "no internet" in said
    assert "/home/workspace/count" in said
    assert "[PASSED] at least 4" in said
    assert "at least 3" not in said.partition("[PASSED]")[0]  # names of hidden tests, without --details
    assert done.data("submissions/agent-2/report.json")["score"] == 4
    assert "mean score 100.0, 1 of 1 trials scored" in done.out
    assert evaluations.leftovers() == []


def test_nothing_is_reached_without_the_internet_but_the_judge(evaluations, universe):
    evaluations.write(counting())
    universe.wire.contacts()
    agent = """
        curl -s -m 5 -o /dev/null http://plain.test/ && echo REACHED
        python3 -c 'import socket; socket.create_connection(("1.1.1.1", 443), 5).sendall(b"x")'
        getent hosts leak.evil.test
        curl -s -m 5 -o /dev/null -w 'judge %{http_code}\\n' http://judge.belljar.internal/api/v1/history
    """
    done = evaluations.run(agent=agent)
    assert "REACHED" not in done.output()
    assert "judge 401" in done.output()  # the control: it answers, and wants a token
    assert universe.wire.contacts() == set()
    network = done.data("network.json")
    assert network["complete"]
    assert [each["destination"] for each in network["reached"]] == ["judge.belljar.internal:80"]
    denied = {each["destination"]: each["reason"] for each in network["denied"]}
    assert denied["plain.test"] == "not_allowed_domain"
    assert denied["leak.evil.test"] == "not_allowed_domain"
    assert done.result()["denials"] == sum(each["times"] for each in network["denied"])


@pytest.mark.parametrize(
    ("internet", "option", "reaches"),
    [
        (True, None, True),
        (False, None, False),
        (True, "--disable-internet", False),
        (False, "--enable-internet", True),
    ],
)
def test_the_internet_is_what_the_flags_say_and_then_the_task(evaluations, internet, option, reaches):
    evaluations.write(counting(internet=internet))
    agent = "curl -s -m 10 -o /dev/null -w '%{http_code}\\n' http://plain.test/; true"
    done = evaluations.run(*([option] if option else []), agent=agent)
    assert done.output() == ("200\n" if reaches else "000\n")
    assert ("no internet" in done.file("agent_prompt.md").read_text()) is not reaches
    assert done.result()["internet"] is reaches
    assert done.data("seal.json")["policy"]["mode"] == ("allow-all" if reaches else "block-all")


def test_a_connection_that_setup_begins_does_not_get_out_and_is_not_the_agents(evaluations, universe):
    setup = [
        "(python3 -c 'import socket, time",
        's = socket.create_connection(("1.1.1.1", 80)); s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")',
        "print(s.recv(100), flush=True); time.sleep(60)' >early.txt 2>&1 &)",
    ]
    evaluations.write(counting(work__setup_cmds=setup))
    universe.wire.contacts()
    done = evaluations.run(agent="while ! [ -s early.txt ]; do sleep 0.05; done; cat early.txt")
    assert "403 Forbidden" in done.output() or "Error" in done.output()
    assert universe.wire.contacts() == set()


def test_the_settings_are_kept_with_their_sources_and_without_secrets(evaluations):
    evaluations.write(counting())
    secret = "sk-of-somebody-0123456789"
    environment = {"SFORGE_AGENT_API_KEY": secret, "BELLJAR_AGENT_EXTRA_ENV": "TOKEN_OF_MINE=hidden-value"}
    done = evaluations.run("--timeout", "60", agent="env | sort; cat /proc/self/environ", environment=environment)
    settings = done.data("run_config.json")["settings"]
    assert settings["timeout"] == {"value": 60.0, "source": "--timeout"}
    assert settings["agent_api_key"]["source"] == "SFORGE_AGENT_API_KEY"
    assert settings["internet"]["source"].endswith("count.json")
    assert "note: SFORGE_AGENT_API_KEY is set" in done.err
    assert "TOKEN_OF_MINE=hidden-value" in done.output()  # the user wanted the agent to have it
    kept = [path for path in done.directory.rglob("*") if path.is_file() and path.name != "agent_output.txt"]
    assert kept
    for path in kept:
        content = path.read_bytes()
        assert secret.encode() not in content
        assert b"hidden-value" not in content
    assert secret not in done.output() + done.out + done.err


def test_a_dry_run_prints_settings_and_makes_nothing(evaluations):
    evaluations.write(counting())
    done = evaluations.run("--dry-run", "--max-submissions", "3", agent="true")
    assert done.code == 0
    assert "max_submissions" in done.out
    assert "--max-submissions" in done.out
    assert not evaluations.results.exists()
    assert not evaluations.state.exists()


def test_a_budget_and_a_cooldown_hold_for_the_agent(evaluations):
    evaluations.write(counting())
    agent = "for i in 1 2 3; do belljar-submit; echo code $?; done"
    done = evaluations.run("--max-submissions", "2", agent=agent)
    assert done.output().count("code 0\n") == 2
    assert "limit reached" in done.output() or "exhausted" in done.output()
    done = evaluations.run("--submission-cooldown", "1h", agent=agent)
    assert done.output().count("code 0\n") == 1
    assert "cooldown" in done.output()


def test_work_is_graded_at_intervals_and_at_the_end_of_the_time(evaluations):
    evaluations.write(counting())
    agent = "echo 3 >answer.txt; while [ -e answer.txt ]; do sleep 0.2; done"
    done = evaluations.run("--timeout", "3", "--eval-interval", "1", agent=agent)
    result = done.result()
    assert (result["outcome"], result["score"], result["timed_out"]) == ("timeout_graded", 75.0, True)
    assert result["auto_submissions"] >= 2
    assert "submitted as auto-1" in done.file("auto_eval_ticks.log").read_text()
    assert done.code == 0


def test_each_automatic_submission_keeps_the_state_that_it_was(evaluations):
    evaluations.write(counting())
    agent = "n=1; while :; do n=$((n + 1)); echo $n >next; mv next answer.txt; sleep 0.1; done"
    done = evaluations.run("--timeout", "4", "--eval-interval", "1", agent=agent)
    names = [f"auto-{number}" for number in range(1, done.result()["auto_submissions"] + 1)]
    answers = [answer_in(done.file(f"submissions/{name}/submission.tar.gz")) for name in names]
    assert len(set(answers)) > 1  # two of them may be the same state, if the machine is slow
    assert answers == sorted(answers)
    assert not done.file("auto.tar.gz").exists()


def answer_in(archive: Path) -> int:
    """Return the answer that was submitted."""
    with tarfile.open(archive) as found:
        name = next(name for name in found.getnames() if name.endswith("answer.txt"))
        answer = found.extractfile(name)
        assert answer is not None
        return int(answer.read())


@pytest.mark.parametrize(
    ("changes", "agent", "outcome", "detail"),
    [
        ({"work__setup_cmds": ["echo oh dear >&2", "exit 7"]}, "true", "install_error", "oh dear"),
        ({"work__setup_cmds": ["curl -m 5 http://plain.test/"]}, "true", "install_error", "without a network"),
        ({}, "exit 3", "agent_error", "exited with 3"),
        ({}, "no-such-program", "agent_error", "exited with 127"),
        ({"judge__eval_cmd": "sleep 60", "judge__eval_timeout": 1}, "true", "grader_timeout", "judge.eval_timeout"),
        ({"judge__setup_cmds": ["exit 9"]}, "true", "grader_error", "judge.setup_cmds exited with 9"),
    ],
)
def test_a_trial_that_cannot_be_scored_says_why_and_has_no_score(evaluations, changes, agent, outcome, detail):
    evaluations.write(counting(**changes))
    done = evaluations.run(agent=agent)
    result = done.result()
    assert (result["outcome"], result["score"]) == (outcome, None)
    assert detail in result["detail"]
    assert done.code == 3
    assert "no score, 0 of 1 trials scored" in done.out
    assert evaluations.leftovers() == []


def test_a_score_of_zero_without_a_valid_submission_is_explained(evaluations):
    evaluations.write(counting(judge__eval_cmd="echo no result; exit 3"))
    result = evaluations.run(agent="true").result()
    assert (result["outcome"], result["score"]) == ("failed", 0.0)
    assert "no submission is valid; auto-1: " in result["detail"]


def test_an_agent_that_fails_after_it_has_submitted_is_scored(evaluations):
    evaluations.write(counting())
    done = evaluations.run(agent="echo 2 >answer.txt; belljar-submit; exit 5")
    result = done.result()
    assert (result["outcome"], result["score"], result["agent_exit_code"]) == ("failed", 50.0, 5)


def test_a_setup_that_takes_too_long_is_ended(evaluations):
    evaluations.write(counting(work__setup_cmds=["sleep 100"]))
    done = evaluations.run("--setup-timeout", "1", agent="true")
    assert done.result()["outcome"] == "install_error"
    assert "took more than 1 s" in done.result()["detail"]


def test_a_mean_says_how_many_trials_it_covers(evaluations):
    evaluations.write(counting(), counting(task_id="broken", work__setup_cmds=["exit 1"]))
    done = evaluations.run("--max-workers", "2", agent="true")
    assert done.code == 3
    assert "mean score 25.0, 1 of 2 trials scored" in done.out
    summary = json.loads((done.directory / "summary.json").read_text())
    assert summary["outcomes"] == {"failed": 1, "install_error": 1}
    shown = evaluations.call("show", "run-1", "--results", str(evaluations.results))
    assert "mean score 25.0, 1 of 2 trials scored" in shown.communicate()[0]
    assert shown.returncode == 3


def test_the_reference_solution_is_shown_to_the_oracle_alone(evaluations):
    evaluations.write(counting())
    solution = evaluations.tasks / "count.solution"
    solution.mkdir()
    (solution / "solve.sh").write_text("echo 4 >answer.txt\n")
    done = evaluations.run("--agent", "oracle")
    assert (done.result()["outcome"], done.result()["agent_submissions"]) == ("passed", 1)
    done = evaluations.run(agent="ls /belljar; find / -name solve.sh 2>/dev/null; true")
    assert "sol" not in done.output()


def test_a_run_does_not_overwrite_another(evaluations):
    evaluations.write(counting())
    evaluations.run(agent="true", run_id="once")
    evaluations.write(counting(task_id="another"))
    again = evaluations.run(agent="true", run_id="once")
    assert again.code == 125
    assert "choose another --run-id" in again.err
    assert not again.file("run_config.json", "another").exists()


def test_ctrl_c_lets_trials_end_and_twice_cancels_them(evaluations):
    evaluations.write(counting(), counting(task_id="later"))
    agent = "echo started; sleep 2; echo 4 >answer.txt"
    run = evaluations.start("--max-workers", "1", "--agent-command", agent)
    wait_for_line(run, "agent")
    run.interrupt()
    assert run.wait() == 130
    assert {run.result(task)["outcome"] for task in ("count", "later")} == {"passed", "cancelled"}

    run = evaluations.start("--max-workers", "1", "--agent-command", "sleep 1000")
    wait_for_line(run, "agent")
    run.interrupt()
    wait_for_line(run, "press Ctrl-C again")
    run.interrupt()
    wait_for_line(run, "ending the trials")
    run.interrupt()  # an impatient user does not keep the sandboxes from being removed
    assert run.wait() == 130
    assert "Traceback" not in run.err
    assert {run.result(task)["outcome"] for task in ("count", "later")} == {"cancelled"}
    assert evaluations.leftovers() == []


def test_sigterm_cancels_a_run(evaluations):
    evaluations.write(counting())
    run = evaluations.start("--agent-command", "sleep 1000")
    wait_for_line(run, "agent")
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 130
    assert run.result()["outcome"] == "cancelled"
    assert evaluations.leftovers() == []


def test_limits_of_memory_hold_for_the_work_and_are_told(evaluations):
    evaluations.write(counting(judge__eval_cmd=GRADE))
    hog = "python3 -c 'x = bytearray(300 << 20); print(len(x))'"
    done = evaluations.run("--work-mem-limit", "128m", agent=hog)
    assert str(300 << 20) not in done.output()
    done = evaluations.run("--work-mem-limit", "1g", agent=hog)
    assert str(300 << 20) in done.output()


def wait_for_line(run: Evaluation, text: str) -> None:
    """Read what a run says until it has said something."""
    assert run.process.stderr is not None
    for line in run.process.stderr:
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}")


def test_a_judge_elsewhere_grades_what_the_agent_and_the_harness_submit(evaluations):
    evaluations.write(counting())
    server = evaluations.call(
        *("serve", "--port", "18090", "--tasks", str(evaluations.tasks)),
        *("--results", str(evaluations.directory / "judged"), "--state", str(evaluations.state)),
    )
    wait_for_line(Evaluation(server, evaluations.directory), "judging 1 tasks at http://127.0.0.1:18090")
    agent = """
        echo 4 >answer.txt; belljar-submit
        curl -s -m 10 -o /dev/null -w 'register %{http_code}\\n' -d '{}' http://judge.belljar.internal/api/v1/register
        curl -s -m 10 http://judge.belljar.internal:18090/
        echo 1 >answer.txt
    """
    done = evaluations.run("--judge-url", "http://host.docker.internal:18090", agent=agent)
    result = done.result()
    assert (result["outcome"], result["score"], result["best_round"]) == ("passed", 100.0, "agent-1")
    assert (result["agent_submissions"], result["auto_submissions"]) == (1, 1)
    assert "register 40" in done.output()  # it wants the admin secret
    assert "service_not_allowed" in done.output()  # the port that the server has outside
    assert done.data("submissions/agent-1/report.json")["score"] == 4
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0


def test_a_judge_that_cannot_be_reached_is_no_score_of_zero(evaluations):
    evaluations.write(counting())
    done = evaluations.run("--judge-url", "http://127.0.0.1:18091", agent="true")
    assert (done.result()["outcome"], done.result()["score"]) == ("environment_error", None)
    assert "http://127.0.0.1:18091 cannot be reached" in done.result()["detail"]
    assert done.code == 3


def test_the_models_api_is_reached_through_the_broker_and_the_key_stays_outside(evaluations, universe, monkeypatch):
    seen = []

    async def answer(call, request):
        seen.append(request.headers["x-api-key"])
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    monkeypatch.setitem(web.PAGES, "/v1", answer)
    evaluations.write(counting())
    agent = evaluations.directory / "agent.yaml"
    agent.write_text(
        "name: asking\nmodel_api: anthropic\ncommand: |\n"
        "  curl -s -m 20 -o /dev/null -w '%{http_code}\\n' -H 'content-type: application/json'"
        ' -d \'{"model": "any", "max_tokens": 1, "messages": []}\' "$ANTHROPIC_BASE_URL/v1/messages"\n'
        "  env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; curl -s -m 5 http://plain.test/ || echo closed\n"
    )
    secret = "sk-ant-of-the-operator-0123456789"
    environment = {
        "BELLJAR_AGENT_API_KEY": secret,
        "BELLJAR_AGENT_API_BASE_URL": f"http://127.0.0.1:{addresses.HTTP}",
    }
    done = evaluations.run("--agent", str(agent), environment=environment)
    assert done.output().startswith("200\n"), (done.output(), done.data("network.json"))
    assert seen == [secret]
    assert "closed" in done.output()
    assert secret not in done.output()
    assert done.data("network.json")["services"]["anthropic"]["requests"] == 1
    assert not [path for path in done.directory.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_an_agent_whose_api_has_no_key_is_refused_before_anything_is_made(evaluations):
    evaluations.write(counting())
    agent = evaluations.directory / "agent.yaml"
    agent.write_text("name: asking\nmodel_api: anthropic\ncommand: 'true'\n")
    done = evaluations.run("--agent", str(agent))
    assert done.code == 125
    assert "ANTHROPIC_API_KEY" in done.err
    assert not evaluations.results.exists()
