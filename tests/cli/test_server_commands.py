"""The commands that talk to a server, in processes of their own, against a real one over the in-memory backend."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from belljar.client import Client, Egress, NetworkPolicy, Rule
from tests.control.conftest import server  # noqa: F401 - a fixture

BELLJAR = str(Path(sys.executable).parent / "belljar")
PATIENCE = 60


class Cli:
    """The `belljar` command, and a client beside it."""

    def __init__(self, state: Path, client: Client) -> None:
        self.state, self.client = state, client

    def start(self, *words: str, **options: object) -> "subprocess.Popen[str]":
        environment = {**os.environ, "BELLJAR_SERVER": str(self.state), "NO_COLOR": "1"}
        return subprocess.Popen([BELLJAR, *words], env=environment, text=True, **options)  # type: ignore[call-overload,no-any-return]

    def run(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with self.start(*words, **pipes) as process:
            out, err = process.communicate(stdin, PATIENCE)
        assert "Traceback" not in err
        return process.returncode, out, err

    def result(self, *words: str) -> str:
        code, out, err = self.run(*words)
        assert code == 0, err
        return out


@pytest.fixture
def cli(server):  # noqa: F811
    with Client(server.state) as client:
        yield Cli(server.state, client)


@pytest.fixture
def jar(cli):
    with cli.client.claim(backend="memory", labels={"team": "red"}) as sandbox:
        yield sandbox


def test_sandboxes_are_listed(cli, jar):
    head, row = cli.result("ps", "--label", "team=red").splitlines()
    assert head.split()[:2] == ["SANDBOX", "STATUS"]
    assert [row.split()[index] for index in (0, 1, 2, 4, 5, 7)] == [
        jar.id, "running", "memory", "block-all", "1", "team=red",
    ]  # fmt: skip
    [listed] = json.loads(cli.result("ps", "--json", "--label", "team=red"))
    assert (listed["id"], listed["labels"]) == (jar.id, {"team": "red"})
    assert json.loads(cli.result("ps", "--json", "--label", "team=blue")) == []
    assert "write NAME=VALUE" in cli.run("ps", "--label", "team")[2]


def test_a_shell_completes_sandboxes(cli, jar, monkeypatch):
    monkeypatch.setenv("_BELLJAR_COMPLETE", "bash_complete")
    for words in ("exec", "stop", "inspect", "logs", "denials", "network get", "network allow"):
        monkeypatch.setenv("COMP_WORDS", f"belljar {words} {jar.id[:2]}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) + 1))
        assert f"plain,{jar.id}" in cli.result().splitlines()


def test_labels_do_not_move_the_cursor(cli):
    with cli.client.claim(backend="memory", labels={"evil": "\033[2J"}):
        assert "evil=\\x1b[2J" in cli.result("ps", "--label", "evil=\033[2J")


def test_the_exit_code_and_the_streams_of_exec_are_the_commands_own(cli, jar):
    assert cli.run("exec", jar.id, "--", "echo", "-n", "--server", "x") == (0, "-n --server x\n", "")
    assert cli.run("exec", jar.id, "false")[0] == 1
    assert cli.run("exec", jar.id, "--", "no-such-program") == (127, "", "no-such-program: not found\n")
    assert cli.run("exec", "--stdin", jar.id, "--", "cat", stdin="in\n")[1] == "in\n"
    assert "A=b" in cli.result("exec", "--env", "A=b", jar.id, "env").splitlines()
    assert cli.result("exec", "--workdir", "/tmp", jar.id, "pwd") == "/tmp\n"
    ended = "belljar: the command was ended after 0.01 s; --timeout gives it more\n"
    assert cli.run("exec", "--timeout", "0.01", jar.id, "--", "sleep", "60") == (124, "", ended)


def test_failures_of_belljars_own_are_125(cli, jar):
    code, _, err = cli.run("exec", jar.id[:-2], "--", "true")
    assert (code, f"did you mean {jar.id}?" in err) == (125, True)
    jar.pause()
    code, _, err = cli.run("exec", jar.id, "--", "true")
    assert (code, "resume it first" in err) == (125, True)
    assert cli.run("exec", "--env", "NO_SUCH_VARIABLE", jar.id, "true")[0] == 125


def test_want_of_memory_is_told_on_standard_error(server, cli, jar):  # noqa: F811
    server.world.programs["hog"] = lambda process: process.run_out_of_memory()
    code, out, err = cli.run("exec", jar.id, "hog")
    assert (code, out, err) == (137, "", "belljar: the sandbox ran out of memory, and something in it was killed\n")


def test_the_layers_of_a_sandbox_are_told(cli, jar):
    head, *rows = cli.result("inspect", jar.id).splitlines()
    assert head.split() == ["LAYER", "STATE", "EVIDENCE"]
    assert [row.split()[:2] for row in rows][-1] == ["user_namespace", "unknown"]
    told = json.loads(cli.result("inspect", "--json", jar.id))
    assert (told["id"], told["backend"], len(told["layers"])) == (jar.id, "memory", len(rows))
    assert cli.run("inspect", "nobody")[0] == 125


def test_leaving_exec_ends_the_command(server, cli, jar):  # noqa: F811
    with cli.start("exec", jar.id, "--", "sleep", "600") as process:
        commands = server.world.sandboxes[jar.id].commands
        given_up = time.monotonic() + PATIENCE
        while not commands:
            assert time.monotonic() < given_up
            time.sleep(0.01)
        process.kill()
        assert commands[0].wait(PATIENCE) == 137


def test_sandboxes_are_ended(cli):
    ours, others = [[cli.client.claim(backend="memory").id for _ in range(2)] for _ in range(2)]
    assert cli.result("stop", *ours).split() == ours
    assert cli.run("stop")[0] == 125
    code, _, err = cli.run("stop", ours[0])
    assert (code, "there is no sandbox" in err) == (125, True)
    assert set(others) <= set(cli.result("stop", "--all").split())
    assert list(cli.client.sandboxes()) == []
    assert "there are none at all" in cli.run("stop", "x")[2]


def test_a_policy_is_shown_and_set(cli, jar, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("mode: block-all\negress:\n  allowed_domains:\n    - github.com\n")
    code, out, err = cli.run("network", "set", jar.id, str(file))
    assert (code, out, err) == (0, "", "belljar: generation 2 is in force; 0 flows were reset\n")
    assert cli.result("network", "get", jar.id) == file.read_text()
    assert json.loads(cli.result("network", "get", "--format", "json", jar.id))["mode"] == "block-all"
    file.write_text("mode: allow-all\negress: {allowed_domains: [x.test]}")
    assert "nothing has changed" in cli.run("network", "set", "--dry-run", jar.id, str(file))[2]
    assert jar.get_network_policy().mode == "block-all"
    told = json.loads(cli.result("network", "set", "--json", jar.id, str(file)))
    assert (told["generation"], told["warnings"][0]["field"]) == (3, "egress.allowed_domains")
    file.write_text("mode: block-all\negress: {allowed_domains: [http://x/]}")
    code, _, err = cli.run("network", "set", jar.id, str(file))
    assert code == 125
    assert f"{file}:2: error: egress.allowed_domains[0]" in err


def test_services_are_set_and_got(cli, jar, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text('mode: block-all\nservices:\n  anthropic: {}\n  db: {address: "10.1.2.3:5432"}\n')
    assert cli.run("network", "set", jar.id, str(file))[0] == 0
    assert cli.result("network", "get", jar.id) == file.read_text()
    assert jar.get_network_policy().services == {"anthropic": {}, "db": {"address": "10.1.2.3:5432"}}
    jar.amend_network_policy(add={"services": {"db": {"port": 5432}}}, remove={"services": ["anthropic"]})
    assert jar.get_network_policy().services == {"db": {"port": 5432}}
    code, table, err = cli.run("network", "allow", jar.id, "web.belljar.internal")
    assert code == 1
    assert "service_not_allowed" in table
    assert "opened by services alone" in err


def test_destinations_are_allowed_and_denied_to_and_fro(cli, jar):
    table = cli.result("network", "allow", jar.id, "GitHub.com", "*.example.org", "192.0.2.7")
    assert [row.split()[:2] for row in table.splitlines()[1:]] == [["allow", "GitHub.com"], ["allow", "192.0.2.7"]]
    assert jar.get_network_policy() == NetworkPolicy(
        "block-all", Egress(allowed_domains=["github.com", "*.example.org"], allowed_cidrs=["192.0.2.7/32"])
    )
    assert "denied_by_rule" in cli.result("network", "deny", jar.id, "github.com", "a.example.org")
    assert jar.get_network_policy() == NetworkPolicy(
        "block-all",
        Egress(allowed_domains=["*.example.org"], allowed_cidrs=["192.0.2.7/32"]),
        rules=[Rule("deny", domains=["github.com"]), Rule("deny", domains=["a.example.org"])],
    )
    cli.result("network", "allow", jar.id, "github.com")
    policy = jar.get_network_policy()
    assert policy.egress.allowed_domains == ("*.example.org", "github.com")
    assert policy.rules == (Rule("deny", domains=["a.example.org"]),)
    cli.result("network", "allow", jar.id, "github.com")
    assert jar.get_network_policy() == policy, "what is so already is no change"


def test_in_allow_all_a_denial_is_lifted(cli, jar):
    jar.update_network_policy(NetworkPolicy("allow-all", Egress(denied_domains=["x.test"])))
    cli.result("network", "allow", jar.id, "x.test")
    assert jar.get_network_policy() == NetworkPolicy("allow-all")
    cli.result("network", "deny", jar.id, "x.test", "2001:db8::1")
    assert jar.explain("www.x.test").action == "deny"


def test_what_stays_closed_is_told(cli, jar):
    rules = [Rule("deny", domains=["github.com"], ports=[443], name="no git")]
    jar.update_network_policy(NetworkPolicy("block-all", rules=rules))
    code, out, _ = cli.run("network", "allow", jar.id, "github.com")
    assert (code, "denied_by_rule  rules[0]" in out) == (1, True)
    code, _, err = cli.run("network", "allow", jar.id, "*.com")
    assert (code, "every site under com" in err) == (125, True)


def test_a_destination_is_opened_for_a_time(cli, jar):
    out = cli.result("network", "allow", "--for", "10m", jar.id, "github.com")
    [grant] = jar.grants()
    assert (grant.seconds, grant.id in out) == (600, True)
    assert "is no length of time" in cli.run("network", "allow", "--for", "soon", jar.id, "x.test")[2]


def test_what_happened_is_told(cli, jar):
    jar.pause()
    jar.resume()
    with jar.events(after=0) as events:  # until all of it is written down
        while next(events).event != "sandbox.resumed":
            pass
    assert "sandbox.paused cause=request" in cli.result("logs", jar.id)
    told = [json.loads(line) for line in cli.result("logs", "--json", jar.id).splitlines()]
    assert told[-1]["event"] == "sandbox.resumed"
    with cli.start("logs", "--follow", jar.id, stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        while "sandbox.resumed" not in following.stdout.readline():
            pass
        jar.delete()
        assert "sandbox.deleted" in following.stdout.read()
    assert following.returncode == 0


def test_there_is_nothing_to_tell_of_denials_here(cli, jar):
    assert cli.result("denials", jar.id) == cli.result("denials", "--json") == ""


def test_top_is_printed_once_where_there_is_no_terminal(cli, jar):
    assert jar.id in cli.result("top")


def test_top_on_a_terminal_goes_on_until_q_and_leaves_it_as_it_was(cli, jar):
    controller, terminal = pty.openpty()
    seen = ""

    def see(text: str) -> None:
        nonlocal seen
        while text not in seen:
            assert select.select([controller], [], [], PATIENCE)[0], seen
            seen += os.read(controller, 65536).decode()

    with cli.start("top", stdin=terminal, stdout=terminal) as process:
        see(jar.id)
        with cli.client.claim(backend="memory") as other:
            see(other.id)
        os.write(controller, b"q")
        see("\033[?25h\033[?1049l")
        assert process.wait(PATIENCE) == 0
    assert seen.startswith("\033[?1049h\033[?25l")
    os.close(controller)
    os.close(terminal)


@pytest.mark.parametrize("words", [["ps"], ["top"], ["stop", "x"], ["network", "get", "x"], ["logs", "x"], ["denials"]])
def test_without_a_server_it_is_told_how_to_start_one(tmp_path, words):
    done = subprocess.run([BELLJAR, *words, "--server", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "start a server with `belljar serve`" in done.stderr


def test_the_wrong_token_is_told(server):  # noqa: F811
    words = [BELLJAR, "ps", "--server", f"http://127.0.0.1:{server.port}"]
    environment = {**os.environ, "BELLJAR_TOKEN": "wrong"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "belljar token show" in done.stderr) == (125, True)
    environment["BELLJAR_TOKEN"] = server.token
    assert subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0
