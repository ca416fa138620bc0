"""The agent's code on the host: programs and settings that an agent leaves in its directories, for Belljar to use next.

Every program of the agent's tells a witness if it is run, outside of the sandbox, by whomever.
"""

import shutil
import stat
import subprocess
import sys
import venv
from itertools import product
from pathlib import Path

import pytest

from tests.backends.local.conftest import PATIENCE, ROOT, Cli, make_cli
from tests.backends.local.test_attacks import give, refusal

PROGRAMS = (
    *("python3", "python", "pip", "pip3", "uv", "npm", "node", "go", "cargo", "rustc", "mvn", "java", "apt-get", "apt"),
    *("git", "docker", "dockerd", "podman", "runc", "crun", "bwrap", "nft", "ip", "sudo", "ldd", "sh", "bash", "env"),
    *("uname", "id", "sysctl", "systemd-run", "unshare", "nsenter", "mount", "tar", "which", "getent", "ldconfig"),
)
"""Whatever Belljar might look for by name."""

PLANT = """
mkdir -p .venv/bin below
printf '#!/bin/sh\\necho "$0 $*" >>%s/witness\\necho https://evil.example\\n' "$PWD" >.venv/bin/python3
chmod 755 .venv/bin/python3
for name in $PROGRAMS; do test $name = python3 || cp .venv/bin/python3 .venv/bin/$name; done
"""


