"""docs/network-isolation.md: each row of its tables for troubleshooting, reproduced."""

import asyncio
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from belljar.backends.interface import ImageMissingError
from belljar.errors import BelljarError
from belljar.harness.sandboxes import RuntimeSandbox
from belljar.harness.tasks.loading import load_tasks
from belljar.harness.trials.places import TaskSandboxes
from belljar.sandbox.layers import Layer, LayerName
from belljar.sandbox.spec import SandboxSpec
from tests.docs.test_docs import section
from tests.harness.evaluations import PATIENCE, Evaluations, counting
from tests.universe import addresses
from tests.universe.zone import at

AGENT = """\
name: asks
model_api: anthropic
command: curl -s -m 20 "$ANTHROPIC_BASE_URL/v1/models"
"""


class Row(NamedTuple):
    """A row, as the page has it."""

    symptom: str
    message: str
    remedy: str


ROWS = [
    Row(*cells)
    for cells in re.findall(
        r"^\| (.+?) \| `(.+?)` \| (.+) \|$", section("network-isolation.md", "Troubleshooting"), re.MULTILINE
    )
]


def say(evaluations: Evaluations, *words: str, **variables: str) -> str:
    """Run a command of `belljar eval`, and return all that it prints."""
    places = ("--tasks", str(evaluations.tasks), "--state", str(evaluations.state))
    process = evaluations.call(*words, *places, environment=variables)
    out, err = process.communicate(timeout=PATIENCE)
    return out + err


def run(evaluations: Evaluations, *words: str, agent: str = "true", **variables: str) -> str:
    """Run a trial of a shell command, and return all that is printed and written."""
    done = evaluations.run(*words, agent=agent, environment=variables)
    written = [path.read_text() for path in done.directory.glob("count/*") if path.suffix in (".txt", ".json")]
    return "\n".join([done.out, done.err, *written])


def ask_the_model(evaluations: Evaluations, **variables: str) -> str:
    """Run an agent that asks its model's API, and return the answer."""
    (evaluations.directory / "agent.yaml").write_text(AGENT)
    return evaluations.run("--agent", "./agent.yaml", environment=variables).output()


