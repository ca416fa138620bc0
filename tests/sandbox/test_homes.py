"""Home directories, inside and outside."""

import os
import pwd
from pathlib import Path

import pytest

from belljar.sandbox.files.homes import home_inside, homes_of_user


@pytest.mark.parametrize("home", ["/home/me", "/root", "/var/lib/me", "/data/homes/me"])
def test_inside_it_is_where_the_users_is(home):
    assert home_inside({"HOME": home}) == Path(home)


@pytest.mark.parametrize(
    "home", ["", "/", "me", "./me", "/usr", "/etc", "/etc/me", "/proc", "/home/../proc", "/dev/shm/me"]
)
def test_or_elsewhere_if_it_cannot_be_there(home):
    assert home_inside({"HOME": home}) == Path("/home/agent")


def test_outside_it_is_every_directory_that_may_be_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    own = Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    assert list(homes_of_user({"HOME": str(tmp_path / "alias"), "SUDO_UID": "0"})) == [
        tmp_path / "real",
        own,
        Path(pwd.getpwuid(0).pw_dir),
    ]
    assert list(homes_of_user({"SUDO_UID": "nonsense"})) == [own]
