"""What a sandbox leaves behind that its user might run."""

from pathlib import Path

from belljar.sandbox.changes import runnable_changes


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
    assert runnable_changes(tmp_path, since) == expected


def test_what_was_made_executable_counts(tmp_path):
    script = tmp_path / "script"
    script.touch()
    script.chmod(0o700)
    assert runnable_changes(tmp_path, script.stat().st_ctime_ns) == ["script"]
    assert runnable_changes(tmp_path, script.stat().st_ctime_ns + 1) == []
