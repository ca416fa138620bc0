from pathlib import Path

import pytest

from belljar.discovery import ToolNotFoundError, apt, discover
from belljar.discovery.asking import Machine
from tests.discovery.machines import SECRET

SOURCES = f"""\
http://mirror.corp.example:8080/debian bookworm
http://mirror.corp.example:8080/debian bookworm
https://me:{SECRET}@apt.corp.example/security bookworm-security
mirror+file:/etc/apt/mirrors.txt bookworm
tor+http://tor.corp.example/debian bookworm
file:/srv/debian bookworm
cdrom://Debian bookworm
https://packages.corp.example/flat ./
"""


@pytest.mark.parametrize(
    ("tool", "release"),
    [
        ("debian", 'PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="12"\n'),
        ("ubuntu", 'ID="ubuntu"\nID_LIKE=debian\n'),
        ("ubuntu", "VERSION_ID='24'\nID='ubuntu'"),
    ],
)
def test_every_source_over_http(played, tool, release):
    played.write("etc/os-release", release)
    played.install_saying("apt-get", SOURCES)
    assert played.hosts(tool) == [
        ("apt.corp.example", 443, "apt source bookworm-security"),
        ("mirror.corp.example", 8080, "apt source bookworm"),
        ("packages.corp.example", 443, "apt source ./"),
    ]


def test_apt_is_asked_for_sources_and_not_for_what_it_downloaded(played):
    played.write("usr/lib/os-release", "ID=debian")
    played.install("apt-get", f'for word; do echo "$word" >>{played.root}/asked; done')
    with pytest.raises(ToolNotFoundError, match=r"^no host is named in the list of apt sources; name"):
        played.discover("debian")
    asked = (played.root / "asked").read_text().splitlines()
    assert asked[:3] == ["indextargets", "--format", "$(SITE) $(RELEASE)"]
    assert "--no-release-info" in asked


@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="apt-get is not installed here")
def test_the_apt_of_this_machine(tmp_path, monkeypatch):
    """It reads sources that were never fetched, and leaves nothing behind."""
    sources = tmp_path / "sources.list"
    sources.write_text(
        f"""
        deb [trusted=yes] http://me:{SECRET}@mirror.corp.example:8080/debian stable main
        deb [trusted=yes] https://packages.corp.example/flat ./
        deb [trusted=yes] file:/srv/debian stable main
        """,
    )
    chosen = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null", "Dir::Cache": tmp_path / "cache"}
    options = [word for name, value in chosen.items() for word in ("-o", f"{name}={value}")]
    monkeypatch.setattr(apt, "_SOURCES_ONLY", (*apt._SOURCES_ONLY, *options))
    monkeypatch.setattr(apt, "_distribution_of", lambda _: "debian")
    found = discover("debian", Machine(env={}))
    assert [(host.host, host.port, host.why) for host in found] == [
        ("mirror.corp.example", 8080, "apt source stable"),
        ("packages.corp.example", 443, "apt source ./"),
    ]
    assert not list(tmp_path.glob("cache/**/*.bin"))


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        ("ID=ubuntu\nID_LIKE=debian", "this machine runs ubuntu, not debian"),
        ("ID=fedora", "this machine runs fedora, not debian"),
        ("NAME=x\nVARIANT_ID=debian", "this machine runs an unknown system, not debian"),
        ("ID=debian", "apt-get is not installed here"),
    ],
)
def test_another_machine(played, release, problem):
    played.write("etc/os-release", release)
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("debian")
    assert str(caught.value) == (
        f"{problem}, so the apt sources cannot be asked for; name the host instead: "
        "presets: [{debian: registry.corp.example}] in a policy, or --allow registry.corp.example"
    )


def test_nothing_is_run_on_another_distribution(played):
    played.write("etc/os-release", "ID=fedora")
    played.install("apt-get", f"echo run >{played.root}/traces")
    with pytest.raises(ToolNotFoundError):
        played.discover("ubuntu")
    assert not (played.root / "traces").exists()
