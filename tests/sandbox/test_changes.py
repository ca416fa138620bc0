"""What a sandbox leaves behind that its user might run."""

from pathlib import Path

from belljar.sandbox.files import changes
from belljar.sandbox.files.changes import Changes, changed_places, remove_git_links, runnable_changes


def make_executable(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o755)


def later_than(path: Path) -> int:
    """Wait until the kernel's clock, which is coarse, has moved on; return the time it shows then."""
    marker = path.with_name("marker")
    while not marker.exists() or marker.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        marker.write_text("x")
    return marker.stat().st_ctime_ns


def test_executables_and_places_that_run_code_are_named(tmp_path):
    make_executable(tmp_path / "old.sh")
    since = later_than(tmp_path / "old.sh")
    for name in ("new.sh", ".git/objects/executable", "src/tool"):
        make_executable(tmp_path / name)
    for name in (".vscode/tasks.json", ".envrc", "notes.txt", ".git/hooks/pre-commit"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to("/bin/sh")
    expected = [".envrc", ".git/hooks/pre-commit", ".vscode/tasks.json", "new.sh", "src/tool"]
    assert runnable_changes(tmp_path, since) == Changes(expected, complete=True)


def test_what_was_made_executable_counts(tmp_path):
    script = tmp_path / "script"
    script.touch()
    script.chmod(0o700)
    assert runnable_changes(tmp_path, script.stat().st_ctime_ns) == Changes(["script"], complete=True)
    assert runnable_changes(tmp_path, script.stat().st_ctime_ns + 1) == Changes([], complete=True)


def test_places_are_found_wherever_they_are_and_whatever_they_are(tmp_path):
    for name in (
        "a/b/.envrc",
        "bare/HEAD",
        "bare/config",
        "bare/commondir",
        "a/.git/HEAD",
        "a/.git/config",
        "a/config",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").write_text("gitdir: ../bare")
    (tmp_path / ".vscode").symlink_to("a")
    expected = [".vscode", "a/.git/config", "a/b/.envrc", "bare/commondir", "bare/config", "linked/.git"]
    assert runnable_changes(tmp_path, 0).names == expected


def test_what_could_not_be_looked_at_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    assert runnable_changes(tmp_path, 0) == Changes([], complete=False)


def test_places_that_were_made_or_changed(tmp_path):
    (tmp_path / ".envrc").touch()
    since = later_than(tmp_path / ".envrc")
    (tmp_path / ".npmrc").symlink_to("/nonexistent")
    (tmp_path / ".vscode").mkdir()
    assert changed_places(tmp_path, since) == [".vscode", ".npmrc"]
    assert changed_places(tmp_path, since, [Path(".vscode")]) == [".npmrc"]


def test_links_and_stopped_rebases_in_git_directories_are_named(tmp_path):
    """Git outside appends to a log through a link, and `git gc` deletes what a link in `worktrees` leads to."""
    git = tmp_path / "repository/.git"
    for name in ("HEAD", "modules/a/HEAD", "modules/a/config", "logs/refs/heads/objects/old", "objects/aa/object"):
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).touch()
    (git / "modules/a/objects").mkdir()
    (tmp_path / "repository/src").mkdir()
    since = later_than(git / "HEAD")
    assert changed_places(tmp_path / "repository", since) == []
    (git / "modules/a/rebase-merge").mkdir()
    (git / "modules/a/rebase-merge/git-rebase-todo").touch()
    links = (".git/logs/refs/heads/objects/new", ".git/worktrees", ".git/modules/a/COMMIT_EDITMSG")
    for name in links:
        (tmp_path / "repository" / name).symlink_to("/elsewhere")
    expected = {*links, ".git/modules/a/rebase-merge"}
    assert set(changed_places(tmp_path / "repository", since)) == expected
    assert set(changed_places(tmp_path / "repository/src", since)) == {f"{tmp_path}/repository/{x}" for x in expected}


def test_links_that_are_new_in_git_directories_are_removed(tmp_path):
    git, outside = tmp_path / ".git", tmp_path / "outside"
    for name in (".git/HEAD", ".git/logs/old", "outside/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (git / "old").symlink_to("/elsewhere")
    since = later_than(git / "logs/old")
    (git / "HEAD").unlink()
    (git / "HEAD").symlink_to("refs/heads/main")  # as git itself makes it, with core.preferSymlinkRefs
    (git / "logs/HEAD").symlink_to("/elsewhere")
    (git / "worktrees").symlink_to(outside)
    assert sorted(remove_git_links(tmp_path, since)) == [
        f"{git}/logs/HEAD -> /elsewhere",
        f"{git}/worktrees -> {outside}",
    ]
    assert sorted(path.name for path in git.rglob("*") if path.is_symlink()) == ["HEAD", "old"]
    assert (outside / "kept").exists()
