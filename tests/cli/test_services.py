"""Named services of a run: what is taken from a file, what is refused, what is learned, and what the agent is told."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from belljar.cli.learning import learned
from belljar.cli.policyfiles import InvalidFileError, load_policy
from belljar.cli.runpolicy import OptionError, PolicyOptions, policy_of
from belljar.cli.summary import as_text, remedy
from belljar.gateway.audit.events import FlowAllowed, ServiceUsed
from belljar.policy import Mode, Syntax, read_policy, render
from belljar.policy.services import PROVIDERS, Budget
from belljar.sandbox.files.changes import Changes
from belljar.sandbox.ledger import Ledger, UsedDestination
from belljar.sandbox.notice import notice
from belljar.statedir import default_state

SERVICES = """\
services:
  anthropic: {}
  web: {port: 8080, at: 81}
  tool: {socket: /run/tool/tool.sock}
  db: {address: "10.1.2.3:5432"}
"""


@pytest.fixture
def saved(tmp_path):
    def save(text: str) -> str:
        path = tmp_path / "policy.yaml"
        path.write_text(f"mode: block-all\n{text}")
        return str(path)

    return save


def test_options_leave_the_services_of_a_file_as_they_are(saved):
    options = PolicyOptions(saved(SERVICES), Mode.ALLOW_ALL, allow=("a.example",), host_port=("22",))
    policy = policy_of(options, []).policy
    assert [service.name for service in policy.services] == ["anthropic", "web", "tool", "db"]
    assert policy.mode is Mode.ALLOW_ALL


@pytest.mark.parametrize(
    "name",
    [
        "docker.sock",
        "docker/metrics.sock",
        "podman/podman.sock",
        "containerd/containerd.sock",
        "containerd/containerd.sock.ttrpc",
        "containerd/debug.sock",
        "crio/crio.sock",
        "cri-dockerd.sock",
        "buildkit/buildkitd.sock",
        "k3s/containerd/x/y.sock",
        "user/4711/docker.sock",
        "user/4711/dockerd-rootless/api.sock",
        "user/4711/podman/podman.sock",
        "/var/lib/lxd/unix.socket",
        "/srv/containerd.sock.ttrpc",
    ],
)
def test_the_socket_of_an_engine_is_refused(saved, name):
    path = Path("/run") / name
    with pytest.raises(InvalidFileError, match=r"services\.x\.socket: .* of a container engine.*; lead it elsewhere"):
        policy_of(PolicyOptions(saved(f"services: {{x: {{socket: {path}}}}}")), [])


@pytest.mark.parametrize(
    ("path", "cause", "remedy"),
    [
        ("/proc/1/root/run/tool.sock", "is in /proc", "write the socket's own path"),
        ("/proc/self/cwd/tool.sock", "is in /proc", "write the socket's own path"),
        ("//proc/1/root/tool.sock", "is in /proc", "write the socket's own path"),
        ("/run/./../proc/1/root/x", "is not the path", "without .."),
        (f"/run/{'x' * 256}", "is longer than a path can be", "255 between two slashes"),
        ("/run" + "/x" * 2100, "is longer than a path can be", "at most 4095 bytes"),
        ("/run/\\0.sock", "is not the path", "write it from / on"),
    ],
)
def test_a_path_that_cannot_be_followed_is_refused_with_the_key_the_cause_and_the_fix(saved, path, cause, remedy):
    with pytest.raises(InvalidFileError) as refused:
        load_policy(saved(f'services: {{x: {{socket: "{path}"}}}}'))
    assert ":2: error: services.x.socket" in str(refused.value)
    assert cause in str(refused.value)
    assert remedy in str(refused.value)


def test_a_link_that_nobody_may_read_is_refused(saved, tmp_path, monkeypatch):
    """As another user's links in /proc are, to which a link anywhere may lead."""

    realpath = os.path.realpath

    def unreadable(path: str, **options: bool) -> str:
        if "link" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return realpath(path, **options)

    monkeypatch.setattr(os.path, "realpath", unreadable)
    with pytest.raises(InvalidFileError, match=r"services\.x\.socket.*Permission denied.*; name the path"):
        load_policy(saved(f"services: {{x: {{socket: {tmp_path}/link/x.sock}}}}"))


