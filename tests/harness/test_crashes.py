"""A run that is killed leaves nothing behind once another has begun."""

import random
import time

import pytest

from tests.harness.evaluations import counting

MOMENTS = 20


@pytest.mark.long
def test_what_killed_runs_leave_is_removed_by_the_next(evaluations):
    evaluations.write(counting(), counting(task_id="other"))
    agent = "echo 4 >answer.txt; belljar-submit; (setsid sleep 1000 &); sleep 0.5"
    started = time.monotonic()
    assert evaluations.run(agent=agent).result()["outcome"] == "passed"
    whole = time.monotonic() - started
    moments = random.Random(27)
    had_leftovers = 0
    for _ in range(MOMENTS):
        run = evaluations.start("--agent-command", agent)
        time.sleep(moments.uniform(0, whole))  # it does not matter when: that is what is tested
        run.kill()
        had_leftovers += bool(evaluations.leftovers())
    assert had_leftovers, "no run was killed while it had anything"
    assert evaluations.run(agent="true").result()["outcome"] == "failed"
    assert evaluations.leftovers() == []


def test_a_killed_run_shows_its_lost_trials_and_keeps_those_that_had_ended(evaluations):
    evaluations.write(counting(), counting(task_id="endless", work__agent_query="Never end."))
    agent = 'case $PWD in *) grep -q "Never end" "$BELLJAR_PROMPT_FILE" && sleep 1000; echo 4 >answer.txt;; esac'
    run = evaluations.start("--max-workers", "2", "--agent-command", agent, run_id="killed")
    assert run.process.stderr is not None
    for line in run.process.stderr:
        if line == "count: done\n":
            break
    run.kill()
    shown = evaluations.call("show", "killed", "--results", str(evaluations.results))
    out, _ = shown.communicate()
    assert "mean score 100.0, 1 of 2 trials scored" in out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith("endless")] == [["endless", "-", "lost"]]
    assert shown.returncode == 3
    evaluations.run(agent="true")
    assert evaluations.leftovers() == []
