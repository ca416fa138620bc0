"""pip and uv, alone and together, with an index of their own and without."""

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.discovery import ToolNotFoundError, pip
from belljar.discovery.asking import Machine
from belljar.discovery.hosts import locate
from belljar.discovery.pip import _read_index, default_index
from belljar.discovery.running import NoAnswerError
from tests.discovery.machines import SECRET, PlayedMachine

FILES = ("files.corp.example", 443, "files of the default index")
REMEDY = (
    "name the host instead: presets: [{python: registry.corp.example}] in a policy, or --allow registry.corp.example"
)


@pytest.fixture
def python(played: PlayedMachine) -> PlayedMachine:
    """A machine with pip, and with programs that tell if they are run."""
    for program in ("python3", "python", "pip", "pip3"):
        played.install(program, f"echo run >{played.root}/traces")
    played.install_pip()
    return played


def test_pip_with_nothing_configured_uses_the_default_index(python):
    assert python.hosts("python") == [FILES, ("public.corp.example", 443, "pip's default index")]
    assert not (python.root / "traces").exists()


def test_pip_with_private_indexes(python):
    python.write(
        "~/.config/pip/pip.conf",
        f"""\
[global]
index-url = https://me:{SECRET}@index.corp.example/simple
cert = /etc/ssl/certs/corp.crt
extra_index_url =
    https://one.corp.example/simple
    file:///opt/index
    http://two.corp.example
[install]
index-url = https://o'install:{SECRET}@install.corp.example/100%25
[download]
trusted-host = trusted.corp.example
""",
    )
    python.env["PIP_FIND_LINKS"] = "/opt/wheels http://wheels.corp.example:8000/"
    assert python.hosts("python") == [
        ("index.corp.example", 443, "pip's index-url"),
        ("install.corp.example", 443, "pip's index-url"),
        ("one.corp.example", 443, "pip's extra-index-url"),
        ("two.corp.example", 80, "pip's extra-index-url"),
        ("wheels.corp.example", 8000, "pip's find-links"),
    ]


@pytest.mark.parametrize(
    ("path", "env"),
    [
        ("etc/pip.conf", {}),
        ("etc/xdg/pip/pip.conf", {}),
        ("etc/site/pip/pip.conf", {"XDG_CONFIG_DIRS": "{root}/etc/none:{root}/etc/site"}),
        ("~/.pip/pip.conf", {}),
        ("~/.config/pip/pip.conf", {}),
        ("~/.config/mine/pip/pip.conf", {"XDG_CONFIG_HOME": "{root}/home/.config/mine"}),
        ("~/.config/chosen", {"PIP_CONFIG_FILE": "{root}/home/.config/chosen"}),
    ],
)
def test_every_file_of_settings(python, path, env):
    python.env |= {name: value.format(root=python.root) for name, value in env.items()}
    python.write(path, "[global]\nindex-url = https://index.corp.example")
    assert python.hosts("python") == [("index.corp.example", 443, "pip's index-url")]
    python.env["PIP_CONFIG_FILE"] = "/dev/null"
    assert len(python.hosts("python")) == 2


def test_the_settings_of_the_user_come_before_those_of_the_machine(python):
    python.write("etc/pip.conf", "[global]\nindex-url = https://machine.corp.example")
    python.write("~/.config/pip/pip.conf", "[global]\nindex-url = https://user.corp.example")
    assert python.hosts("python") == [("user.corp.example", 443, "pip's index-url")]


def test_an_extra_index_is_beside_the_default_index(python):
    python.write("etc/pip.conf", "[global]\nextra-index-url = https://extra.corp.example\nindex-url =")
    assert [host for host, _, _ in python.hosts("python")] == [
        "extra.corp.example",
        "files.corp.example",
        "public.corp.example",
    ]


def test_the_default_index_keeps_its_second_host_when_it_is_configured(python):
    python.env["PIP_INDEX_URL"] = "https://public.corp.example/simple/"
    assert python.hosts("python") == [FILES, ("public.corp.example", 443, "pip's index-url")]


@pytest.mark.parametrize("value", ["1", "true", "Yes"])
def test_without_an_index_only_links_are_left(python, value):
    python.env |= {"PIP_FIND_LINKS": "https://wheels.corp.example", "PIP_NO_INDEX": value}
    assert python.hosts("python") == [("wheels.corp.example", 443, "pip's find-links")]


def test_no_index_may_be_switched_off(python):
    python.env["PIP_NO_INDEX"] = "false"
    assert len(python.hosts("python")) == 2


