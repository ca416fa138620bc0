"""pip and uv, alone and together, with an index of their own and without."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.discovery import ToolNotFoundError
from belljar.discovery.asking import Machine
from belljar.discovery.hosts import locate
from belljar.discovery.python import _PRINT_DEFAULT, ask
from tests.discovery.machines import SECRET, PlayedMachine

DEFAULT = "https://public.corp.example/simple https://files.corp.example"
FILES = ("files.corp.example", 443, "files of the default index")


def install_python(played: PlayedMachine, program: str = "python3", config: str = "") -> Path:
    """Install a Python whose pip is configured like this."""
    listing = played.write(f"answers/{program}", config)
    script = f'case "$1" in -m) exec /bin/cat {listing};; -c) echo {DEFAULT};; esac'
    return played.install(program, script)


def test_pip_with_nothing_configured_uses_the_default_index(played):
    install_python(played)
    assert played.hosts("python") == [FILES, ("public.corp.example", 443, "pip's default index")]


def test_pip_with_private_indexes(played):
    install_python(
        played,
        config=f"""\
:env:.find-links='/opt/wheels http://wheels.corp.example:8000/'
global.index-url='https://me:{SECRET}@index.corp.example/simple'
global.cert='/etc/ssl/certs/corp.crt'
global.extra-index-url='\\nhttps://one.corp.example/simple\\nfile:///opt/index\\nhttp://two.corp.example'
install.index-url="https://o'install:{SECRET}@install.corp.example"
download.trusted-host='trusted.corp.example'
""",
    )
    assert played.hosts("python") == [
        ("index.corp.example", 443, "pip's index-url"),
        ("install.corp.example", 443, "pip's index-url"),
        ("one.corp.example", 443, "pip's extra-index-url"),
        ("two.corp.example", 80, "pip's extra-index-url"),
        ("wheels.corp.example", 8000, "pip's find-links"),
    ]


def test_an_extra_index_is_beside_the_default_index(played):
    install_python(played, config="global.extra-index-url='https://extra.corp.example'\nglobal.index-url=''")
    assert [host for host, _, _ in played.hosts("python")] == [
        "extra.corp.example",
        "files.corp.example",
        "public.corp.example",
    ]


def test_the_default_index_keeps_its_second_host_when_it_is_configured(played):
    install_python(played, config="global.index-url='https://public.corp.example/simple/'")
    assert played.hosts("python") == [FILES, ("public.corp.example", 443, "pip's index-url")]


@pytest.mark.parametrize("value", ["1", "true", "Yes"])
def test_without_an_index_only_links_are_left(played, value):
    links = "global.find-links='https://wheels.corp.example'"
    install_python(played, config=f"{links}\n:env:.no-index='{value}'")
    assert played.hosts("python") == [("wheels.corp.example", 443, "pip's find-links")]


def test_no_index_may_be_switched_off(played):
    install_python(played, config="global.no-index='false'")
    assert len(played.hosts("python")) == 2


def test_the_pip_on_the_path_is_asked_where_python3_has_none(played):
    played.install("python3", f'case "$1" in -m) exit 1;; -c) echo {DEFAULT};; esac')
    played.install_saying("pip", "global.index-url='https://index.corp.example'")
    assert played.hosts("python") == [("index.corp.example", 443, "pip's index-url")]


def test_the_python_that_runs_belljar_is_the_last_to_be_asked(played, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(install_python(played, "python-of-belljar")))
    assert played.hosts("python") == [FILES, ("public.corp.example", 443, "pip's default index")]


def test_neither_pip_nor_uv(played):
    played.env["UV_INDEX_URL"] = "https://index.corp.example"
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("python")
    assert str(caught.value) == (
        "neither pip nor uv answers here, so the package index cannot be asked for; "
        "name the host instead: presets: [{python: registry.corp.example}]"
    )


def test_a_default_index_that_nobody_tells(played):
    played.install_saying("pip", "")
    with pytest.raises(ToolNotFoundError, match=r"^no host is named in the configuration of pip and uv; name the"):
        played.discover("python")


def test_a_python_without_pip_still_knows_the_default_index():
    """Without site-packages there is only the wheel that ensurepip brings along."""
    command = [sys.executable, "-I", "-S", "-c", _PRINT_DEFAULT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this Python comes without ensurepip's wheel")
    index, files = map(locate, done.stdout.split())
    assert index is not None
    assert files is not None


@pytest.fixture
def uv(played):
    """A machine with uv, and a Python that has no pip but knows where it would come from."""
    played.install("uv", f"echo run >{played.root}/traces")
    played.install("python3", f'case "$1" in -m) exit 1;; -c) echo {DEFAULT};; esac')
    return played


def test_uv_with_nothing_configured_uses_the_default_index(uv):
    assert uv.hosts("python") == [FILES, ("public.corp.example", 443, "uv's default index")]
    assert not (uv.root / "traces").exists()


def test_pip_with_an_index_of_its_own_does_not_speak_for_uv(uv):
    install_python(uv, config="global.index-url='https://index.corp.example'")
    assert uv.hosts("python") == [
        FILES,
        ("index.corp.example", 443, "pip's index-url"),
        ("public.corp.example", 443, "uv's default index"),
    ]


def test_uv_in_the_environment(uv):
    uv.env |= {
        "UV_DEFAULT_INDEX": f"corp=https://me:{SECRET}@index.corp.example/simple?a=b",
        "UV_INDEX": "one=https://one.corp.example https://two.corp.example:8443/x=y",
        "UV_EXTRA_INDEX_URL": "http://extra.corp.example ./relative",
        "UV_FIND_LINKS": "https://links.corp.example,/opt/wheels,https://more.corp.example",
    }
    assert uv.hosts("python") == [
        ("extra.corp.example", 80, "uv's UV_EXTRA_INDEX_URL"),
        ("index.corp.example", 443, "uv's UV_DEFAULT_INDEX"),
        ("links.corp.example", 443, "uv's UV_FIND_LINKS"),
        ("more.corp.example", 443, "uv's UV_FIND_LINKS"),
        ("one.corp.example", 443, "uv's UV_INDEX"),
        ("two.corp.example", 8443, "uv's UV_INDEX"),
    ]


@pytest.mark.parametrize(
    ("path", "env"),
    [
        ("~/.config/uv/uv.toml", {}),
        ("xdg/uv/uv.toml", {"XDG_CONFIG_HOME": "xdg"}),
        ("etc/uv/uv.toml", {}),
        ("etc/xdg/uv/uv.toml", {}),
        ("site/two/uv/uv.toml", {"XDG_CONFIG_DIRS": "site/one:site/two"}),
        ("chosen.toml", {"UV_CONFIG_FILE": "chosen.toml"}),
    ],
    ids=["user", "XDG_CONFIG_HOME", "system", "/etc/xdg", "XDG_CONFIG_DIRS", "UV_CONFIG_FILE"],
)
def test_uv_in_its_files(uv, path, env):
    uv.env |= env
    uv.write(path, 'index-url = "https://index.corp.example/simple"')
    assert uv.hosts("python") == [("index.corp.example", 443, "uv's index-url")]


def test_every_setting_of_uv(uv):
    uv.write(
        "~/.config/uv/uv.toml",
        """
        extra-index-url = ["https://extra.corp.example"]
        find-links = ["/opt/wheels", "https://links.corp.example"]
        [[index]]
        name = "corp"
        url = "https://index.corp.example/simple"
        default = true
        [[index]]
        url = "http://unnamed.corp.example"
        [pip]
        index-url = "https://pip.corp.example"
        """,
    )
    assert uv.hosts("python") == [
        ("extra.corp.example", 443, "uv's extra-index-url"),
        ("index.corp.example", 443, "uv's index corp"),
        ("links.corp.example", 443, "uv's find-links"),
        ("pip.corp.example", 443, "uv's index-url"),
        ("unnamed.corp.example", 80, "uv's index"),
    ]


@pytest.mark.parametrize(
    ("settings", "uses_default"),
    [
        ('[[index]]\nurl = "https://index.corp.example"', True),
        ('[[index]]\nurl = "https://index.corp.example"\ndefault = true', False),
        ('index-url = "https://index.corp.example"', False),
        ('[pip]\nindex-url = "https://index.corp.example"', True),
        ('no-index = true\nfind-links = ["https://index.corp.example"]', False),
        ('index = 7\nfind-links = ["https://index.corp.example"]', True),
    ],
    ids=["beside", "default", "index-url", "uv pip only", "no index", "odd"],
)
def test_whether_uv_uses_the_default_index(uv, settings, uses_default):
    uv.write("etc/uv/uv.toml", settings)
    hosts = {host for host, _, _ in uv.hosts("python")}
    assert "index.corp.example" in hosts
    assert ("public.corp.example" in hosts) is uses_default


def test_a_configuration_of_uv_that_cannot_be_read(uv):
    path = uv.write("~/.config/uv/uv.toml", f"index-url = https://me:{SECRET}@index.corp.example")
    with pytest.raises(ToolNotFoundError) as caught:
        uv.discover("python")
    assert str(caught.value) == (
        f"{path} is not valid TOML, so the package index cannot be asked for; "
        "name the host instead: presets: [{python: registry.corp.example}]"
    )


class Babbling(Machine):
    """Every program prints what the environment says."""

    def run(self, *argv):
        return self.env["SAYS"]


@given(st.text() | st.text().map("global.index-url=".__add__))
def test_arbitrary_answers_never_raise(text):
    ask(Babbling(env={"SAYS": text, "PATH": ""}))