def without_an_engine(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return say(evaluations, "check", "count", "--backend", "docker", DOCKER_HOST="unix:///nonexistent.sock")


def without_a_key(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    (evaluations.directory / "agent.yaml").write_text(AGENT)
    return evaluations.run("--agent", "./agent.yaml").err


def behind_a_proxy(evaluations: Evaluations) -> str:
    """A machine that finds no name of the internet. The remedy is tried, too: with the proxy, the API is reached."""
    evaluations.write(counting())
    universe = evaluations.universe
    universe.zone.update({"api.anthropic.com": at(addresses.PUBLIC)})
    variables = {"ANTHROPIC_API_KEY": "sk-the-real-key", "SSL_CERT_FILE": str(universe.certificates.path)}
    answered = ask_the_model(evaluations, HTTPS_PROXY=f"http://{addresses.PUBLIC}:{addresses.PROXY}", **variables)
    assert "Belljar" not in answered
    del universe.zone["api.anthropic.com"]
    return ask_the_model(evaluations, **variables)


def with_half_a_url(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run_command(evaluations, BELLJAR_AGENT_API_BASE_URL="api.corp.example")


def run_command(evaluations: Evaluations, *options: str, **variables: str) -> str:
    """Run `eval run` where it does not come to a trial."""
    return say(evaluations, "run", "--task", "count", "--agent", "nop", "--dry-run", *options, **variables)


def download(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run(evaluations, agent="curl -sS -m 10 http://plain.test/; true")


def dial_an_address(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run(evaluations, agent="curl -sS -m 10 http://198.51.100.7/; true")


def download_in_setup(evaluations: Evaluations) -> str:
    evaluations.write(counting(work__setup_cmds=["curl -fsS -m 10 http://plain.test/"]))
    return run(evaluations)


def task_with_the_internet(evaluations: Evaluations) -> str:
    evaluations.write(counting(internet=True))
    return run_command(evaluations)


def with_both_flags(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run_command(evaluations, "--disable-internet", "--enable-internet")


def broken_seal(evaluations: Evaluations) -> str:
    """A layer that does not hold; there is no honest way to break one, so what the look returns is made up."""

    async def inside(*_: Any) -> list[Layer]:
        return [Layer(LayerName.FIREWALL, active=False, evidence="a datagram was sent", remedy=None)]

    runtime: Any = SimpleNamespace(context=SimpleNamespace(inside=inside))
    sandbox = RuntimeSandbox(runtime, SimpleNamespace(id="sb-1", backend="local"), SimpleNamespace())  # type: ignore[arg-type]
    return failure_of(sandbox.seal({"mode": "block-all"}))


def absent_judge(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run(evaluations, "--judge-url", "http://127.0.0.1:1")


def judge_with_tls(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run(evaluations, "--judge-url", "https://judge.corp.example")


def judge_with_another_secret(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    places = ("--tasks", str(evaluations.tasks), "--state", str(evaluations.directory / "judge"), "--port", "0")
    server = evaluations.call("serve", *places, environment={"BELLJAR_ADMIN_SECRET": "of-the-server-0123456789"})
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://\S+:\d+", line):
            break
    else:
        pytest.fail("the server has ended")
    try:
        return run(evaluations, "--judge-url", found[0], BELLJAR_ADMIN_SECRET="of-another-server-0123456789")
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)


def another_judge(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run(evaluations, agent="BELLJAR_JUDGE_URL=http://10.0.0.12:8080 belljar-submit; true")


def variable(name: str, value: str) -> Callable[[Evaluations], str]:
    """Set a variable of SForge's."""

    def reproduce(evaluations: Evaluations) -> str:
        evaluations.write(counting())
        return run_command(evaluations, **{name: value})

    return reproduce


def flag_for_kubernetes(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return run_command(evaluations, "--backend", "k8s")


def without_an_image(evaluations: Evaluations) -> str:
    """An engine that has no image at all."""
    evaluations.write(counting())
    [task] = load_tasks(evaluations.tasks)

    class Engine:
        backend = "docker"

        def open(self, spec: SandboxSpec, **_: Any) -> Any:
            raise ImageMissingError(f"there is no image {spec.image}")

    async def enter() -> None:
        sandboxes = TaskSandboxes(Engine(), 60)  # type: ignore[arg-type]
        async with sandboxes.open(task, task.work, SandboxSpec(), purpose="work", log=evaluations.directory / "log"):
            pass

    return failure_of(enter())


def image_without_commands(evaluations: Evaluations) -> str:
    evaluations.write(counting(work__setup_cmds=..., work__image_tag="0123456789ab"))
    return say(evaluations, "check", "count")


def judge_on_all_addresses(evaluations: Evaluations) -> str:
    evaluations.write(counting())
    return say(evaluations, "serve", "--host", "0.0.0.0")


def failure_of(awaitable: Any) -> str:
    """Return the message of what has to fail."""
    with pytest.raises(BelljarError) as failed:
        asyncio.run(awaitable)
    return str(failed.value)


REPRODUCTIONS: dict[str, Callable[[Evaluations], str]] = {
    "docker is not running": without_an_engine,
    "${ANTHROPIC_API_KEY} stands for nothing": without_a_key,
    "api.anthropic.com has no address": behind_a_proxy,
    "BELLJAR_AGENT_API_BASE_URL": with_half_a_url,
    "SFORGE_HTTPS_PROXY": variable("SFORGE_HTTPS_PROXY", "http://proxy.corp.example:8080"),
    "plain.test": download,
    "198.51.100.7": dial_an_address,
    "work.setup_cmds": download_in_setup,
    "internet": task_with_the_internet,
    "--disable-internet": with_both_flags,
    "the layer": broken_seal,
    "the judge at http://127.0.0.1:1 ": absent_judge,
    "--judge-url": judge_with_tls,
    "the judge at …": judge_with_another_secret,
    "10.0.0.12": another_judge,
    "--backend: Kubernetes": flag_for_kubernetes,
    "SFORGE_BACKEND": variable("SFORGE_BACKEND", "k8s"),
    "SFORGE_K8S_NAMESPACE": variable("SFORGE_K8S_NAMESPACE", "sforge"),
    "SFORGE_K8S_KUBECONFIG": variable("SFORGE_K8S_KUBECONFIG", "/home/me/.kube/config"),
    "SFORGE_K8S_IMAGE_REGISTRY": variable("SFORGE_K8S_IMAGE_REGISTRY", "registry.corp.example"),
    "SFORGE_K8S_NODE_SELECTOR": variable("SFORGE_K8S_NODE_SELECTOR", "pool=sforge"),
    "docker has no image": without_an_image,
    "is the image": image_without_commands,
    "0.0.0.0": judge_on_all_addresses,
}
"""By how the message begins."""


@pytest.mark.parametrize("row", ROWS, ids=[row.message for row in ROWS])
def test_a_row_says_what_is_printed(evaluations, row):
    [reproduce] = [found for start, found in REPRODUCTIONS.items() if row.message.startswith(start)]
    printed = reproduce(evaluations)
    expected = ".*?".join(re.escape(part.strip()) for part in row.message.split("…"))
    assert re.search(expected, printed, re.DOTALL), printed


def test_every_row_is_one_of_the_page_and_has_a_remedy():
    assert len(ROWS) == len(REPRODUCTIONS)
    assert all(row.remedy for row in ROWS)
