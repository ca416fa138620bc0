"""What a sandbox leaves behind that its user might run."""

import time

from belljar.sandbox.changes import runnable_changes


def test_executables_and_places_that_run_code_are_named(tmp_path):
    old = tmp_path / "old.sh"
    old.touch()
    old.chmod(0o755)
    while (since := time.time_ns()) <= old.stat().st_ctime_ns:  # the kernel's clock is coarser
        pass
    while not (tmp_path / "marker").exists() or (tmp_path / "marker").stat().st_ctime_ns < since:
        (tmp_path / "marker").write_text("x")
    for name in ("new.sh", ".git/objects/executable", "src/tool"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        path.chmod(0o755)
    for name in (".vscode/tasks.json", ".envrc", "notes.txt", ".git/hooks/pre-commit"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to("/bin/sh")
    expected = [".envrc", ".git/hooks/pre-commit", ".vscode/tasks.json", "new.sh", "src/tool"]
    assert [name for name in runnable_changes(tmp_path, since) if name != "old.sh"] == expected
    assert "old.sh" not in runnable_changes(tmp_path, since)


def test_what_was_made_executable_counts(tmp_path):
    script = tmp_path / "script"
    script.touch()
    script.chmod(0o700)
    assert runnable_changes(tmp_path, script.stat().st_ctime_ns) == ["script"]
    assert runnable_changes(tmp_path, script.stat().st_ctime_ns + 1) == []
