"""Processes that the kernel has ended for want of memory are noticed, in groups of either version."""

import os

import pytest

from belljar.linux.cgroups.limits import place_of
from belljar.linux.cgroups.memorykills import MemoryWatch

FILES = {
    "memory.events": "low 0\nhigh 0\nmax 7\noom 9\noom_kill {}\noom_group_kill 0\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_what_happens_from_now_on_counts(tmp_path, name):
    counts = tmp_path / name
    counts.write_text(FILES[name].format(3))
    watch = MemoryWatch([tmp_path])
    assert not watch.ran_out()
    counts.write_text(FILES[name].format(4))
    assert watch.ran_out()
    assert not MemoryWatch([tmp_path]).ran_out(), "that was before"
    counts.unlink()
    assert (watch.ran_out(), watch.has_lost_sight) == (False, True)


def test_where_nothing_is_counted_nothing_is_known(tmp_path):
    watch = MemoryWatch([tmp_path, tmp_path / "gone"])
    assert (watch.ran_out(), watch.has_lost_sight) == (False, False)


def test_the_group_of_a_process_is_found_where_it_can_be_seen():
    own = place_of(os.getpid(), "memory")
    if own is None or not own.exists():
        pytest.skip("needs control groups to be mounted where they usually are")
    assert str(os.getpid()) in (own / "cgroup.procs").read_text().split()
    assert place_of(2**22, "memory") is None, "there is no such process"
