"""Archives that agents submit: what is kept of them, and what refuses them."""

import gzip
import io
import os
import tarfile
import tracemalloc
import zlib

import pytest

from belljar.harness.judge.archive import SubmissionFilter, clean_archive
from belljar.harness.judge.tarreader import ArchiveError, ArchiveLimits
from tests.harness.archives import archive, directory, link, member, packed

EVERYTHING = SubmissionFilter((".",))


@pytest.fixture
def clean(tmp_path):
    """Cleans an archive that has these members, and returns what was found and what was written."""

    def clean(*members, wanted=EVERYTHING, form=tarfile.GNU_FORMAT):
        target = tmp_path / "clean.tar"
        target.unlink(missing_ok=True)
        found = clean_archive(archive(tmp_path / "a.tar.gz", *members, form=form), target, wanted)
        with tarfile.open(target) as written:
            return found, {info.name: info for info in written.getmembers()}

    return clean


@pytest.fixture
def refuse(tmp_path):
    """Returns why bytes, or members, are refused, and checks that nothing is left of them."""

    def refuse(*given, limits=None):
        path, target = tmp_path / "a.tar.gz", tmp_path / "clean.tar"
        if isinstance(given[0], bytes):
            path.write_bytes(given[0])
        else:
            archive(path, *given)
        with pytest.raises(ArchiveError) as refused:
            clean_archive(path, target, EVERYTHING, limits)
        assert not target.exists()
        return str(refused.value)

    return refuse


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_directories_and_links_inside_arrive_without_owners_and_times(clean, form):
    found, written = clean(
        directory("./lru"),
        member("./lru/run.sh", b"echo", mode=0o4755, uid=1, uname="mallory", mtime=7),
        member("lru//data.txt", b"data", mode=0o600),
        link("lru/latest", "./data.txt"),
        link("up", "lru/../lru"),
        link("lru/same", "lru/data.txt", tarfile.LNKTYPE),
        form=form,
    )
    assert found.names == ["lru", "lru/run.sh", "lru/data.txt", "lru/latest", "up", "lru/same"]
    assert found.left_out == []
    assert {name: info.mode for name, info in written.items() if info.isfile()} == {
        "lru/run.sh": 0o755,
        "lru/data.txt": 0o644,
    }
    assert {(info.uid, info.uname, info.mtime) for info in written.values()} == {(0, "", 0)}
    assert written["lru/same"].linkname == "lru/data.txt"


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names_arrive(clean, form):
    name = "/".join(["ä" * 60] * 4)
    _, written = clean(member(name, b"x"), form=form)
    assert list(written) == [name]


def test_a_cleaned_archive_is_unpacked_by_tar_with_the_same_content(tmp_path):
    content = os.urandom(300_000)
    clean_archive(archive(tmp_path / "a.tgz", member("deep/er/file", content)), tmp_path / "c.tar", EVERYTHING)
    (tmp_path / "out").mkdir()
    assert os.spawnlp(os.P_WAIT, "tar", "tar", "xf", str(tmp_path / "c.tar"), "-C", str(tmp_path / "out")) == 0
    assert (tmp_path / "out/deep/er/file").read_bytes() == content


def test_only_what_a_task_wants_is_kept_and_the_rest_is_listed_with_reasons(clean):
    found, written = clean(
        member("lru/a.py", b""),
        member("lru/b.so", b""),
        member("lru/tests/t.py", b""),
        member("lru/testsuite.py", b""),
        member("lru2/a.py", b""),
        member("lru/.git/config", b""),
        link("lru/peek", "../hidden"),
        wanted=SubmissionFilter(("lru/",), ("lru/tests/", "*.so")),
    )
    assert list(written) == ["lru/a.py", "lru/testsuite.py"]
    assert found.left_out == [
        "lru/b.so: submit_exclude has *.so",
        "lru/tests/t.py: submit_exclude has lru/tests/",
        "lru2/a.py: not below submit_paths",
        "lru/.git/config: git's own files are never submitted",
        "lru/peek: links to hidden, which is not submitted",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "conftest.py",
        "deep/conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "x.pth",
        "pytest.ini",
        "tox.ini",
        ".pytest_cache/v/cache/lastfailed",
        "tests/__pycache__/test_a.cpython-311.pyc",
    ],
)
def test_what_takes_control_of_a_test_runner_is_left_out_unless_it_is_the_work(clean, name):
    found, written = clean(member(name, b"evil"))
    assert not written
    assert len(found.left_out) == 1
    found, written = clean(member(name, b"work"), wanted=SubmissionFilter((name,)))
    assert list(written) == [name]


