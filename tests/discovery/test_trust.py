"""What a sandbox may have written is neither run nor believed, for any tool: it is refused, and named.

Each attack is beside a control: the same file at a trusted place counts.
"""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from belljar.discovery import ToolNotFoundError
from tests.discovery.machines import PlayedMachine

EVIL = "evil.example"
PROGRAMS = {
    "python": ("python3", "python", "pip", "pip3", "uv"),
    "node": ("npm", "node"),
    "debian": ("apt-get", "apt-config", "apt"),
    "rust": ("cargo", "rustc", "rustup"),
    "go": ("go",),
    "java": ("mvn", "java"),
}
TOML_OF_UV = 'index-url = "https://{}"'
INI_OF_PIP = "[global]\nindex-url = https://{}"
TOML_OF_CARGO = 'registries.a.index = "https://{}"'
SETTINGS_OF_MAVEN = (
    "<settings><mirrors><mirror><mirrorOf>*</mirrorOf><url>https://{}</url></mirror></mirrors></settings>"
)
FILES = [
    ("python", "~/.config/pip/pip.conf", INI_OF_PIP),
    ("python", "~/.pip/pip.conf", INI_OF_PIP),
    ("python", "etc/pip.conf", INI_OF_PIP),
    ("python", "~/.config/uv/uv.toml", TOML_OF_UV),
    ("python", "etc/uv/uv.toml", TOML_OF_UV),
    ("node", "~/.npmrc", "registry=https://{}"),
    ("node", "etc/npmrc", "registry=https://{}"),
    ("rust", "~/.cargo/config.toml", TOML_OF_CARGO),
    ("rust", "~/.cargo/registry/index/a-0123456789abcdef/config.json", '{{"dl": "https://{}"}}'),
    ("go", "~/.config/go/env", "GOPROXY=https://{}"),
    ("java", "~/.m2/settings.xml", SETTINGS_OF_MAVEN),
    ("java", "usr/share/maven/conf/settings.xml", SETTINGS_OF_MAVEN),
]
"""Which files say where a tool gets its packages from, and how."""

VARIABLES = [
    ("python", "PIP_CONFIG_FILE", "", INI_OF_PIP),
    ("python", "XDG_CONFIG_HOME", "pip/pip.conf", INI_OF_PIP),
    ("python", "XDG_CONFIG_DIRS", "pip/pip.conf", INI_OF_PIP),
    ("python", "UV_CONFIG_FILE", "", TOML_OF_UV),
    ("node", "NPM_CONFIG_USERCONFIG", "", "registry=https://{}"),
    ("node", "npm_config_globalconfig", "", "registry=https://{}"),
    ("rust", "CARGO_HOME", "config.toml", TOML_OF_CARGO),
    ("go", "GOENV", "", "GOPROXY=https://{}"),
    ("go", "XDG_CONFIG_HOME", "go/env", "GOPROXY=https://{}"),
]
"""Which variables name such a file, or a directory that it is in."""


@pytest.fixture
def machine(played: PlayedMachine) -> PlayedMachine:
    """A machine that has every tool, and nothing configured but the defaults."""
    played.install_pip()
    played.install("uv")
    played.install_npm()
    played.install_go("GOPROXY=https://public.corp.example")
    played.install("cargo")
    played.write("~/.cargo/registry/index/public.corp.example-0123456789abcdef/config.json", "{}")
    played.write("usr/share/maven/bin/mvn", "#!/bin/sh\n").chmod(0o755)
    (played.bin / "mvn").symlink_to(played.root / "usr/share/maven/bin/mvn")
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w") as archive:
        pom = "<p><repositories><repository><url>https://public.corp.example</url></repository></repositories></p>"
        archive.writestr("org/apache/maven/model/pom-4.0.0.xml", pom)
    played.write("usr/share/maven/lib/maven-model-builder-3.jar", jar.getvalue())
    played.write("etc/os-release", "ID=debian")
    played.write("etc/apt/sources.list", "deb https://public.corp.example stable main")
    played.install_saying("apt-get", "https://public.corp.example stable")
    played.env["PATH"] += f":{played.root}/usr/bin"
    return played


def hosts(machine: PlayedMachine, tool: str) -> set[str]:
    return {host for host, _, _ in machine.hosts(tool)} - {"files.corp.example"}