class Project:
    """A directory in which an agent has been, and whose virtual environment is first on the caller's PATH."""

    def __init__(self, cli: Cli) -> None:
        self.cli, self.directory = cli, cli.workdir / "project"
        self.directory.mkdir()
        give(cli, self.directory)
        self.environment = {"PATH": f"{self.directory}/.venv/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        planted = cli.run(
            *("--workdir", str(self.directory), "--env", f"PROGRAMS={' '.join(PROGRAMS)}", "--", "sh", "-c", PLANT)
        )
        assert planted.returncode == 0, planted.stderr
        assert (self.directory / ".venv/bin/git").stat().st_mode & stat.S_IXUSR
        self.witness = self.directory / "witness"

    def belljar(self, *words: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        return self.cli.universe.gateway.call(
            subprocess.run,
            self.cli.command(*words),
            cwd=cwd,
            env=self.cli.environment(**(self.environment | variables)),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )


@pytest.fixture(params=["root", pytest.param("user", marks=pytest.mark.long)])
def cli(request, universe):
    """The command line, as both; little here depends on that."""
    yield from make_cli(request.param, universe)


@pytest.fixture
def project(cli: Cli) -> Project:
    return Project(cli)


def test_the_witness_sees_what_is_run(project: Project) -> None:
    """The control of all tests below: whoever looks by the PATH runs the agent's program."""
    found = subprocess.run(
        ["env", "python3", "-V"], env=project.environment, capture_output=True, text=True, check=True
    )
    assert "evil" in found.stdout
    assert "python3 -V" in project.witness.read_text()


def test_presets_with_the_directory_as_working_directory_or_as_a_bind(project: Project) -> None:
    other = project.cli.workdir / "other"
    other.mkdir()
    give(project.cli, other)
    directory, elsewhere = str(project.directory), Path("/")
    for words, cwd in (
        (("--workdir", directory), elsewhere),
        ((), project.directory / "below"),
        ((), project.directory),
        (("--workdir", str(other), "--bind", directory), elsewhere),
        (("--workdir", str(other), "--ro-bind", directory), elsewhere),
    ):
        done = project.belljar(
            "run", *words, "--preset", "python", "--preset", "node", "--", "echo", "started", cwd=cwd
        )
        assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr
        assert not project.witness.exists(), (words, cwd)


def test_what_presets_mean(project: Project) -> None:
    for preset in ("python", "node", "debian", "rust", "go", "java", "agent-default"):
        done = project.belljar("policy", "presets", preset, cwd=project.directory)
        assert "Traceback" not in done.stderr, preset
        assert "evil" not in done.stdout + done.stderr, preset
        assert not project.witness.exists(), preset


def test_other_commands_in_the_directory(project: Project) -> None:
    """In a repository, too, whose settings name programs."""
    git = project.directory / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    program = project.directory / ".venv/bin/git"
    (git / "config").write_text(f"[core]\n\tfsmonitor = {program}\n\tsshCommand = {program}\n\tpager = {program}\n")
    (project.directory / "policy.yaml").write_text("mode: block-all\npresets: [python, node, go]\n")
    for command in ("doctor", "completion bash", "--version", "policy show --expand policy.yaml", "ps"):
        done = project.belljar(*command.split(), cwd=project.directory)
        assert "Traceback" not in done.stderr, command
        assert not project.witness.exists(), command


def test_completion_as_shells_ask_for_it(project: Project) -> None:
    for instruction in ("bash_source", "bash_complete", "zsh_source"):
        asked = {"_BELLJAR_COMPLETE": instruction, "COMP_WORDS": "belljar ru", "COMP_CWORD": "1"}
        done = project.belljar(cwd=project.directory, **asked)
        assert "run" in done.stdout or "_BELLJAR_COMPLETE" in done.stdout, instruction
        assert not project.witness.exists(), instruction


def test_a_run_in_a_repository_whose_settings_name_programs(project: Project) -> None:
    settings = "printf '[core]\\n\\tfsmonitor = .venv/bin/git\\n' >.git/config"
    script = f"mkdir -p .git; echo 'ref: refs/heads/main' >.git/HEAD; {settings}"
    for command in (("/bin/sh", "-c", script), ("/bin/true",)):
        done = project.belljar("run", "--learn", "--", *command, cwd=project.directory)
        assert done.returncode == 0, done.stderr
    assert not project.witness.exists()


PIP = "[global]\nindex-url = https://evil.example/simple\n"
NPM = "registry=https://evil.example/\n"
SETTINGS = (
    ("python", "PIP_CONFIG_FILE", "pip.conf", PIP),
    ("python", "HOME", ".config/pip/pip.conf", PIP),
    ("python", "XDG_CONFIG_HOME", "pip/pip.conf", PIP),
    ("node", "NPM_CONFIG_USERCONFIG", ".npmrc", NPM),
    ("node", "HOME", ".npmrc", NPM),
)
"""Settings of package tools: of which preset, the variable that leads to them, where, and what they say."""


def test_settings_that_an_agent_can_write(project: Project) -> None:
    """The host that they name is not granted, whatever the directory is this time."""
    places = [project.directory / f"settings-{number}" for number in range(len(SETTINGS))]
    files = [place / name for place, (_, _, name, _) in zip(places, SETTINGS, strict=True)]
    script = "".join(
        f"mkdir -p {file.parent} && printf %s '{content}' >{file} && "
        for file, (*_, content) in zip(files, SETTINGS, strict=True)
    )
    done = project.cli.run("--workdir", str(project.directory), "--", "sh", "-c", f"{script}:")
    assert done.returncode == 0, done.stderr
    other = project.cli.workdir / "other"
    other.mkdir()
    give(project.cli, other)
    for place, file, (preset, variable, _, content) in zip(places, files, SETTINGS, strict=True):
        assert file.read_text() == content
        value = str(file if variable.endswith(("FILE", "USERCONFIG")) else place)
        for cwd in (project.directory, other):
            done = project.belljar("run", "--preset", preset, "--", "echo", "started", cwd=cwd, **{variable: value})
            assert (done.returncode, done.stdout) == (125, ""), variable
            assert f"{file} is not trusted, since" in done.stderr
            assert "name the host instead" in done.stderr
            assert "--allow" in done.stderr


def test_what_a_caller_says_outright_is_granted(project: Project) -> None:
    done = project.belljar(
        *("run", "--preset", "python", "--summary", "--", "/usr/bin/curl", "-s", "http://plain.test/"),
        cwd=project.directory,
        PIP_INDEX_URL="http://plain.test/simple",
    )
    assert done.returncode == 0, done.stderr
    assert "plain.test" in done.stderr
    assert not project.witness.exists()


def test_a_policy_in_a_bind_cannot_be_changed(cli: Cli) -> None:
    shown = cli.workdir / "shown"
    (shown / "below").mkdir(parents=True)
    policy = shown / "below/policy.yaml"
    policy.write_text("mode: block-all\n")
    project = cli.workdir / "project"
    project.mkdir()
    give(cli, shown, shown / "below", policy, project)
    attack = (
        f"cd {shown}; echo 'mode: allow-all' >below/policy.yaml; rm -f below/policy.yaml; mv below other; echo >new"
    )
    cli.run("--workdir", str(project), "--bind", str(shown), "--policy", str(policy), "--", "sh", "-c", attack)
    assert policy.read_text() == "mode: block-all\n"
    assert (shown / "new").exists()


def test_a_link_is_neither_a_policy_nor_an_audit_log(cli: Cli) -> None:
    """An agent that makes one has Belljar read from, or append to, what it cannot reach itself."""
    victim = Path(f"{cli.workdir}-victim")
    victim.mkdir()
    try:
        (victim / "file").write_text("mode: allow-all\n")
        give(cli, victim, victim / "file")
        done = cli.run("--", "sh", "-c", f"ln -s {victim}/file link; ln -s {victim} directory")
        assert done.returncode == 0, done.stderr
        for option, path in product(("--policy", "--audit"), ("link", "directory/file", f"{cli.workdir}/link")):
            assert "is a link in the working directory" in refusal(cli, option, path)
        assert (victim / "file").read_text() == "mode: allow-all\n"
        assert cli.run("--policy", f"{victim}/file", "--", "true").returncode == 0
    finally:
        shutil.rmtree(victim)


@pytest.mark.parametrize("entry", ["{workdir}", "{workdir}/absent", "", "."])
def test_a_directory_that_python_imports_from_is_not_to_be_written_to(cli: Cli, entry: str) -> None:
    variable = f"{ROOT}:{entry.format(workdir=cli.workdir)}"
    said = refusal(cli, PYTHONPATH=variable)
    assert "PYTHONPATH leads to" in said
    assert "env -u PYTHONPATH belljar" in said


def test_code_that_python_imports_is_read_only_inside(cli: Cli) -> None:
    """A `sitecustomize` would be imported by the next command of Belljar's, before anything of its own."""
    modules = cli.workdir / "modules"
    modules.mkdir()
    give(cli, modules)
    variable = f"{ROOT}:{modules}"
    attack = "echo 'raise SystemExit(\"run\")' >modules/sitecustomize.py; mv modules other; mkdir modules; echo >new"
    done = cli.run("--", "sh", "-c", attack, PYTHONPATH=variable)
    assert "Read-only file system" in done.stderr
    assert list(modules.iterdir()) == []
    assert (cli.workdir / "new").exists()
    assert cli.run("--", "echo", "started", PYTHONPATH=variable).stdout == "started\n"
    assert cli.run("--allow-write", "modules", "--", "touch", "modules/x", PYTHONPATH=variable).returncode == 0


def test_what_sandboxes_are_made_of_is_not_to_be_written_to(cli: Cli) -> None:
    caches = cli.workdir / "caches"
    caches.mkdir()
    give(cli, caches)
    for words in ((), ("--workdir", "/srv", "--bind", str(caches))):
        assert "what sandboxes are made of is in" in refusal(cli, *words, XDG_CACHE_HOME=str(caches))


def test_no_part_of_the_system_is_to_be_written_to(cli: Cli) -> None:
    places = ("/usr/local", "/etc", "/bin")
    for place in places:
        assert "is part of the system" in refusal(cli, "--bind", f"{place}:/shown")
    shown = [word for place in places for word in ("--ro-bind", f"{place}:/shown{place}")]
    assert cli.run(*shown, "--", "ls", *(f"/shown{place}" for place in places)).returncode == 0


class Installed:
    """Belljar as `pip install --editable` installs it into a project, with its sources in `src`."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.witness = directory, directory / "witness"
        venv.create(directory / ".venv", symlinks=True)
        shutil.copytree(ROOT / "src/belljar", directory / "src/belljar", ignore=shutil.ignore_patterns("__pycache__"))
        packages = next(directory.glob(".venv/lib/python*/site-packages"))
        others = [entry for entry in sys.path if entry.endswith("site-packages")]
        (packages / "belljar.pth").write_text("\n".join([f"{directory}/src", *others]))
        program = directory / ".venv/bin/belljar"
        program.write_text(f"#!{directory}/.venv/bin/python\nfrom belljar.cli.main import main\nmain()\n")
        program.chmod(0o755)

    def belljar(self, *words: str, cwd: Path | None = None, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [f"{self.directory}/.venv/bin/belljar", *words],
            cwd=cwd or self.directory,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/home/somebody", **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def plant(self, place: str) -> str:
        """Return a command that has code run by whoever imports it."""
        return f'echo \'open("{self.witness}", "w")\' >>{place}'


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    tmp_path.chmod(0o755)
    return Installed(tmp_path)


def test_the_witness_sees_what_is_imported(installed: Installed) -> None:
    """The control of the tests below."""
    subprocess.run(["sh", "-c", installed.plant("src/belljar/__init__.py")], cwd=installed.directory, check=True)
    assert installed.belljar("--version", cwd=Path("/")).returncode == 0
    assert installed.witness.exists()


@pytest.mark.parametrize("shown", ["workdir", "bind"])
def test_the_sources_of_an_editable_installation_are_read_only_inside(installed: Installed, shown: str) -> None:
    """So is all that lies beside the package: Python looks there for `sitecustomize`, and for optional modules."""
    words = () if shown == "workdir" else ("--workdir", "/srv", "--bind", str(installed.directory))
    places = ("src/sitecustomize.py", "src/belljar/x.py", "src/belljar/__init__.py", ".venv/x", ".venv/bin/belljar")
    attack = "; ".join([f"cd {installed.directory}", *map(installed.plant, places), "mv src other; echo >new"])
    done = installed.belljar("run", *words, "--", "sh", "-c", attack)
    assert "Read-only file system" in done.stderr
    assert (installed.directory / "new").exists(), done.stderr
    assert not (installed.directory / "src/sitecustomize.py").exists()
    assert installed.belljar("--version", cwd=Path("/")).returncode == 0
    assert not installed.witness.exists()


def test_the_sources_of_an_editable_installation_can_be_handed_over(installed: Installed) -> None:
    """To an agent that works on them."""
    done = installed.belljar("run", "--allow-write", "src", "--", "touch", "src/belljar/new.py")
    assert done.returncode == 0, done.stderr
    assert (installed.directory / "src/belljar/new.py").exists()


def test_a_directory_that_holds_the_users_own_packages(installed: Installed) -> None:
    """Where Python finds them there; where there are none yet, an agent could make them."""
    home = installed.directory / "home"
    packages = home / ".local/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (home / ".local").mkdir(parents=True)
    refused = installed.belljar("run", "--", "true", cwd=home / ".local", HOME=str(home))
    assert refused.returncode == 125
    assert "Belljar's installation leads to" in refused.stderr
    packages.mkdir(parents=True)
    (home / ".local/bin").mkdir()
    attack = f"echo >{packages}/usercustomize.py; echo >{home}/.local/bin/belljar; echo >new"
    done = installed.belljar("run", "--", "sh", "-c", attack, cwd=home / ".local", HOME=str(home), XDG_CACHE_HOME="/x")
    assert (home / ".local/new").exists(), done.stderr
    assert not list(packages.iterdir())
    assert not list((home / ".local/bin").iterdir())


def test_a_place_to_import_from_that_is_not_there_yet(installed: Installed) -> None:
    packages = next(installed.directory.glob(".venv/lib/python*/site-packages"))
    (packages / "other.pth").write_text(f"import sys; sys.path.append('{installed.directory}/absent')\n")
    refused = installed.belljar("run", "--", "true")
    assert refused.returncode == 125
    assert f"Belljar's installation leads to {installed.directory}/absent" in refused.stderr
    assert installed.belljar("run", "--allow-write", "absent", "--", "true").returncode == 0


def test_a_link_to_what_belljar_is_made_of(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever replaces it has put another Belljar in its place."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.move(installed.directory / ".venv", elsewhere / "venv")
    (installed.directory / ".venv").symlink_to(elsewhere / "venv")
    refused = installed.belljar("run", "--", "true")
    assert refused.returncode == 125
    assert f"through the link {installed.directory}/.venv, which could be replaced" in refused.stderr
    assert installed.belljar("run", "--allow-write", ".venv", "--", "true").returncode == 0
    done = installed.belljar("run", "--bind", str(installed.directory), "--", "true", cwd=Path("/srv"))
    assert "through the link" in done.stderr


def test_another_name_of_a_file_of_the_installation(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A file with a name outside of the sandbox's reach is as good as any: some installers make all of them so."""
    module = installed.directory / "src/belljar/cli/main.py"
    (tmp_path_factory.mktemp("cache") / "main.py").hardlink_to(module)
    assert installed.belljar("run", "--", "true").returncode == 0
    (installed.directory / "cache").mkdir()
    (installed.directory / "cache/main.py").hardlink_to(module)
    for words, cwd in (((), None), (("--bind", str(installed.directory)), Path("/srv"))):
        refused = installed.belljar("run", *words, "--", "true", cwd=cwd)
        assert refused.returncode == 125
        assert f"{installed.directory}/cache/main.py is another name" in refused.stderr


def test_a_link_to_what_python_imports(cli: Cli) -> None:
    elsewhere = Path(f"{cli.workdir}-elsewhere")
    elsewhere.mkdir()
    try:
        (cli.workdir / "lib").symlink_to(elsewhere)
        give(cli, cli.workdir / "lib")
        said = refusal(cli, PYTHONPATH=f"{ROOT}:{cli.workdir}/lib")
        assert f"PYTHONPATH leads to {elsewhere} through the link {cli.workdir}/lib" in said
        assert cli.run("--", "true", PYTHONPATH=f"{ROOT}:{elsewhere}").returncode == 0
    finally:
        elsewhere.rmdir()


def test_a_servers_state_is_not_shown(cli: Cli) -> None:
    """Its socket makes sandboxes of any kind, for whoever connects."""
    above = cli.workdir / "states"
    state = above / "belljar"
    (state / "below").mkdir(parents=True)
    give(cli, above, state, state / "below")
    places = tuple(map(str, (state, above, state / "below")))
    for place in places:
        for words in (("--workdir", place), ("--workdir", "/srv", "--bind", place), ("--ro-bind", f"{place}:/shown")):
            assert "is a server's" in refusal(cli, *words, BELLJAR_SERVER=str(state))
    shown = [word for number, place in enumerate(places) for word in ("--ro-bind", f"{place}:/shown{number}")]
    for url in ("http://localhost:1", ""):
        assert cli.run(*shown, "--", "true", BELLJAR_SERVER=url).returncode == 0
    is_root = cli.workdir.stat().st_uid == 0
    default = {"--ro-bind": "/var/lib"} if is_root and Path("/var/lib/belljar").exists() else {"--bind": "/var/lib"}
    for option, source in default.items() if is_root else {"--bind": str(above)}.items():
        assert "is a server's" in refusal(cli, option, f"{source}:/shown", XDG_STATE_HOME=str(above))


def test_nothing_is_shown_where_belljar_puts_files_of_its_own(cli: Cli) -> None:
    """They would be made on the host then, and behind links that an agent has made, anywhere."""
    shown, victim = cli.workdir / "shown", cli.workdir / "victim"
    shown.mkdir()
    victim.mkdir()
    (shown / "belljar").symlink_to(f"/oldroot{victim}")
    give(cli, shown, victim, shown / "belljar")
    targets = ("/run", "/run/belljar", "/run/belljar/policy.json", "/etc", "/etc/hosts")
    for option, target in product(("--bind", "--ro-bind"), targets):
        assert "since Belljar itself puts" in refusal(cli, option, f"{shown}:{target}")
    assert [path.name for path in shown.iterdir()] == ["belljar"]
    assert not list(victim.iterdir())
    assert cli.run("--bind", f"{shown}:/run/other", "--", "true").returncode == 0


def test_a_link_in_a_bind_is_neither_a_policy_nor_an_audit_log(cli: Cli) -> None:
    shown, project, victim = cli.workdir / "shown", cli.workdir / "project", cli.workdir / "victim"
    shown.mkdir()
    project.mkdir()
    victim.write_text("mode: allow-all\n")
    (shown / "link").symlink_to(victim)
    (cli.workdir / "behind").symlink_to(shown / "link")
    give(cli, shown, project, victim, shown / "link", cli.workdir / "behind")
    for option, path in product(("--policy", "--audit"), (shown / "link", cli.workdir / "behind")):
        said = refusal(cli, "--workdir", str(project), "--bind", str(shown), option, str(path))
        assert f"is a link in {shown}, or behind one" in said
    assert victim.read_text() == "mode: allow-all\n"
    assert (
        cli.run("--workdir", str(project), "--bind", str(shown), "--policy", str(victim), "--", "true").returncode == 0
    )