def test_a_link_called_conftest_is_left_out_too(clean):
    _, written = clean(member("evil.txt", b"evil"), link("conftest.py", "evil.txt"))
    assert list(written) == ["evil.txt"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("/etc/passwd", b"")], "absolute"),
        ([member("a/../../b", b"")], "leads out"),
        ([member("..", type=tarfile.DIRTYPE)], "leads out"),
        ([link("a", "/etc")], "outside"),
        ([link("a", "..")], "outside"),
        ([link("d/a", "../../x")], "outside"),
        ([link("a", "/etc/shadow", tarfile.LNKTYPE)], "outside"),
        ([link("a", "../x", tarfile.LNKTYPE)], "leads out"),
        ([link("a", "absent", tarfile.LNKTYPE)], "no file before it"),
        ([link("l", "d"), link("a", "l", tarfile.LNKTYPE)], "no file before it"),
        ([link("l", "d"), member("l/x", b"")], "below"),
        ([member("l/x", b""), link("l", "d")], "as a directory and as a symbolic link"),
        ([member("f", b""), member("f/x", b"")], "below"),
        ([member("f", b""), link("f", "g")], "as a file and as a symbolic link"),
        ([link("d/up", ".."), link("a", "d/up/x")], "through another link"),
        ([link(".", "x")], "working directory itself"),
        ([member("a", type=tarfile.CHRTYPE, devmajor=1)], "character device"),
        ([member("a", type=tarfile.BLKTYPE)], "block device"),
        ([member("a", type=tarfile.FIFOTYPE)], "named pipe"),
        ([member("a", type=b"Z")], "unknown type"),
        ([member("a" * 300, b"")], "too long"),
        ([member("a/" * 600 + "b", b"")], "too deep|more than 1024"),
    ],
)
def test_what_cannot_be_unpacked_without_harm_refuses_the_whole_archive(refuse, members, message):
    import re  # noqa: PLC0415

    assert re.search(message, refuse(member("innocent", b"x"), *members))


def test_ten_gigabytes_of_zeros_in_a_small_file_are_refused_while_they_are_read(refuse):
    info, _ = member("zeros")
    info.size = 10 << 30
    deflate = zlib.compressobj(9, wbits=31)
    parts = [deflate.compress(info.tobuf(tarfile.GNU_FORMAT))]
    parts += [deflate.compress(bytes(1 << 20)) for _ in range(80)]  # the reader stops long before more are needed
    bomb = b"".join([*parts, deflate.flush()])
    assert len(bomb) < 100_000
    assert "unpacks to more than 64 MB" in refuse(bomb, limits=ArchiveLimits(unpacked=64 << 20))


def test_zeros_after_the_end_count_too(refuse):
    bomb = gzip.compress(packed(member("a", b"x")) + bytes(80 << 20), 9)
    assert "unpacks to more than 64 MB" in refuse(bomb, limits=ArchiveLimits(unpacked=64 << 20))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_gigantic_extension_header_is_refused_before_it_is_in_memory(refuse, kind):
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 512 << 20
    header = gzip.compress(info.tobuf(tarfile.GNU_FORMAT)[-512:] + bytes(64 << 20), 9)
    tracemalloc.start()
    assert "too long" in refuse(header)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_long_chain_of_extension_headers_is_refused(refuse):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2
    one = info.tobuf(tarfile.GNU_FORMAT) + b"a\0" + bytes(510)
    assert "too long" in refuse(gzip.compress(one * 5000))


