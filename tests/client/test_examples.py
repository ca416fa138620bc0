"""The programs in examples/, as anybody would run them, with a real server and an internet that can be seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from belljar import Client
from belljar.client import NetworkPolicy
from tests.universe import addresses
from tests.universe.zone import at

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTS = {
    "github.com": addresses.PUBLIC,
    "api.openai.com": addresses.OTHER_PUBLIC,
    "facebook.com": addresses.EVIL,
    "www.twitter.com": addresses.EVIL,
}
REACHED, BLOCKED = "200", "000"


@pytest.fixture
def example(machine, universe):
    """Runs an example, and returns what it prints."""
    universe.zone.update({name: at(address) for name, address in HOSTS.items()})

    def run(name):
        environment = {**os.environ, "BELLJAR_SERVER": str(machine.state)}
        command = [sys.executable, str(EXAMPLES / f"{name}.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    yield run
    with Client(machine.state) as client:
        assert list(client.sandboxes()) == [], "every example ends what it has claimed"


@pytest.fixture
def reached(universe):
    """Returns which hosts were asked for something."""
    return lambda: {seen.what.split()[1] for seen in universe.internet.witness.of_kind("request")}


def test_allow_all(example, reached):
    assert example("allow_all")[1:] == [f"github.com: {REACHED}", f"facebook.com: {REACHED}"]
    assert reached() == {"github.com", "facebook.com"}


def test_block_all(example, reached, universe):
    assert example("block_all")[1:] == [f"github.com: {BLOCKED}", f"facebook.com: {BLOCKED}"]
    assert universe.internet.seen == []


def test_allow_domains(example, reached, universe):
    lines = example("allow_domains")
    assert lines[:2] == ["Mode: block-all", "Allowed domains: github.com, api.openai.com"]
    assert lines[2:5] == [f"github.com: {REACHED}", f"api.openai.com: {REACHED}", f"facebook.com: {BLOCKED}"]
    assert set(lines[5:]) <= {"denied: facebook.com (not_allowed_domain)"}  # told when it is written down
    assert reached() == {"github.com", "api.openai.com"}
    assert addresses.EVIL not in {contact.address for contact in universe.wire.contacts()}


def test_block_domains(example, reached, universe):
    lines = example("block_domains")
    assert lines[1:] == [f"github.com: {REACHED}", f"facebook.com: {BLOCKED}", f"www.twitter.com: {BLOCKED}"]
    assert reached() == {"github.com"}
    assert addresses.EVIL not in {contact.address for contact in universe.wire.contacts()}


def test_policy_at_creation(example, reached):
    assert example("policy_at_creation") == ["Mode: allow-all", f"github.com: {REACHED}"]
    assert reached() == {"github.com"}


def test_check_connectivity(example, universe):
    assert example("check_connectivity") == [
        f"GitHub response before blocking: {REACHED}",
        "Request blocked as expected",
        f"GitHub response after blocking: {BLOCKED}",
    ]
    assert len(universe.internet.witness.of_kind("request")) == 1


def test_watch_denials(example, reached):
    denied, opened, got = example("watch_denials")
    assert denied.startswith("denied: github.com: ")
    assert (opened, got) == ("github.com is open", "the agent got: github.com /")
    assert reached() == {"github.com"}


def test_a_live_flow_is_seen_and_reset_by_an_update(machine, universe):
    with Client(machine.state) as client, client.claim(network=NetworkPolicy("allow-all")) as sandbox:
        with sandbox.stream("curl -sN http://plain.test/stall") as running:
            assert next(iter(running)).text == "half"
            [flow] = sandbox.flows()
            assert (flow.destination, flow.bytes_down > 0) == ("plain.test:80", True)
            preview = sandbox.preview_network_policy(NetworkPolicy("block-all"))
            [flip] = [flip for flip in preview.flips if flip.live]
            assert (flip.destination, flip.before, flip.after) == ("plain.test:80", "allow", "deny")
            assert sandbox.update_network_policy(NetworkPolicy("block-all")).flows_reset == 1
            assert running.wait().exit_code != 0
        assert sandbox.flows() == []


def test_denials_are_told_on_the_command_line_as_they_happen(machine, universe):
    with Client(machine.state) as client, client.claim() as sandbox:
        sandbox.exec(f"curl -s --max-time 10 http://{addresses.EVIL}/")
        command = [sys.executable, "-m", "belljar", "denials", "--follow", "--server", str(machine.state)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None
            past = following.stdout.readline()
            assert f"{sandbox.id} tcp {addresses.EVIL}:80" in past
            assert "(not_allowed_address" in past
            sandbox.exec("curl -s --max-time 10 http://evil.test/")
            assert f"{sandbox.id} dns evil.test" in following.stdout.readline()
            following.kill()
        command = [sys.executable, "-m", "belljar", "top", "--server", str(machine.state)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"{addresses.EVIL}:80" in shown
        assert universe.internet.seen == []