@pytest.mark.parametrize("text", ["index-url = x", "[global", "[a]\nb = c\nb = d"], ids=["no section", "cut", "twice"])
def test_settings_of_pip_that_cannot_be_read(python, text):
    path = python.write("~/.config/pip/pip.conf", f"{text}\n# {SECRET}")
    with pytest.raises(ToolNotFoundError) as caught:
        python.discover("python")
    problem = f"{path} is not as pip's settings are"
    assert str(caught.value) == f"{problem}, so the package index cannot be asked for; {REMEDY}"


def test_a_default_index_that_nobody_tells(played):
    with pytest.raises(ToolNotFoundError, match=r"^no host is named in the configuration of pip and uv; name the"):
        played.discover("python")


def wheel(source: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pip/_internal/models/index.py", source)
    return file.getvalue()


@pytest.mark.parametrize("place", ["usr/share/python-wheels", "usr/lib/python3.12/ensurepip/_bundled"])
def test_a_python_without_pip_still_knows_the_default_index(played, place):
    """Environments that are made with it have the pip of a wheel."""
    played.write(
        f"{place}/pip-1.whl",
        wheel('PyPI = PackageIndex("https://public.corp.example/", file_storage_domain="files.corp.example")'),
    )
    assert played.hosts("python") == [FILES, ("public.corp.example", 443, "pip's default index")]


def test_the_python_that_runs_belljar_is_the_last_to_be_asked(played, monkeypatch):
    source = played.install_pip()
    ours = played.root / "opt/ours"
    ours.mkdir(parents=True)
    source.parents[3].rename(ours / "site-packages")
    monkeypatch.setattr(pip, "OUR_PACKAGES", ours / "site-packages")
    assert len(played.hosts("python")) == 2
    played.install_pip("https://system.corp.example")
    assert [host for host, _, _ in played.hosts("python")] == ["files.corp.example", "system.corp.example"]


@pytest.mark.parametrize("wheels", [pip._WHEELS, ()], ids=["system", "ours"])
def test_the_pips_of_this_machine(monkeypatch, wheels):
    """What a real pip says of itself is understood, installed or in a wheel."""
    monkeypatch.setattr(pip, "_WHEELS", wheels)
    monkeypatch.setattr(pip, "_PACKAGES", () if not wheels else pip._PACKAGES)
    index = default_index(Machine())
    assert index is not None
    assert None not in map(locate, index)


@pytest.fixture
def uv(played):
    """A machine with uv, and no pip but in a wheel."""
    played.install("uv", f"echo run >{played.root}/traces")
    source = played.install_pip().read_text()
    (played.root / "usr").rename(played.root / "away")
    played.write("usr/share/python-wheels/pip-1.whl", wheel(source))
    return played


def test_uv_with_nothing_configured_uses_the_default_index(uv):
    assert uv.hosts("python") == [FILES, ("public.corp.example", 443, "uv's default index")]
    assert not (uv.root / "traces").exists()


def test_pip_with_an_index_of_its_own_does_not_speak_for_uv(uv):
    uv.write("etc/pip.conf", "[global]\nindex-url = https://index.corp.example")
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
        ("~/.config/mine/uv/uv.toml", {"XDG_CONFIG_HOME": "home/.config/mine"}),
        ("etc/uv/uv.toml", {}),
        ("etc/xdg/uv/uv.toml", {}),
        ("etc/site/uv/uv.toml", {"XDG_CONFIG_DIRS": "etc/site"}),
        ("~/.config/chosen.toml", {"UV_CONFIG_FILE": "home/.config/chosen.toml"}),
    ],
    ids=["user", "XDG_CONFIG_HOME", "system", "/etc/xdg", "XDG_CONFIG_DIRS", "UV_CONFIG_FILE"],
)
def test_uv_in_its_files(uv, path, env):
    uv.env |= {name: f"{uv.root}/{value}" for name, value in env.items()}
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
    assert str(caught.value) == f"{path} is not valid TOML, so the package index cannot be asked for; {REMEDY}"


@given(st.text() | st.text().map("[global]\nindex-url=".__add__))
def test_arbitrary_settings_are_read_or_refused(text):
    try:
        pip.configuration(pip._read_settings(text, Path("pip.conf")))
    except NoAnswerError as error:
        assert str(error) == "pip.conf is not as pip's settings are"


@given(st.text() | st.text().map('PyPI = PackageIndex("'.__add__))
def test_arbitrary_sources_of_pip_never_raise(text):
    _read_index(text)