@pytest.mark.parametrize(
    "records",
    [b"9 path=ab\n", b"999 path=a\n", b"path=a\n", b"11 path=a\0b\n", b"10 size=x\n", b"21 GNU.sparse.size=1\n", b"\n"],
)
def test_malformed_pax_headers_are_refused(refuse, records):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    block = info.tobuf(tarfile.GNU_FORMAT) + records + bytes(-len(records) % 512)
    assert refuse(gzip.compress(block + packed(member("a", b""))))


def test_a_pax_size_cannot_make_two_readers_disagree_unnoticed(refuse):
    records = b"13 size=1024\n"
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    block = info.tobuf(tarfile.GNU_FORMAT) + records + bytes(-len(records) % 512)
    assert "claims to have content" in refuse(gzip.compress(block + packed(link("a", "b"), member("c", b""))))


def test_too_many_members_are_refused(refuse):
    many = [member(f"f{number}", b"") for number in range(50)]
    assert "more than 20 members" in refuse(*many, limits=ArchiveLimits(members=20))


def test_names_that_fill_the_memory_are_refused(refuse):
    deep = [member("/".join([f"{number:04}" + "x" * 90] * 9), b"") for number in range(40)]
    assert "too many directories" in refuse(*deep, limits=ArchiveLimits(members=100))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut short"),
        (b"hello" * 500, "no tar archive"),
        (gzip.compress(b"hello" * 500), "no tar archive"),
        (gzip.compress(packed(member("a", b"x" * 99999)))[:-50], "cut short"),
        (packed(member("a", b"x" * 99999))[:2048], "cut short"),
        (gzip.compress(packed(member("a", b"x"))) + b"garbage", "something follows"),
        (gzip.compress(packed(member("a", b"x")) + b"garbage"), "something follows"),
        (b"\x1f\x8b" + b"\xff" * 100, "damaged"),
        (packed(member("a\xff".encode("latin-1").decode("utf-8", "surrogateescape"), b"")), "not UTF-8"),
        (gzip.compress(b"") * 2000 + gzip.compress(packed()), "gzip members"),
    ],
    ids=range(10),
)
def test_what_is_no_whole_archive_is_refused(refuse, data, message):
    assert message in refuse(data)


def test_two_gzip_members_and_no_compression_at_all_are_read(tmp_path):
    data = packed(member("a", b"x" * 5000))
    for content in (data, gzip.compress(data[:1000]) + gzip.compress(data[1000:])):
        (tmp_path / "a").write_bytes(content)
        assert clean_archive(tmp_path / "a", None, EVERYTHING).names == ["a"]


def test_a_large_file_does_not_pass_through_memory(tmp_path):
    info, _ = member("large")
    info.size = 64 << 20
    buffer = io.BytesIO()
    with gzip.open(buffer, "wb", 1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(info.size) + bytes(1024))
    (tmp_path / "a").write_bytes(buffer.getvalue())
    tracemalloc.start()
    found = clean_archive(tmp_path / "a", tmp_path / "c", EVERYTHING)
    assert found.size == 64 << 20
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_what_is_excluded_is_found_far_above_many_files(tmp_path):
    deep = "/".join(["d"] * 90)
    names = [f"{place}/{deep}/{number}" for place in ("kept", "tests", "kept/build") for number in range(2000)]
    (tmp_path / "a").write_bytes(packed(*(member(name) for name in names)))
    found = clean_archive(tmp_path / "a", None, SubmissionFilter((".",), ("tests/", "build", "*.so", "x/y")))
    assert found.names == names[:2000]
    assert found.left_out[0].endswith("submit_exclude has tests/")