def refusal(machine: PlayedMachine, tool: str, path: Path) -> str:
    """Return why a tool is not asked because of a file."""
    with pytest.raises(ToolNotFoundError) as caught:
        machine.discover(tool)
    message = str(caught.value)
    assert message.startswith(f"{path} is not trusted, since ")
    assert message.endswith("or --allow registry.corp.example")
    return message


def plant(machine: PlayedMachine, directory: str, tool: str) -> Path:
    """Put programs of an agent's in a directory that is first on the PATH; they tell if they are run."""
    for program in PROGRAMS[tool]:
        path = machine.write(f"{directory}/{program}", f"#!/bin/sh\necho run >{machine.root}/traces; echo {EVIL}\n")
        path.chmod(0o755)
    machine.env["PATH"] = f"{machine.root}/{directory}:{machine.env['PATH']}"
    return machine.root / directory / PROGRAMS[tool][0]


@pytest.mark.parametrize("tool", PROGRAMS)
def test_every_tool_answers_if_all_is_well(machine, tool):
    assert hosts(machine, tool) == {"public.corp.example"}


@pytest.mark.parametrize("tool", PROGRAMS)
@pytest.mark.parametrize("directory", ["project/.venv/bin", "home/project/node_modules/.bin", "home/bin"])
def test_programs_in_a_project_are_passed_over(machine, tool, directory):
    plant(machine, directory, tool)
    assert hosts(machine, tool) == {"public.corp.example"}
    assert not (machine.root / "traces").exists()


@pytest.mark.parametrize(("tool", "program"), [("node", "npm"), ("rust", "cargo"), ("go", "go"), ("java", "mvn")])
def test_a_program_that_is_in_a_project_alone(machine, tool, program):
    genuine = machine.machine.find(program)
    assert genuine is not None
    machine.env["PATH"] = "/nonexistent"
    for directory in ("bin", "usr/bin"):
        (machine.root / directory / program).unlink(missing_ok=True)
    planted = plant(machine, "project/bin", tool)
    assert "it is where a sandbox can have written" in refusal(machine, tool, planted)
    assert not (machine.root / "traces").exists()


def test_apt_is_the_systems_alone(machine):
    (machine.bin / "apt-get").unlink()
    plant(machine, "project/bin", "debian")
    with pytest.raises(ToolNotFoundError, match="apt-get is not installed here"):
        machine.discover("debian")
    assert not (machine.root / "traces").exists()


@pytest.mark.parametrize("tool", ["node", "rust", "go", "java", "debian"])
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o777), "others can write to "),
        (lambda path: path.chmod(0o775), "others can write to "),
        (lambda path: os.chown(path, 4242, 0), "belongs to user 4242"),
        (lambda path: path.parent.chmod(0o777), "others can write to "),
    ],
    ids=["for all", "for a group", "another's", "its directory"],
)
def test_a_program_of_the_system_that_others_can_change(machine, tool, spoil, why):
    """Where the program is read, and not run, what leads to it counts as much."""
    path = machine.bin / "apt-get" if tool == "debian" else machine.machine.require(PROGRAMS[tool][0])
    spoil(path)
    with pytest.raises(ToolNotFoundError, match=" is not trusted, since ") as caught:
        machine.discover(tool)
    assert why in str(caught.value)


@pytest.mark.parametrize(("tool", "path", "content"), FILES)
def test_files_at_their_places_are_believed(machine, tool, path, content):
    machine.write(path, content.format("mine.corp.example"))
    assert "mine.corp.example" in hosts(machine, tool)


@pytest.mark.parametrize(("tool", "path", "content"), FILES)
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o666), "others can write to it; chmod go-w"),
        (lambda path: path.chmod(0o664), "others can write to it; chmod go-w"),
        (lambda path: path.parent.chmod(0o777), "others can write to "),
        (lambda path: os.chown(path, 4242, -1), "it belongs to user 4242"),
        (lambda path: os.chown(path.parent, 4242, -1), "belongs to user 4242"),
    ],
    ids=["for all", "for a group", "its directory", "another's", "another's directory"],
)
def test_files_that_others_can_change_are_refused(machine, tool, path, content, spoil, why):
    written = machine.write(path, content.format(EVIL))
    spoil(written)
    with pytest.raises(ToolNotFoundError, match=" is not trusted, since ") as caught:
        machine.discover(tool)
    assert why in str(caught.value)


