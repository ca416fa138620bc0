from pathlib import Path

import pytest

from belljar.discovery import ToolNotFoundError
from belljar.discovery.asking import Machine
from belljar.discovery.node import ask
from tests.discovery.machines import SECRET, PlayedMachine

REMEDY = "name the host instead: presets: [{node: registry.corp.example}] in a policy, or --allow registry.corp.example"


@pytest.fixture
def npm(played: PlayedMachine) -> PlayedMachine:
    played.install_npm()
    played.env["PATH"] = f"{played.root}/usr/bin"
    return played


def test_with_nothing_configured_it_is_what_npm_says_itself(npm):
    assert npm.hosts("node") == [("public.corp.example", 443, "npm's registry")]


def test_npm_itself_is_not_run(npm):
    npm.discover("node")
    assert not (npm.root / "traces").exists()


def test_a_private_registry_and_one_for_a_scope(npm):
    npm.write(
        "~/.npmrc",
        f"""
        ; registry=https://comment.corp.example
        # registry=https://comment.corp.example
        registry = "https://me:{SECRET}@registry.corp.example/npm/"
        @corp:registry=http://npm.corp.example:4873
        @empty:registry=
        replace-registry-host=never
        proxy=http://proxy.corp.example:3128
        //registry.corp.example/:_authToken={SECRET}
        no value
        """,
    )
    assert npm.hosts("node") == [
        ("npm.corp.example", 4873, "npm's registry for @corp"),
        ("registry.corp.example", 443, "npm's registry"),
    ]


@pytest.mark.parametrize(
    ("path", "env"),
    [
        ("~/.npmrc", {}),
        ("usr/etc/npmrc", {}),
        ("etc/npmrc", {}),
        ("usr/lib/node_modules/npm/npmrc", {}),
        ("~/.config/npmrc", {"NPM_CONFIG_USERCONFIG": "home/.config/npmrc"}),
        ("etc/other", {"npm_config_globalconfig": "etc/other"}),
    ],
)
def test_every_file_of_settings(npm, path, env):
    npm.env |= {name: f"{npm.root}/{value}" for name, value in env.items()}
    npm.write(path, "registry=https://registry.corp.example")
    assert npm.hosts("node") == [("registry.corp.example", 443, "npm's registry")]


def test_variables_come_before_the_user_and_the_user_before_the_machine(npm):
    npm.write("etc/npmrc", "registry=https://machine.corp.example\n@corp:registry=https://machine.corp.example:8443")
    npm.write("~/.npmrc", "registry=https://user.corp.example\n@corp:registry=https://${WHERE}.corp.example")
    npm.env["WHERE"] = "scope"
    assert [host for host, _, _ in npm.hosts("node")] == ["scope.corp.example", "user.corp.example"]
    npm.env["NPM_CONFIG_REGISTRY"] = "https://variable.corp.example"
    assert [host for host, _, _ in npm.hosts("node")] == ["scope.corp.example", "variable.corp.example"]


def test_npm_is_not_installed(played):
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("node")
    assert str(caught.value) == f"npm is not installed here, so its registry cannot be asked for; {REMEDY}"


def test_a_program_that_stands_in_for_npm(played):
    shim = played.install("npm")
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("node")
    problem = f"{shim} is not npm, but a program that looks for it"
    assert str(caught.value) == f"{problem}, so its registry cannot be asked for; {REMEDY}"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("registry=7", "no host is named in npm's configuration"),
        ("registry=file:///srv/npm", "no host is named in npm's configuration"),
        (
            f"registry=http://me:{SECRET}@10.2.0.7:4873",
            "no host is named in npm's configuration (10.2.0.7 is an address: put it in egress.allowed_cidrs)",
        ),
    ],
    ids=["a number", "a directory", "an address"],
)
def test_settings_without_a_host(npm, settings, problem):
    npm.write("~/.npmrc", settings)
    with pytest.raises(ToolNotFoundError) as caught:
        npm.discover("node")
    assert str(caught.value) == f"{problem}; {REMEDY}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("lib/utils/config/definitions.js", "define('registry', {\n  default: 'https://old.corp.example/',\n"),
        ("lib/config/defaults.js", "    'rebuild-bundle': true,\n    registry: 'https://old.corp.example/',\n"),
        (
            "../@npmcli/config/lib/definitions/definitions.js",
            "define('registry', { default: 'https://old.corp.example' })",
        ),
    ],
    ids=["npm 7", "npm 6", "Debian"],
)
def test_where_other_versions_of_npm_have_their_default(npm, path, text):
    package = npm.root / "usr/lib/node_modules/npm"
    (package / "node_modules/@npmcli/config/lib/definitions/definitions.js").write_text("nothing")
    npm.write(str(Path("usr/lib/node_modules/npm") / path), text)
    assert npm.hosts("node") == [("old.corp.example", 443, "npm's registry")]


def test_an_npm_that_does_not_tell_its_default(npm):
    definitions = npm.root / "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js"
    definitions.write_text("'replace-registry-host': 'https://wrong.corp.example'")
    with pytest.raises(ToolNotFoundError, match=r"/npm does not tell which registry npm uses by default, so its reg"):
        npm.discover("node")
    npm.write("~/.npmrc", "registry=https://registry.corp.example")
    assert len(npm.hosts("node")) == 1


@pytest.mark.skipif(not Path("/usr/bin/npm").exists(), reason="npm is not installed here")
def test_the_npm_of_this_machine():
    [named, *_] = ask(Machine(env={"PATH": "/usr/bin"}))
    assert named.url.startswith("http")