def test_the_state_of_a_server_is_refused(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("BELLJAR_SERVER", str(tmp_path / "state"))
    for state in (default_state(), tmp_path / "state"):
        with pytest.raises(InvalidFileError, match="a server's own directory"):
            policy_of(PolicyOptions(saved(f"services: {{x: {{socket: {state}/belljar.sock}}}}")), [])


def test_what_is_learned_of_services():
    services = read_policy(f"mode: block-all\n{SERVICES}", Syntax.YAML).policy.services
    ledger = Ledger()
    for name, port in (("web.belljar.internal", 81), ("a.example", 443), ("host.belljar.internal", 22)):
        ledger.write("s", FlowAllowed("tcp", name, (), port, None, "allowed_service", None))
    policy = read_policy(learned(ledger, services), Syntax.YAML).policy
    assert [str(pattern) for pattern in policy.egress.allowed_domains] == ["a.example"]
    assert [service.name for service in policy.services] == ["web"]
    assert [str(port) for port in policy.host_ports] == ["22"]


def test_no_option_is_told_to_open_a_service():
    assert remedy(UsedDestination("web.belljar.internal", None, 80, "tcp"), "service_not_allowed") is None


@pytest.mark.parametrize("mode", ["block-all", "allow-all"])
def test_the_agent_is_told_where_services_are_and_not_where_they_lead(mode):
    text = f"mode: {mode}\n{SERVICES}  llm: {{url: 'https://llm.corp.example', at: 8000}}\n"
    told = notice(read_policy(text, Syntax.YAML).policy).decode()
    where = {
        "anthropic": "http://anthropic.belljar.internal",
        "web": "web.belljar.internal:81",
        "tool": "tool.belljar.internal:80",
        "db": "db.belljar.internal:5432",
        "llm": "http://llm.belljar.internal:8000",
    }
    assert json.loads(told)["services"] == where
    assert all(place in json.loads(told)["summary"] for place in where.values())
    assert not any(hidden in told for hidden in ("/run/tool", "10.1.2.3", "llm.corp.example", "8080"))


BOUNDED = """\
services:
  anthropic: {at: 81, budget: {requests: 5}, paths: ["POST /v1/messages"], header: {x-api-key: "${MINE}"}}
  models: {url: "https://x.example"}
  db: {port: 5432}
"""


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:4000"])
def test_what_a_file_says_of_a_broker_holds_beside_the_option(saved, url):
    option = f"anthropic={url}" if url else "anthropic"
    service = policy_of(PolicyOptions(saved(BOUNDED), broker=(option,)), []).policy.services[0]
    assert service.target == (url or "https://api.anthropic.com")
    assert (service.at, service.paths, service.header, service.budget) == (
        81,
        ("POST /v1/messages",),
        (("x-api-key", "${MINE}"),),
        Budget(requests=5),
    )


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("db", "--broker db: services.db of {file} leads to port 5432, which is no broker"),
        ("db=https://x.example", "--broker db: services.db of {file} leads to port 5432, which is no broker"),
        (
            "models=https://y.example",
            (
                "--broker models: services.models of {file} has no header and sends no key, and this option would send "
                'one; write header: {{"authorization": "Bearer ${{MODELS_API_KEY}}"}} there'
            ),
        ),
    ],
)
def test_a_broker_that_contradicts_the_file_is_refused(saved, option, words):
    file = saved(BOUNDED)
    with pytest.raises(OptionError, match=re.escape(words.format(file=file))):
        policy_of(PolicyOptions(file, broker=(option,)), [])


def test_a_broker_of_the_file_can_be_named_by_the_option(saved):
    file = saved(BOUNDED)
    named = policy_of(PolicyOptions(file, broker=("models", "anthropic")), [])
    assert named == policy_of(PolicyOptions(file), [])


def test_bounds_of_options_are_those_of_every_broker_and_the_smaller_one_holds(saved):
    options = PolicyOptions(saved(BOUNDED), bounds={"requests": 9, "dollars": 2.5})
    budgets = {service.name: service.budget for service in policy_of(options, []).policy.services}
    assert budgets == {
        "anthropic": Budget(requests=5, dollars=2.5),
        "models": Budget(requests=9, dollars=2.5),
        "db": Budget(),
    }


def test_a_bound_without_a_broker_is_refused():
    with pytest.raises(OptionError, match="--max-at-once: there is no broker to bound; add --broker"):
        policy_of(PolicyOptions(bounds={"at_once": 1}), [])


@pytest.mark.parametrize("header", ["", ", header: {}", ', header: {Authorization: "Bearer ${MODELS_API_KEY}"}'])
def test_a_broker_that_sends_no_key_is_pointed_out_unless_the_file_says_so(saved, header):
    file = saved(f"services: {{models: {{url: 'https://llm.example'{header}}}}}")
    words = f"{file}:2: services.models: sends no key; write header: "
    found = policy_of(PolicyOptions(file), []).warnings
    assert [warning.startswith(words) for warning in found] == ([] if header else [True])
    shown = render(read_policy(Path(file).read_text(), Syntax.YAML).policy, Syntax.YAML)
    assert not read_policy(shown, Syntax.YAML).warnings


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        (("anthropic=localhost",), "--broker anthropic: is not a URL; write"),
        (("openai", "mine=http://llm.test"), "--broker mine: would send the key in the clear"),
        (("antropic",), '--broker: "antropic" is none of anthropic'),
    ],
)
def test_a_broker_that_cannot_be_is_named(brokers, words):
    with pytest.raises(OptionError, match=re.escape(words)):
        policy_of(PolicyOptions(broker=brokers), [])


def test_a_known_provider_at_another_place_is_asked_as_ever():
    policy = policy_of(PolicyOptions(broker=tuple(f"{name}=http://127.0.0.1:4000" for name in PROVIDERS)), []).policy
    for service in policy.services:
        assert set(PROVIDERS[service.name].paths) <= set(service.paths)


def test_a_summary_tells_why_requests_failed():
    ledger = Ledger()
    for service, refused in (("a", None), ("a", "path"), ("a", "path"), ("a", "cut.off"), ("b", "unreachable")):
        ledger.write("s", ServiceUsed(service, 200, refused, None, 0, 0, None, 0, 0, 0.1))
    text = click.unstyle(as_text(ledger, Changes([], complete=True)))
    assert "✓ a  4 requests, 0 tokens in, 0 out, 3 failed (path 2 times, cut.off)" in text
    assert "✗ b  1 request, 0 tokens in, 0 out, 1 failed (unreachable)" in text


def test_a_restriction_is_refused_where_nothing_would_enforce_it(tmp_path):
    options = ("--deny", "x.example", "--learn", "--no-network-isolation")
    command = [sys.executable, "-m", "belljar", "run", *options, "--", "true"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125
    assert "--deny, --learn: nothing can enforce or report this with --no-network-isolation" in done.stderr


def test_a_broker_is_refused_where_nothing_would_lead_to_it():
    for option in (("--broker", "anthropic"), ("--max-requests", "1")):
        command = [sys.executable, "-m", "belljar", "run", *option, "--no-network-isolation", "--", "true"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 125
        assert f"{option[0]}: no broker is within reach of the command with --no-network-isolation" in done.stderr
