import json

import pytest

from belljar.discovery import ToolNotFoundError
from tests.discovery.machines import SECRET

REMEDY = "name the host instead: presets: [{node: registry.corp.example}]"


def test_a_private_registry_and_one_for_a_scope(played):
    config = {
        "registry": f"https://me:{SECRET}@registry.corp.example/npm/",
        "@corp:registry": "http://npm.corp.example:4873",
        "replace-registry-host": "never",
        "omit-lockfile-registry-resolved": True,
        "@null:registry": None,
        "proxy": "http://proxy.corp.example:3128",
    }
    played.install_saying("npm", json.dumps(config))
    assert played.hosts("node") == [
        ("npm.corp.example", 4873, "npm's registry for @corp"),
        ("registry.corp.example", 443, "npm's registry"),
    ]


def test_npm_is_asked_without_going_to_the_network(played):
    played.install("npm", f'echo "$*" >{played.root}/asked; echo "{{}}"')
    with pytest.raises(ToolNotFoundError):
        played.discover("node")
    assert (played.root / "asked").read_text() == "config list --json --no-update-notifier\n"


def test_npm_is_not_installed(played):
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("node")
    assert str(caught.value) == f"npm is not installed here, so its registry cannot be asked for; {REMEDY}"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "npm's answer is not the JSON it should be, so its registry cannot be asked for"),
        (f"https://me:{SECRET}@x", "npm's answer is not the JSON it should be, so its registry cannot be asked for"),
        ("[1]", "no host is named in npm's configuration"),
        ('{"registry": 7}', "no host is named in npm's configuration"),
        ('{"registry": "file:///srv/npm"}', "no host is named in npm's configuration"),
        (
            f'{{"registry": "http://me:{SECRET}@10.2.0.7:4873"}}',
            "no host is named in npm's configuration (10.2.0.7 is an address: put it in egress.allowed_cidrs)",
        ),
    ],
    ids=["nothing", "garbage", "a list", "a number", "a directory", "an address"],
)  # fmt: skip
def test_an_answer_without_a_host(played, answer, problem):
    played.install_saying("npm", answer)
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("node")
    assert str(caught.value) == f"{problem}; {REMEDY}"


def test_npm_fails(played):
    played.install("npm", f"echo {SECRET} >&2; echo {SECRET}; exit 1")
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("node")
    assert str(caught.value) == f"npm failed (exit status 1), so its registry cannot be asked for; {REMEDY}"
