"""Whether what the kernel tells of a container's mounts is what was meant, on texts as it writes them."""

import pytest

from belljar.backends.containers import mountcheck
from belljar.backends.containers.mountcheck import ExpectedMount
from belljar.backends.interface import MachineError

MEMORY = ("/tmp",)
HOOKS, CONFIG = "/srv/repo/.git/hooks", "/srv/repo/.git/config"
WANTED = [
    ExpectedMount("8:1", "/srv/repo", "/srv/repo", is_writable=True),
    ExpectedMount("8:1", "/srv/repo/.git", "/srv/repo/.git", is_writable=True),
    ExpectedMount("8:1", HOOKS, HOOKS, is_writable=False),
    ExpectedMount("8:1", CONFIG, CONFIG, is_writable=False),
]
SECRET = "/.secret"
OURS = f"12 10 8:1 /toolbox {SECRET} ro - ext4 /dev/sda1 rw"
ROOT = "10 1 0:40 / / rw - overlay overlay rw,lowerdir=/x"
WORK = "20 10 8:1 /srv/repo /srv/repo rw - ext4 /dev/sda1 rw"
GIT = "21 20 8:1 /srv/repo/.git /srv/repo/.git rw - ext4 /dev/sda1 rw"
KEPT = [
    f"22 21 8:1 {HOOKS} {HOOKS} ro - ext4 /dev/sda1 rw",
    f"23 21 8:1 {CONFIG} {CONFIG} ro,relatime - ext4 /dev/sda1 rw",
]
TMP = "11 10 0:41 / /tmp rw - tmpfs tmpfs rw"


def check(*lines: str, wanted: list[ExpectedMount] = WANTED) -> None:
    mountcheck.check("".join(f"{line}\n" for line in (OURS, *lines)), wanted, MEMORY, SECRET)


def volume(number: int, parent: int, place: str, options: str = "rw") -> str:
    return f"{number} {parent} 8:1 /var/lib/docker/volumes/{number}/_data {place} {options} - ext4 /dev/sda1 rw"


