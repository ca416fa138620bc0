"""The agent's code on the host: programs and settings that an agent leaves in its directories, for Belljar to use next.

Every program of the agent's tells a witness if it is run, outside of the sandbox, by whomever.
"""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.backends.local.conftest import PATIENCE, ROOT, Cli
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


@pytest.mark.parametrize("where", ["elsewhere", "below", "inside"])
def test_presets_with_the_directory_as_working_directory(project: Project, where: str) -> None:
    cwd = {"elsewhere": Path("/"), "below": project.directory / "below", "inside": project.directory}[where]
    words = ("--workdir", str(project.directory)) if where == "elsewhere" else ()
    done = project.belljar("run", *words, "--preset", "python", "--preset", "node", "--", "echo", "started", cwd=cwd)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr
    assert not project.witness.exists()


@pytest.mark.parametrize("option", ["--bind", "--ro-bind"])
def test_presets_with_the_directory_as_a_bind(project: Project, option: str) -> None:
    other = project.cli.workdir / "other"
    other.mkdir()
    give(project.cli, other)
    words = ("--workdir", str(other), option, str(project.directory))
    done = project.belljar("run", *words, "--preset", "python", "--", "echo", "started", cwd=Path("/"))
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr
    assert not project.witness.exists()


@pytest.mark.parametrize("preset", ["python", "node", "debian", "rust", "go", "java", "agent-default"])
def test_what_presets_mean(project: Project, preset: str) -> None:
    done = project.belljar("policy", "presets", preset, cwd=project.directory)
    assert "Traceback" not in done.stderr
    assert "evil" not in done.stdout + done.stderr
    assert not project.witness.exists()


@pytest.mark.parametrize(
    "words",
    [("doctor",), ("completion", "bash"), ("--version",), ("policy", "show", "--expand", "policy.yaml"), ("ps",)],
    ids=lambda words: words[0],
)
def test_other_commands_in_the_directory(project: Project, words: tuple[str, ...]) -> None:
    """In a repository, too, whose settings name programs."""
    git = project.directory / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    program = project.directory / ".venv/bin/git"
    (git / "config").write_text(f"[core]\n\tfsmonitor = {program}\n\tsshCommand = {program}\n\tpager = {program}\n")
    (project.directory / "policy.yaml").write_text("mode: block-all\npresets: [python, node, go]\n")
    done = project.belljar(*words, cwd=project.directory)
    assert "Traceback" not in done.stderr
    assert not project.witness.exists()


@pytest.mark.parametrize("instruction", ["bash_source", "bash_complete", "zsh_source"])
def test_completion_as_shells_ask_for_it(project: Project, instruction: str) -> None:
    asked = {"_BELLJAR_COMPLETE": instruction, "COMP_WORDS": "belljar ru", "COMP_CWORD": "1"}
    done = project.belljar(cwd=project.directory, **asked)
    assert "run" in done.stdout or "_BELLJAR_COMPLETE" in done.stdout
    assert not project.witness.exists()


def test_a_run_in_a_repository_whose_settings_name_programs(project: Project) -> None:
    settings = "printf '[core]\\n\\tfsmonitor = .venv/bin/git\\n' >.git/config"
    script = f"mkdir -p .git; echo 'ref: refs/heads/main' >.git/HEAD; {settings}"
    for command in (("/bin/sh", "-c", script), ("/bin/true",)):
        done = project.belljar("run", "--learn", "--", *command, cwd=project.directory)
        assert done.returncode == 0, done.stderr
    assert not project.witness.exists()


@pytest.mark.parametrize(
    ("preset", "variable", "name", "content"),
    [
        ("python", "PIP_CONFIG_FILE", "pip.conf", "[global]\nindex-url = https://evil.example/simple\n"),
        ("python", "HOME", ".config/pip/pip.conf", "[global]\nindex-url = https://evil.example/simple\n"),
        ("python", "XDG_CONFIG_HOME", "pip/pip.conf", "[global]\nindex-url = https://evil.example/simple\n"),
        ("node", "NPM_CONFIG_USERCONFIG", ".npmrc", "registry=https://evil.example/\n"),
        ("node", "HOME", ".npmrc", "registry=https://evil.example/\n"),
    ],
)
def test_settings_that_an_agent_can_write(
    project: Project, preset: str, variable: str, name: str, content: str
) -> None:
    """The host that they name is not granted, whatever the directory is this time."""
    settings = project.directory / "settings" / name
    done = project.cli.run(
        *("--workdir", str(project.directory), "--env", f"CONTENT={content}", "--"),
        *("sh", "-c", f'mkdir -p "$(dirname {settings})" && printf %s "$CONTENT" >{settings}'),
    )
    assert done.returncode == 0, done.stderr
    assert "evil.example" in settings.read_text()
    names_file = variable.endswith(("FILE", "USERCONFIG"))
    value = str(settings if names_file else project.directory / "settings")
    other = project.cli.workdir / "other"
    other.mkdir()
    give(project.cli, other)
    for cwd in (project.directory, other):
        done = project.belljar("run", "--preset", preset, "--", "echo", "started", cwd=cwd, **{variable: value})
        assert (done.returncode, done.stdout) == (125, "")
        assert f"{settings} is not trusted, since" in done.stderr
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


@pytest.mark.parametrize("option", ["--policy", "--audit"])
def test_a_link_is_neither_a_policy_nor_an_audit_log(cli: Cli, option: str) -> None:
    """An agent that makes one has Belljar read from, or append to, what it cannot reach itself."""
    victim = Path(f"{cli.workdir}-victim")
    victim.mkdir()
    try:
        (victim / "file").write_text("mode: allow-all\n")
        give(cli, victim, victim / "file")
        done = cli.run("--", "sh", "-c", f"ln -s {victim}/file link; ln -s {victim} directory")
        assert done.returncode == 0, done.stderr
        for path in ("link", "directory/file", f"{cli.workdir}/link"):
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


@pytest.mark.parametrize("place", ["/usr/local", "/etc", "/bin"])
def test_no_part_of_the_system_is_to_be_written_to(cli: Cli, place: str) -> None:
    assert "is part of the system" in refusal(cli, "--bind", f"{place}:/shown")
    assert cli.run("--ro-bind", f"{place}:/shown", "--", "ls", "/shown").returncode == 0
