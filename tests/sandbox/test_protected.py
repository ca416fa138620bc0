"""Places from which the host's tools run code."""

from collections.abc import Iterable
from pathlib import Path

from belljar.sandbox.files.protected import existing, pinned, with_other_names


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(root: Path, found: Iterable[Path]) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in found)


def test_what_exists_is_protected(tmp_path):
    make(tmp_path, ".git/hooks/x", ".git/config", ".envrc", "src/main.py")
    assert names(tmp_path, existing(tmp_path)) == [".envrc", ".git/config", ".git/hooks"]


def test_what_is_allowed_is_not(tmp_path):
    make(tmp_path, ".git/hooks/x", ".git/config", ".envrc")
    assert names(tmp_path, existing(tmp_path, [Path(".git")])) == [".envrc"]
    assert names(tmp_path, existing(tmp_path, [Path(".git/hooks"), tmp_path / ".envrc"])) == [".git/config"]


def test_submodules_have_hooks_too(tmp_path):
    make(tmp_path, ".git/modules/a/config", ".git/modules/a/hooks/x", ".git/modules/a/modules/b/config")
    found = names(tmp_path, existing(tmp_path))
    assert found == [".git/modules/a/config", ".git/modules/a/hooks", ".git/modules/a/modules/b/config"]


def test_of_a_link_it_is_what_it_leads_to(tmp_path):
    make(tmp_path, "elsewhere/x")
    (tmp_path / ".vscode").symlink_to("elsewhere")
    (tmp_path / ".envrc").symlink_to("/nonexistent")
    (tmp_path / ".npmrc").symlink_to("/etc/hosts")
    (tmp_path / ".idea").symlink_to(".")
    assert names(tmp_path, existing(tmp_path)) == ["elsewhere"]


def test_a_file_that_says_where_the_repository_is(tmp_path):
    make(tmp_path, ".git")
    assert names(tmp_path, existing(tmp_path)) == [".git"]


def test_others_are_protected_if_they_are_inside(tmp_path):
    make(tmp_path, "policy.yaml")
    assert names(tmp_path, existing(tmp_path, (), [tmp_path / "policy.yaml", Path("/etc/hosts")])) == ["policy.yaml"]


def test_files_with_another_name(tmp_path):
    make(tmp_path, ".git/hooks/x", ".git/hooks/y", ".envrc", ".npmrc")
    (tmp_path / "a").hardlink_to(tmp_path / ".envrc")
    (tmp_path / "b").hardlink_to(tmp_path / ".git/hooks/y")
    assert names(tmp_path, with_other_names(existing(tmp_path))) == [".envrc", ".git/hooks/y"]


def test_directories_above_cannot_be_moved_away(tmp_path):
    places = [tmp_path / ".git/hooks", tmp_path / ".git/modules/a/config", tmp_path / ".envrc"]
    assert names(tmp_path, pinned(tmp_path, places)) == [".git", ".git/modules", ".git/modules/a"]
    assert pinned(tmp_path, places)[0] == tmp_path / ".git"