class TestWhatIsMeant:
    def test_is_there(self):
        check(ROOT, TMP, WORK, GIT, *KEPT)

    def test_in_any_order(self):
        check(*reversed([ROOT, TMP, WORK, GIT, *KEPT]))

    def test_in_a_volume_of_the_image(self):
        check(ROOT, volume(15, 10, "/srv"), WORK.replace("20 10", "20 15"), GIT, *KEPT)

    def test_with_a_volume_beside_what_is_protected(self):
        check(ROOT, WORK, GIT, *KEPT, volume(30, 20, "/srv/repo/node_modules"))

    def test_over_what_it_hides(self):
        """A file system below a directory comes with it, and is shown by itself in the same place."""
        shown = [
            ExpectedMount("8:1", "/data", "/shown", is_writable=False),
            ExpectedMount("0:50", "/", "/shown/below", False),
        ]
        top = "30 10 8:1 /data /shown ro - ext4 /dev/sda1 rw"
        hidden = "31 30 0:50 / /shown/below rw - tmpfs below rw"
        with pytest.raises(MachineError, match="something else in place of /"):
            check(ROOT, top, hidden, wanted=shown)
        check(ROOT, top, hidden, "32 31 0:50 / /shown/below ro - tmpfs below rw", wanted=shown)

    def test_behind_a_link_if_it_is_read_only_and_by_itself(self):
        tool = "30 10 8:1 /data/tool /usr/bin/tool ro - ext4 /dev/sda1 rw"
        check(ROOT, tool, wanted=[ExpectedMount("8:1", "/data/tool", "/bin/tool", is_writable=False)])

    def test_at_two_places(self):
        shown = [
            ExpectedMount("8:1", "/data", "/one", is_writable=True),
            ExpectedMount("8:1", "/data", "/two", is_writable=False),
        ]
        one, two = ("30 10 8:1 /data /one rw - ext4 /dev/sda1 rw", "31 10 8:1 /data /two ro - ext4 /dev/sda1 rw")
        check(ROOT, one, two, wanted=shown)
        with pytest.raises(MachineError):
            check(ROOT, one, two.replace(" ro ", " rw "), wanted=shown)

    @pytest.mark.parametrize("name", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r", "\udcff"])
    def test_with_names_that_look_like_ends_of_lines(self, name):
        check(ROOT, WORK, GIT, *KEPT, volume(30, 10, f"/a{name}b"))
        assert mountcheck.read(volume(30, 10, f"/a{name}b\\040c"))[0].place == f"/a{name}b c"


MOVED = [line.replace(" /srv/repo", " /L/repo").replace("/L/repo", "/srv/repo", 1) for line in (WORK, GIT, *KEPT)]
ELSEWHERE = [line.replace("21 8:1", "10 8:1").replace(f" {place} ro", f" /L{place} ro") for line, place in
             zip(KEPT, (HOOKS, CONFIG), strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "culprit"),
    [
        pytest.param([*MOVED], "/srv/repo is not what was meant inside: it is at /L/repo", id="all elsewhere"),
        pytest.param([WORK, GIT, *ELSEWHERE], f"{CONFIG}|{HOOKS}", id="protections elsewhere"),
        pytest.param(
            [MOVED[0], GIT.replace("21 20", "21 10"), *KEPT], "/srv/repo is .* at /L/repo", id="one without the other"
        ),
        pytest.param(
            [WORK, volume(30, 10, "/srv"), GIT.replace("21 20", "21 30"), *KEPT], "over it", id="a volume in between"
        ),
        pytest.param([WORK, GIT.replace("21 20", "21 10"), *KEPT], "/srv/repo/.git is", id="beneath the directory"),
        pytest.param([WORK, GIT, KEPT[0], KEPT[1].replace("23 21", "23 20")], CONFIG, id="on another than meant"),
        pytest.param([WORK, GIT, *KEPT, volume(30, 20, "/srv/repo")], "over it", id="over the directory"),
        pytest.param([WORK, GIT, *KEPT, volume(30, 10, "/srv")], "over it", id="over what it is in"),
        pytest.param([WORK, GIT, *KEPT, volume(30, 21, "/srv/repo/.git")], "over it", id="over what is pinned"),
        pytest.param([WORK, GIT, *KEPT, volume(30, 22, HOOKS)], f"{HOOKS} is .* over it", id="over what is protected"),
        pytest.param(
            [WORK, GIT, *KEPT, WORK.replace("20 10", "30 10").replace("/srv/repo rw", "/again rw")],
            "it is at /again",
            id="the directory once more",
        ),
        pytest.param(
            [WORK, GIT, *KEPT, KEPT[0].replace("22 21", "30 10").replace(f"{HOOKS} ro", "/again rw")],
            "it is at /again",
            id="what is protected once more, writable",
        ),
        pytest.param(
            [WORK, GIT, *KEPT, f"30 22 8:1 {HOOKS} {HOOKS} rw - ext4 /dev/sda1 rw"], HOOKS, id="the same over it"
        ),
        pytest.param([WORK, GIT, KEPT[1]], "something else in place of", id="not at all"),
    ],
)  # fmt: skip
def test_what_is_not_meant_is_noticed(lines, culprit):
    with pytest.raises(MachineError, match=culprit):
        check(ROOT, TMP, *lines)


@pytest.mark.parametrize("text", ["", "fake\n", "\n".join([ROOT, WORK, GIT, *KEPT])])
def test_what_does_not_tell_of_a_secret_is_not_believed(text):
    with pytest.raises(MachineError, match=r"a volume over /proc.*take another image"):
        mountcheck.check(text, WANTED, MEMORY, SECRET)


def test_what_a_terminal_would_obey_is_not_told_as_it_is():
    moved = "30 10 8:1 /srv/repo /L\x1b]0;owned\x07 rw - ext4 /dev/sda1 rw"
    with pytest.raises(MachineError) as caught:
        check(ROOT, moved, wanted=WANTED[:1])
    assert r"/L\x1b]0;owned\x07" in str(caught.value)
    assert str(caught.value).isprintable()
