"""Mounts by descriptor."""

import os
from pathlib import Path

import pytest

from belljar.linux.files.mounts import copy_of


def test_a_link_is_not_followed_wherever_it_is_on_the_way(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    for path in (tmp_path / "link", tmp_path / "link/below"):
        with pytest.raises(OSError, match="symbolic link"):
            copy_of(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_copy_is_the_same_directory(tmp_path: Path) -> None:
    copy = copy_of(tmp_path)
    try:
        assert os.path.samestat(os.fstat(copy), tmp_path.stat())
    finally:
        os.close(copy)
