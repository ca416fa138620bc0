"""What the host's git runs or follows, in git directories of every kind."""

from pathlib import Path

import pytest

from belljar.sandbox.files.gitlayout import RepositoryError, find_repository, settings
from belljar.sandbox.files.gitplaces import GitPlaceError, protect


def make(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_git_directory(git: Path, config: str = "") -> Path:
    make(git, HEAD="ref: refs/heads/main\n", config=config)
    (git / "objects").mkdir()
    return git


def protected(root: Path, *others: Path, allowed: str = "nothing") -> set[str]:
    places = protect(root, [root, *others], lambda place: place.is_relative_to(root / allowed))
    return {str(place.relative_to(root)) for place in places if place.exists() and place.is_relative_to(root)}


def test_what_is_missing_is_made_and_says_nothing(tmp_path):
    git = make_git_directory(tmp_path / ".git")
    assert protected(tmp_path) == {".git/hooks", ".git/config", ".git/commondir"}
    assert (git / "commondir").read_text() == "./\n"
    assert not list((git / "hooks").iterdir())


def test_a_commondir_that_hides_the_working_tree_is_not_made(tmp_path):
    git = make_git_directory(tmp_path / ".git", "[core]\n\tworktree = /elsewhere\n")
    with pytest.raises(GitPlaceError, match=r"sets core\.worktree, which git ignores beside a commondir"):
        protected(tmp_path)
    assert not (git / "commondir").exists()


def test_what_may_be_written_is_not_made(tmp_path):
    git = make_git_directory(tmp_path / ".git")
    assert protected(tmp_path, allowed=".git") == set()
    assert not (git / "commondir").exists()


def test_settings_of_worktrees_are_made_where_git_reads_them(tmp_path):
    git = make_git_directory(tmp_path / ".git", "[extensions]\n\tworktreeConfig = true\n")
    make(git, **{"worktrees/own/gitdir": f"{tmp_path}/own/.git\n", "worktrees/own/commondir": "../..\n"})
    found = protected(tmp_path)
    assert {".git/config.worktree", ".git/worktrees/own/config.worktree", ".git/worktrees/own/gitdir"} <= found


def test_a_worktree_elsewhere_is_protected_as_a_whole(tmp_path):
    git = make_git_directory(tmp_path / ".git")
    make(git, **{"worktrees/other/gitdir": "/elsewhere/.git\n"})
    assert ".git/worktrees/other" in protected(tmp_path)


def test_the_main_working_tree_that_nobody_works_in_keeps_its_head(tmp_path):
    git = make_git_directory(tmp_path / "repository/.git")
    assert "HEAD" in protected(git)
    assert "HEAD" not in protected(git, tmp_path / "repository/src")


def test_repositories_below_bare_ones_and_submodules(tmp_path):
    for place in ("a/b/.git", "bare", ".git/modules/x/y", ".git/worktrees/own/modules/z"):
        make_git_directory(tmp_path / place)
    make_git_directory(tmp_path / ".git")
    make(tmp_path, **{"linked/.git": "gitdir: ../x\n", ".git/worktrees/own/gitdir": f"{tmp_path}/own/.git\n"})
    places = ("a/b/.git", "bare", ".git/modules/x/y", ".git/worktrees/own/modules/z")
    expected = {f"{place}/{name}" for place in places for name in ("hooks", "config", "commondir")}
    expected -= {"bare/hooks", "bare/commondir"}  # it may be data of a test, and nothing is made there
    assert expected | {"linked/.git"} <= protected(tmp_path)
    assert not (tmp_path / "bare/hooks").exists()


@pytest.mark.parametrize("name", ["hooks", "worktrees", "modules"])
def test_links_in_a_git_directory_are_refused(tmp_path, name):
    git = make_git_directory(tmp_path / ".git")
    (git / name).symlink_to("elsewhere")
    with pytest.raises(GitPlaceError, match=f"{name} is a symbolic link"):
        protected(tmp_path)
    protected(tmp_path, allowed=f".git/{name}")


@pytest.mark.parametrize("place", [".bare", ".git/modules/x"])
def test_without_its_head_a_git_directory_is_protected_all_the_same(tmp_path, place):
    """An agent can have removed it in one sandbox, to write to the rest in the next one, and put it back."""
    make_git_directory(tmp_path / ".git")
    git = make_git_directory(tmp_path / place, "[core]\n\trepositoryformatversion = 0\n")
    make(git, **{"hooks/x": "", "commondir": "./\n"})
    (git / "HEAD").unlink()
    (git / "objects").rmdir()
    assert {f"{place}/{name}" for name in ("hooks", "config", "commondir")} <= protected(tmp_path)


def test_files_among_submodules_cannot_hide_one(tmp_path, monkeypatch):
    monkeypatch.setattr("belljar.sandbox.files.gitlayout.MAX_ENTRIES", 10)
    git = make_git_directory(tmp_path / ".git")
    make(git, **{f"modules/a/{number}": "" for number in range(11)}, **{"modules/a/b/c/HEAD": ""})
    with pytest.raises(RepositoryError, match="not all are searched"):
        protected(tmp_path)


def test_a_git_directory_without_head_leads_to_no_other_repository(tmp_path):
    make_git_directory(tmp_path / ".git")
    make(tmp_path, **{"inner/.git/config": "", "inner/src/file": ""})
    with pytest.raises(RepositoryError, match="its HEAD or objects are missing"):
        find_repository(tmp_path / "inner/src")


def test_hooks_and_settings_that_settings_name(tmp_path):
    make(tmp_path, shared="", **{"tools/hooks/x": ""})
    make_git_directory(tmp_path / ".git", '[core]\n\thooksPath = "tools/hooks" ; ours\n[include]\npath = ../shared\n')
    assert {"tools/hooks", "shared"} <= protected(tmp_path)


def test_what_settings_name_is_followed_and_made(tmp_path):
    """In settings of the working tree and in included ones; an agent could make what is missing."""
    make(tmp_path, shared="[include]\npath = deeper\n", deeper="[core]\nhooksPath = a/hooks\n")
    git = make_git_directory(tmp_path / ".git", "[include]\npath = ../shared\n[extensions]\nworktreeConfig = true\n")
    make(git, **{"config.worktree": "[core]\nhooksPath = web/.husky/_\n[include]\npath = ../missing\n"})
    assert {"shared", "deeper", "a/hooks", "web/.husky", "missing"} <= protected(tmp_path)
    assert (tmp_path / "missing").read_text() == ""


def test_what_settings_name_through_a_link_elsewhere_is_made(tmp_path):
    root = tmp_path / "root"
    make_git_directory(root / ".git", f"[core]\n\thooksPath = {tmp_path}/link/hooks\n")
    (tmp_path / "link").symlink_to(root)
    assert "hooks" in protected(root)


def test_links_to_what_settings_name_are_refused(tmp_path):
    make_git_directory(tmp_path / ".git", "[core]\nhooksPath = tools/hooks\n")
    make(tmp_path, **{"real/hooks/x": ""})
    (tmp_path / "tools").symlink_to("real")
    with pytest.raises(GitPlaceError, match="tools is a symbolic link"):
        protected(tmp_path)
    protected(tmp_path, allowed="tools")


def test_settings_as_git_writes_them(tmp_path):
    make(tmp_path, config='[core] bare = false\n[includeIf "gitdir:~/x"]\n\tpath = "a b" # c\n[a.b]\nc=d;e\n')
    assert list(settings(tmp_path / "config")) == [("core.bare", "false"), ("includeif.path", "a b"), ("a.b.c", "d")]
    make(tmp_path, other='\ufeff[a]\nb = a/"b c"/\\"d\\\\ \n[a "x\\"]y"]\nc = one\\\n two " " ; \\\nd =\n')
    assert list(settings(tmp_path / "other")) == [("a.b", 'a/b c/"d\\'), ("a.c", "one two  "), ("a.d", "")]


def test_a_git_file_is_followed_if_the_directory_leads_back(tmp_path):
    git = make_git_directory(tmp_path / "repository/.git")
    administration = git / "worktrees/own"
    make(administration, HEAD="", commondir="../..\n", gitdir=f"{tmp_path}/own/.git\n")
    make(tmp_path, **{"own/.git": f"gitdir: {administration}\n", "other/.git": f"gitdir: {administration}\n"})
    assert find_repository(tmp_path / "own") == (tmp_path / "own", git)
    with pytest.raises(RepositoryError, match="does not lead back to it"):
        find_repository(tmp_path / "other")


def test_a_git_directory_in_the_working_tree_is_followed(tmp_path):
    git = make_git_directory(tmp_path / ".bare")
    make(tmp_path, **{".git": "gitdir: ./.bare\n", "src/file": ""})
    assert find_repository(tmp_path / "src") == (tmp_path, git)
