"""Repositories: git works wherever in one the working directory is, and the host's git runs nothing of an agent's."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

AUTHOR = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
}
CONFIG = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}

PLACES = ("repository", "repository/src", "linked", "linked/src", "repository/module")
"""Working directories: a working tree and a directory in it, a linked one and a directory in it, a submodule."""

WORK = """
set -e
test -z "$(git status --porcelain)"
echo new >new
git add new
git commit -q -m second
git branch $1
git switch -q $1
echo changed >>new
git stash -q
git stash pop -q
git commit -q -a -m third
git log --format=%s -3 | tr '\\n' ' '
git diff --stat HEAD~2 | tail -1
git worktree list >/dev/null
test -z "$(git status --porcelain)"
"""

ATTACK = """
git=$(git rev-parse --git-common-dir); own=$(git rev-parse --git-dir)
for g in $git $own {others}; do
    echo '#!/bin/sh' >$g/hooks/post-checkout; chmod +x $g/hooks/post-checkout
    for place in config commondir config.worktree rebase-merge/git-rebase-todo worktrees/other/commondir; do
        echo evil >$g/$place; rm -f $g/$place; mv -T $g $g.moved
    done
done
git config --file $git/config core.fsmonitor evil
test -f .git && echo evil >.git
echo control >$own/control
"""


def git(directory: Path, *words: str) -> str:
    environment = {**os.environ, **AUTHOR, **CONFIG, "HOME": "/nonexistent"}
    command = ["git", "-c", "safe.directory=*", "-C", str(directory), *words]
    return str(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def make_repositories(root: Path) -> None:
    """Make a repository with a submodule, a linked worktree and a stopped rebase, and another one in it."""
    for name in ("library", "repository"):
        (root / name / "src").mkdir(parents=True)
        (root / name / "src/file").write_text("text\n")
        git(root / name, "init", "-q", "-b", "main")
        git(root / name, "add", ".")
        git(root / name, "commit", "-q", "-m", "first")
    repository = root / "repository"
    git(repository, "submodule", "--quiet", "add", str(root / "library"), "module")
    git(repository, "commit", "-q", "-m", "with a module")
    for name in ("linked", "other"):
        git(repository, "worktree", "add", "-q", str(root / name))


def give_to(root: Path) -> None:
    owner = root.stat()
    for path in (root, *root.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def snapshot(root: Path) -> dict[str, bytes]:
    """Return what the host's git runs or follows, wherever it is."""
    names = {"config", "commondir", "config.worktree", "gitdir", "git-rebase-todo", ".git"}
    files = [path for path in root.rglob("*") if path.is_file()]
    found = [path for path in files if path.name in names or path.parent.name == "hooks"]
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.suffix != ".sample"}


@pytest.fixture
def repositories(cli):
    make_repositories(cli.workdir)
    give_to(cli.workdir)
    return cli


def variables() -> list[str]:
    return [word for name, value in AUTHOR.items() for word in ("--env", f"{name}={value}")]


def test_git_works_wherever_in_a_repository(repositories):
    for place in PLACES:
        directory = repositories.workdir / place
        done = repositories.run(
            "--workdir", str(directory), *variables(), "--", "sh", "-c", WORK, "sh", f"in-{place.replace('/', '-')}"
        )
        assert done.returncode == 0, (place, done.stderr)
        assert done.stdout.startswith("third second "), (place, done.stdout)
        assert "1 file changed, 2 insertions(+)" in done.stdout, (place, done.stdout)
        assert "warning" not in done.stderr.replace("warning: Update of config-file failed", ""), (place, done.stderr)
        assert git(directory, "log", "-1", "--format=%s") == "third\n", place
    assert git(repositories.workdir / "repository", "status", "--porcelain") == " M module\n"


def test_what_the_hosts_git_runs_stays_as_it_is(repositories):
    root = repositories.workdir
    repository = root / "repository"
    git(repository, "config", "extensions.worktreeConfig", "true")
    (repository / ".git/rebase-merge").mkdir()
    (repository / ".git/rebase-merge/git-rebase-todo").write_text("pick 1\n")
    give_to(root)
    others = shlex.join(str(repository / f".git/{part}") for part in ("worktrees/other", "modules/module"))
    attack = ATTACK.replace("{others}", others)
    for place in PLACES:
        repositories.run("--workdir", str(root / place), "--", "true")  # makes what is missing
        before = snapshot(root)
        done = repositories.run("--workdir", str(root / place), "--", "sh", "-c", attack)
        assert snapshot(root) == before, place
        control = Path(git(root / place, "rev-parse", "--absolute-git-dir").strip()) / "control"
        assert control.read_text() == "control\n", (place, done.stderr)
        control.unlink()


