"""Which files are trusted, by their place and by all of the way there."""

import os
import pwd
from pathlib import Path

import pytest

from belljar.linux.files import trusted
from belljar.linux.files.trusted import Trust, UntrustedError
from belljar.linux.namespaces import CLONE_NEWUSER, unshare
from belljar.sandbox.files import workdirs


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A directory of the system's, with a program."""
    (tmp_path / "usr/bin").mkdir(parents=True)
    program = tmp_path / "usr/bin/tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return tmp_path / "usr"


def why(trust: Trust, path: Path) -> str:
    with pytest.raises(UntrustedError) as caught:
        trust.check(path)
    assert caught.value.path == path
    return caught.value.why


def test_what_is_the_systems_is_trusted(system):
    assert Trust((system,)).check(system / "bin/../bin/tool") == system / "bin/tool"


def test_this_system_is_trusted():
    assert Trust().check(Path("/bin/sh")) == Path("/bin/sh").resolve()


def test_what_is_elsewhere_is_not(system, tmp_path):
    (tmp_path / "usr-not").mkdir()
    (tmp_path / "usr-not/tool").write_text("")
    for path in (tmp_path / "usr-not/tool", tmp_path):
        assert why(Trust((system,)), path) == "it is where a sandbox can have written"


def test_links_within_the_system_are_followed(system, tmp_path):
    (tmp_path / "bin").symlink_to("usr/bin")
    (system / "bin/other").symlink_to("../bin/tool")
    (system / "bin/absolute").symlink_to(tmp_path / "bin/other")
    trust = Trust((system, tmp_path / "bin"))
    assert trust.check(tmp_path / "bin/absolute") == system / "bin/tool"


def test_a_link_out_of_the_system_is_not_followed(system, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/back").symlink_to(system / "bin/tool")
    (system / "bin/out").symlink_to(tmp_path / "project/tool")
    (system / "bin/detour").symlink_to(tmp_path / "project/back")
    (tmp_path / "project/tool").write_text("")
    trust = Trust((system,))
    assert (
        why(trust, system / "bin/out")
        == f"it leads to {tmp_path}/project/tool, which is where a sandbox can have written"
    )
    assert f"it leads to {tmp_path}/project/back" in why(trust, system / "bin/detour")


def test_links_in_a_circle(system):
    (system / "a").symlink_to("b")
    (system / "b").symlink_to("a")
    assert why(Trust((system,)), system / "a") == "its links lead in a circle"


def test_what_is_not_there(system):
    (system / "broken").symlink_to("absent")
    for name in ("absent", "broken", "bin/tool/below"):
        with pytest.raises(OSError, match=r"absent|below|tool"):
            Trust((system,)).check(system / name)


@pytest.mark.parametrize("spoiled", ["usr/bin/tool", "usr/bin", "usr", "."])
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_others_that_can_write_on_the_way(system, tmp_path, spoiled, mode):
    (tmp_path / spoiled).chmod(mode)
    place = tmp_path / spoiled
    which = "it" if spoiled == "usr/bin/tool" else place
    assert why(Trust((system,)), system / "bin/tool") == f"others can write to {which}; chmod go-w {place}"


def test_a_sticky_directory_keeps_what_is_roots(system):
    (system / "bin").chmod(0o1777)
    assert Trust((system,)).check(system / "bin/tool") == system / "bin/tool"
    os.chown(system / "bin/tool", 4242, -1)
    assert why(Trust((system,)), system / "bin/tool") == "it belongs to user 4242"


def test_in_the_system_nothing_is_a_users(system):
    os.chown(system / "bin/tool", 4242, -1)
    assert why(Trust((system,), user=4242, places=(system,)), system / "bin/tool") == "it belongs to user 4242"


def test_places_of_the_user(tmp_path):
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    settings = home / ".config/settings"
    settings.write_text("")
    for path in (home, home / ".config", settings):
        os.chown(path, 4242, 4243)
    trust = Trust((), user=4242, group=4243, places=(home / ".config",))
    assert trust.check(settings) == settings
    settings.chmod(0o664)
    assert trust.check(settings) == settings
    assert "others can write to it" in why(Trust((), user=4242, places=trust.places), settings)
    assert why(Trust((), user=4244, places=trust.places), settings) == f"{home} belongs to user 4242"
    assert (
        why(Trust((), user=4242, group=4243, places=trust.places, exposed=(home,)), settings)
        == "a sandbox can write there"
    )


def test_root_is_seen_as_nobody_in_a_user_namespace_without_root():
    """As where a sandbox is armed: our own user is root there, and the machine's root is not."""
    user = pwd.getpwnam("nobody")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setresgid(1, 1, 1)
            os.setresuid(1, 1, 1)
            unshare(CLONE_NEWUSER)
            assert Path("/usr").stat().st_uid == user.pw_uid
            Trust().check(Path("/bin/sh"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_nobody_is_nobody_where_there_is_root(system):
    os.chown(system / "bin/tool", pwd.getpwnam("nobody").pw_uid, -1)
    assert "belongs to user" in why(Trust((system,)), system / "bin/tool")


def test_no_sandbox_can_have_a_directory_of_the_system_as_its_own():
    """The one is what the other rests upon."""
    assert set(map(str, trusted.SYSTEM)) <= set(workdirs.SYSTEM)