@pytest.mark.parametrize(("tool", "path", "content"), FILES)
@pytest.mark.parametrize("linked", ["file", "directory"])
def test_links_to_where_an_agent_writes_are_refused(machine, tool, path, content, linked):
    """As with settings that are kept in a repository, in which an agent may have been."""
    written = machine.write(path, content.format(EVIL))
    moved = written if linked == "file" or written.parent == machine.home else written.parent
    if moved in (machine.root / "etc", machine.home):
        moved = written
    target = machine.home / "dotfiles"
    moved.rename(target)
    moved.symlink_to(target)
    assert "dotfiles" in refusal(machine, tool, written)


@pytest.mark.parametrize(("tool", "path", "content"), [row for row in FILES if row[1].startswith("~")])
def test_files_that_a_sandbox_can_write_to_are_refused(machine, tool, path, content):
    written = machine.write(path, content.format(EVIL))
    for shown in (written, written.parent, machine.root / path.replace("~", "home").rsplit("/", 1)[0]):
        machine.exposed[:] = [shown]
        assert "a sandbox can write there" in refusal(machine, tool, written)


@pytest.mark.parametrize(("tool", "variable", "below", "content"), VARIABLES)
def test_variables_lead_to_no_file_of_an_agents(machine, tool, variable, below, content):
    planted = machine.write(f"project/settings/{below}".rstrip("/"), content.format(EVIL))
    machine.env[variable] = str(planted).removesuffix(f"/{below}")
    assert "it is where a sandbox can have written" in refusal(machine, tool, planted)


@pytest.mark.parametrize(("tool", "variable", "below", "content"), VARIABLES)
def test_variables_lead_to_files_at_trusted_places(machine, tool, variable, below, content):
    settings = machine.write(f"~/.config/mine/{below}".rstrip("/"), content.format("mine.corp.example"))
    machine.env[variable] = str(settings).removesuffix(f"/{below}")
    assert "mine.corp.example" in hosts(machine, tool)


@pytest.mark.parametrize(("tool", "variable", "below", "content"), VARIABLES)
def test_variables_that_mean_another_file_in_each_directory(machine, tool, variable, below, content, monkeypatch):
    planted = machine.write(f"project/settings/{below}".rstrip("/"), content.format(EVIL))
    monkeypatch.chdir(machine.root / "project")
    machine.env[variable] = "settings"
    with pytest.raises(ToolNotFoundError, match=f"{variable} names settings, which is another file in each directory"):
        machine.discover(tool)
    assert planted.exists()


def test_settings_of_apt_that_a_variable_names(machine):
    machine.env["APT_CONFIG"] = str(machine.write("project/apt.conf", f'Dir::Etc "{machine.root}/project";'))
    with pytest.raises(ToolNotFoundError, match="APT_CONFIG names settings beside those of the system"):
        machine.discover("debian")


@pytest.mark.parametrize("path", ["sources.list", "sources.list.d/a.sources", "apt.conf.d/10x", "apt.conf"])
def test_settings_of_apt_that_others_can_change(machine, path):
    machine.write(f"etc/apt/{path}", "").chmod(0o666)
    assert "others can write to it" in refusal(machine, "debian", machine.root / "etc/apt" / path)


@pytest.mark.parametrize(("tool", "path", "content"), [row for row in FILES if row[1].startswith("~")])
def test_a_home_directory_in_a_project(machine, tool, path, content):
    """As the variable says; the system knows better."""
    planted = machine.write(path.replace("~", "project/home"), content.format(EVIL))
    machine.env["HOME"] = str(machine.root / "project/home")
    refusal(machine, tool, planted)


@pytest.mark.parametrize(
    ("tool", "install"),
    [
        ("node", lambda played: played.install_npm(prefix="home/.nvm/versions/node/v22")),
        ("node", lambda played: played.install_npm(prefix="home/.local")),
    ],
    ids=["nvm", "~/.local"],
)
def test_tools_that_people_keep_at_home_are_read(played, tool, install: Callable[[PlayedMachine], Path]):
    program = install(played)
    played.env["PATH"] = str(program.parents[4] / "bin")
    assert [host for host, _, _ in played.hosts(tool)] == ["public.corp.example"]
    assert not (played.root / "traces").exists()