def test_a_bind_is_protected_as_well(repositories):
    """Of a directory around a repository, of one, and of its git directory; nor does it open the working directory."""
    root = repositories.workdir
    repository = root / "repository"
    (repository / "src/.envrc").write_text("before")
    (root / "elsewhere").mkdir()
    give_to(root)
    attack = "for g in $(find {} -name hooks -o -name config); do echo evil >$g || echo evil >$g/pre-commit; done"
    for workdir, bind in (
        ("elsewhere", root),
        ("elsewhere", repository),
        ("elsewhere", repository / ".git"),
        ("elsewhere", repository / ".git/modules"),
        ("repository/src", repository),
    ):
        script = f"{attack.format(bind)}; echo evil >.envrc; echo control >{bind}/control"
        shown = ("--workdir", str(root / workdir), "--bind", str(bind))
        repositories.run(*shown, "--", "true")
        before = snapshot(root)
        done = repositories.run(*shown, "--", "sh", "-c", script)
        assert (bind / "control").read_text() == "control\n", done.stderr
        (bind / "control").unlink()
        assert snapshot(root) == before, bind
    shown = ("--workdir", str(repository / "src"), "--bind", f"{repository}:/elsewhere")
    repositories.run(*shown, "--", "sh", "-c", "echo evil >/elsewhere/src/.envrc; mv /elsewhere/src /elsewhere/away")
    assert (repository / "src/.envrc").read_text() == "before"
    done = repositories.run("--workdir", str(root / "elsewhere"), "--bind", f"{repository}/.git/hooks", "--", "true")
    assert (done.returncode, "the host's git runs what is there" in done.stderr) == (125, True)


@pytest.mark.parametrize(("place", "hooks"), [("repository/src", "src/hooks"), ("linked", "hooks")])
def test_hooks_that_settings_name_where_none_are(repositories, place, hooks):
    """Of a git directory that is shown besides: an agent can neither make the directory nor put anything into it."""
    root = repositories.workdir
    git(root / "repository", "config", "core.hooksPath", hooks)
    script = "mkdir hooks; printf '#!/bin/sh\ntouch ran\n' >hooks/pre-commit; chmod +x hooks/*; echo x >control"
    done = repositories.run("--workdir", str(root / place), "--", "sh", "-c", script)
    assert (root / place / "control").exists(), done.stderr
    git(root / place, "commit", "-q", "--allow-empty", "-m", "next")
    assert not list((root / place / "hooks").iterdir())
    assert not [*root.rglob("ran")]


def test_a_bare_repository_with_worktrees_stays_bare(own_cli):
    """Git ignores core.bare beside a commondir, unless it is set for the one working tree, as the message says."""
    root = own_cli.workdir
    make_repositories(root)
    git(root, "clone", "-q", "--bare", "library", "project/.bare")
    (root / "project/.git").write_text("gitdir: ./.bare\n")
    git(root / "project", "worktree", "add", "-q", "feature")
    in_worktree = ("--workdir", str(root / "project/feature"), "--", "git", "rev-parse", "--absolute-git-dir")
    done = own_cli.run(*in_worktree)
    assert "sets core.bare, which git ignores beside a commondir" in done.stderr
    done = own_cli.run("--workdir", str(root / "project"), "--", "true")
    assert (done.returncode, (root / "project/.bare/commondir").exists()) == (125, False)
    commands = done.stderr.partition("where it counts: ")[2].splitlines()[0]
    subprocess.run(["sh", "-c", commands], check=True)
    done = own_cli.run(*in_worktree)
    assert done.stdout == f"{root}/project/.bare/worktrees/feature\n", done.stderr
    assert "(bare)" in git(root / "project", "worktree", "list")
    git(root / "project", "worktree", "add", "-q", "main", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git(root / "project", "status")


def test_the_rest_of_the_working_tree_is_read_only_and_nothing_answers_in_it(users_cli):
    root = users_cli.workdir
    make_repositories(root)
    os.mkfifo(root / "repository/fifo", 0o666)
    give_to(root)
    (root / "repository/fifo").chmod(0o666)
    script = "cat ../module/src/file; echo evil >../new; echo evil >../module/src/file; echo x 1<>../fifo; ls ../.."
    reader = os.open(root / "repository/fifo", os.O_RDWR | os.O_NONBLOCK)
    done = users_cli.run("--workdir", str(root / "repository/src"), "--", "sh", "-c", script)
    assert done.stdout == "text\nrepository\n", done.stderr
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    assert not (root / "repository/new").exists()
    assert (root / "repository/module/src/file").read_text() == "text\n"


@pytest.mark.parametrize("kind", ["worktrees", "modules", "link"])
def test_a_made_up_git_file_shows_nothing(users_cli, kind):
    """An agent can have written it, to be shown another repository the next time."""
    root = users_cli.workdir
    make_repositories(root)
    work = root / "work"
    work.mkdir()
    leads_to = {"worktrees": "worktrees/linked", "modules": "modules/module", "link": ""}[kind]
    if kind == "link":
        (work / ".git").symlink_to(root / "repository/.git")
    else:
        (work / ".git").write_text(f"gitdir: {root}/repository/.git/{leads_to}\n")
    give_to(root)
    done = users_cli.run("--workdir", str(work), "--", "sh", "-c", f"ls {root}/repository; echo ran")
    if kind == "link":
        assert (done.returncode, done.stdout) == (125, "")
        assert ".git is a symbolic link, which a sandbox could replace" in done.stderr
    else:
        assert done.stdout == "ran\n"
        assert "git does not find its repository inside: " in done.stderr
