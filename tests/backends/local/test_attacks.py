"""Attacks on a local sandbox from inside, and on whoever starts one in a directory that an agent has been in before."""

import json
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from belljar.linux.descriptors import is_readable
from tests.backends.local import immortal
from tests.backends.local.conftest import Cli


def give(cli: Cli, *paths: Path) -> None:
    """Make what a test has made the user's."""
    owner = cli.workdir.stat()
    for path in paths:
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def refusal(cli: Cli, *words: str, **variables: str) -> str:
    """Return what is said when a command is not started."""
    done = cli.run(*words, "--", "echo", "started", **variables)
    assert (done.returncode, done.stdout) == (125, "")
    assert "Traceback" not in done.stderr
    return done.stderr


MAKE_SET_USER_ID = """
import os
attempts = (
    lambda: os.chmod("x", 0o4755),
    lambda: os.chmod("x", 0o2755),
    lambda: os.fchmod(os.open("x", os.O_RDONLY), 0o6755),
    lambda: os.chmod("x", 0o4755, dir_fd=os.open(".", os.O_RDONLY)),
    lambda: os.open("opened", os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: os.mknod("made", 0o4755),
    lambda: os.setxattr("x", "security.capability", bytes.fromhex("01000002" + "ff" * 16)),
)
open("x", "w").close()
for attempt in attempts:
    try:
        attempt()
    except OSError:
        continue
    print("made")
os.chmod("x", 0o1755)
"""


def test_no_program_that_runs_with_its_owners_rights(cli: Cli) -> None:
    """To the host, what root's agent makes is root's."""
    done = cli.run("--", "python3", "-c", MAKE_SET_USER_ID)
    assert (done.returncode, done.stdout) == (0, "")
    assert stat.S_IMODE((cli.workdir / "x").stat().st_mode) == 0o1755
    assert not [path for path in cli.workdir.iterdir() if path.stat().st_mode & 0o6000]


def test_the_groups_of_root_open_nothing(cli: Cli) -> None:
    shown = cli.workdir / "shown"
    shown.mkdir()
    for name, mode in (("for-the-group", 0o640), ("for-all", 0o644)):
        (shown / name).write_text(name)
        (shown / name).chmod(mode)
        os.chown(shown / name, 4241, 4242)
    running = cli.start(
        "--", "sh", "-c", "cat shown/*", stdout=subprocess.PIPE, stderr=subprocess.PIPE, extra_groups=[4242]
    )
    assert running.communicate(timeout=60)[0] == "for-all"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the attack is written in another machine's code")
def test_nothing_survives_belljar_even_if_it_takes_over_the_first_process(cli: Cli) -> None:
    """The attack holds a pipe: it has ended when we read the end of it."""
    (cli.workdir / "attack.py").write_text(Path(immortal.__file__).read_text())
    running = cli.start("--", "python3", "attack.py", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.readline() == "immortal\n"
    running.kill()
    assert running.stdout.read() == ""
    running.communicate(timeout=60)


def test_closed_streams_are_not_filled_with_descriptors_of_belljar(cli: Cli) -> None:
    inside = cli.start(
        "--", "sh", "-c", "readlink /proc/self/fd/0 /proc/self/fd/1 > found", preexec_fn=lambda: os.closerange(0, 2)
    )
    assert inside.wait(60) == 0
    assert (cli.workdir / "found").read_text().splitlines()[0] == "/dev/null"


DIAL_BY_STREAM = """
import ctypes, fcntl, os, socket, struct, sys
port = int(sys.argv[1])
def attempt(call):
    try:
        print(call(), file=report)
    except OSError as error:
        print(error.strerror, file=report)
    except TypeError:
        print("not for this kind of socket", file=report)
def dial(number):
    found = socket.socket(fileno=os.dup(number))
    ctypes.CDLL(None).connect(number, struct.pack("H14x", socket.AF_UNSPEC), 16)
    found.connect(("127.0.0.1", port))
    found.sendall(b"by stream %d" % number)
    return "dialled"
def bind(number):
    socket.socket(fileno=os.dup(number)).bind(f"\\0belljar-test-{port}-{number}")
    return "bound"
for number in range(3):
    with open(f"report-{number}", "w") as report:
        attempt(lambda: dial(number))
        attempt(lambda: bind(number))
        attempt(lambda: fcntl.ioctl(number, 0x8912, bytes(16)) and "interfaces")
"""

NO_SOCKET = "Socket operation on non-socket\n" * 2 + "Inappropriate ioctl for device\n"


def connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]


@pytest.mark.parametrize("make", [connection, socket.socketpair])
def test_a_socket_that_is_a_standard_stream_is_no_way_out(cli: Cli, make: Callable[[], Any]) -> None:
    """A connection can be freed to dial again, in the network that it was made in; any socket tells of that."""
    reports = [cli.workdir / f"report-{number}" for number in range(3)]
    with cli.universe.gateway.call(socket.create_server, ("127.0.0.1", 0)) as witness, ExitStack() as stack:

        def sockets() -> dict[str, Any]:
            ends = [[stack.enter_context(end) for end in cli.universe.gateway.call(make)] for _ in reports]
            return dict(zip(("stdin", "stdout", "stderr"), (theirs for theirs, _ in ends), strict=True))

        attack = ("python3", "-c", DIAL_BY_STREAM, str(witness.getsockname()[1]))
        outside = partial(subprocess.run, attack, cwd=cli.workdir, check=True, **sockets())
        cli.universe.gateway.call(outside)
        give(cli, *reports)
        for number, report in enumerate(reports):
            assert "interfaces" in report.read_text()
            if make is connection:
                with witness.accept()[0] as dialled:
                    assert dialled.recv(100) == f"by stream {number}".encode()
            else:
                assert "bound" in report.read_text()
        assert cli.start("--quiet", "--", *attack, **sockets()).wait(60) == 0
        assert [report.read_text() for report in reports] == [NO_SOCKET] * 3
        assert not is_readable(witness.fileno())


def test_a_connection_as_standard_streams_is_carried(own_cli: Cli) -> None:
    """Both ways, with the end of what is sent, in order, and as much as there is."""
    theirs, ours = own_cli.universe.gateway.call(connection)
    much = os.urandom(1 << 20)
    inside = "cat; echo ended; echo error >&2; echo output; exit 7"
    running = own_cli.start("--quiet", "--", "sh", "-c", inside, stdin=theirs, stdout=theirs, stderr=theirs)
    theirs.close()

    def send() -> None:
        ours.sendall(much)
        ours.shutdown(socket.SHUT_WR)

    sending = threading.Thread(target=send)
    sending.start()
    with ours, ours.makefile("rb") as received:
        assert received.read() == much + b"ended\nerror\noutput\n"
    sending.join()
    assert running.wait(60) == 7


def test_who_writes_to_a_connection_that_is_gone_is_told(own_cli: Cli) -> None:
    theirs, ours = socket.socketpair()
    running = own_cli.start("--quiet", "--", "sh", "-c", "yes; kill -l $? > signal", stdout=theirs)
    theirs.close()
    with ours:
        assert ours.recv(1) == b"y"
    assert running.wait(60) == 0
    assert (own_cli.workdir / "signal").read_text() == "PIPE\n"


def test_streams_that_are_no_streams_are_refused(users_cli: Cli) -> None:
    packets, other = socket.socketpair(type=socket.SOCK_DGRAM)
    kinds: dict[Any, str] = {
        packets: "is a socket that is not one end of a connection",
        other: "is a socket that is not one end of a connection",
        users_cli.universe.gateway.call(socket.create_server, ("127.0.0.1", 0)): "is a socket that is not one end",
        os.open("/proc/self/ns/net", os.O_RDONLY): "(net:[",
        os.pidfd_open(os.getpid()): "pidfd",
        os.eventfd(0): "eventfd",
        os.open("/dev/net/tun", os.O_RDWR): "(/dev/net/tun)",
    }
    for stream, said in kinds.items():
        running = users_cli.start("--", "touch", "begun", stdin=stream, stderr=subprocess.PIPE)
        told = running.communicate(timeout=60)[1]
        assert running.returncode == 125
        assert told.startswith("belljar: standard input is ")
        assert said in told
        assert not (users_cli.workdir / "begun").exists()
        stream.close() if isinstance(stream, socket.socket) else os.close(stream)


def test_the_number_of_processes_is_bounded(cli: Cli) -> None:
    raising = "ulimit -u 100000 2>/dev/null; grep -i 'max processes' /proc/self/limits"
    bound = cli.run("--", "bash", "-c", raising).stdout.split()[2:4]
    most = min(4096, *(limit // 2 for limit in resource.getrlimit(resource.RLIMIT_NPROC) if limit >= 0))
    assert bound == [str(most), str(most)]


def test_a_user_is_left_processes_to_start(cli: Cli) -> None:
    """They are counted for the agent, and for whoever runs it."""
    limited = ["prlimit", "--nproc=2000:3000", *cli.command("run", "--", "bash", "-c", "ulimit -Su; ulimit -Hu")]
    done = subprocess.run(
        limited, cwd=cli.workdir, env=cli.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == ["1000", "1500"], done.stderr


def test_a_crash_is_told_to_no_program_of_the_host(cli: Cli) -> None:
    """A limit of 1 keeps the kernel from starting one, and a limit of 0 would not: it is for whoever has no other."""
    lowest = "0" if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else "1"
    limits = cli.run("--", "sh", "-c", "ulimit -c 0; grep 'Max core' /proc/self/limits").stdout.split()
    assert limits[4:6] in (["1", "1"], [lowest, lowest])
    assert cli.run("--", "sh", "-c", "kill -SEGV $$").returncode == 128 + signal.SIGSEGV
    assert list(cli.workdir.iterdir()) == []


def test_a_deep_directory_neither_hides_the_exit_code_nor_the_summary(own_cli: Cli) -> None:
    dig = "import os\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\nraise SystemExit(3)"
    done = own_cli.run("--json", "--", "python3", "-c", dig)
    subprocess.run(["rm", "-r", own_cli.workdir / "d"], check=True)  # too deep for Python's own
    summary = json.loads(done.stderr.splitlines()[-1])
    assert (done.returncode, summary["exit_code"], summary["runnable_changes_complete"]) == (3, 3, True)


def test_new_places_that_the_host_runs_code_from_are_told(own_cli: Cli) -> None:
    """Git reads its settings where `commondir` says: a way around the protected ones, but not an unseen one."""
    make = "mkdir -p .git .vscode && echo ../evil > .git/commondir && echo x > notes"
    assert ".git/commondir, .vscode" in own_cli.run("--", "sh", "-c", make).stderr
    assert "new or changed" not in own_cli.run("--", "true").stderr


FILL_STANDARD_ERROR = """
import os
open(".envrc", "w").close()
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 4096)
except BlockingIOError:
    open("filled", "w").close()
"""


def test_a_command_cannot_have_the_warning_about_it_get_lost(own_cli: Cli) -> None:
    """Who has filled the pipe of standard error, and made it one that does not wait, leaves no room for a warning."""
    reading, writing = os.pipe()
    running = own_cli.start("--", "python3", "-c", FILL_STANDARD_ERROR, stdin=subprocess.DEVNULL, stderr=writing)
    filled = own_cli.workdir / "filled"
    while running.poll() is None and not (filled.exists() and os.get_blocking(writing)):
        time.sleep(0.01)
    os.close(writing)
    with os.fdopen(reading) as said:
        assert ".envrc" in said.read()
    assert running.wait(60) == 0


def test_the_files_that_belljar_uses_cannot_be_changed(cli: Cli) -> None:
    policy = cli.workdir / "policy.yaml"
    policy.write_text("mode: block-all\n")
    give(cli, policy)
    attack = (
        "echo 'mode: allow-all' > policy.yaml; rm -f policy.yaml audit; mv policy.yaml old; echo > audit; echo > new"
    )
    cli.run("--policy", "policy.yaml", "--audit", "audit", "--", "sh", "-c", f"curl http://evil.test; {attack}")
    assert policy.read_text() == "mode: block-all\n"
    assert "evil.test" in (cli.workdir / "audit").read_text()
    assert (cli.workdir / "new").exists()


def test_a_protected_file_with_another_name_is_refused(users_cli: Cli) -> None:
    (users_cli.workdir / ".envrc").write_text("before")
    give(users_cli, users_cli.workdir / ".envrc")
    (users_cli.workdir / "other").hardlink_to(users_cli.workdir / ".envrc")
    assert "hard link" in refusal(users_cli)
    assert users_cli.run("--allow-write", ".envrc", "--", "true").returncode == 0


def test_links_in_the_working_directory_lead_no_bind_astray(users_cli: Cli) -> None:
    victim = Path(f"{users_cli.workdir}-victim")
    victim.mkdir()
    link = users_cli.workdir / "link"
    give(users_cli, victim)
    try:
        link.symlink_to(victim)
        assert "link" in refusal(users_cli, "--bind", "link:/shown")
        assert "link" in refusal(users_cli, "--ro-bind", "link/below:/shown")
        link.unlink()
        link.symlink_to(f"/oldroot{victim}")  # where bubblewrap sees the host's files while it mounts
        assert "link" in refusal(users_cli, "--bind", f"/usr/share:{users_cli.workdir}/link/new")
        assert list(victim.iterdir()) == []
        assert "make it first" in refusal(users_cli, "--bind", f"/usr/share:{users_cli.workdir}/absent")
    finally:
        victim.rmdir()


def test_a_home_directory_is_never_a_working_directory(own_cli: Cli) -> None:
    alias = Path(f"{own_cli.workdir}-alias")
    alias.symlink_to(own_cli.workdir)
    try:
        for home in (str(own_cli.workdir), str(alias), f"{alias}/below"):
            assert "holds your home directory" in refusal(own_cli, HOME=home)
    finally:
        alias.unlink()


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/var", "/run", "/dev/shm", "/"])
def test_directories_with_everybodys_sockets_are_refused(own_cli: Cli, place: str) -> None:
    assert place in refusal(own_cli, "--workdir", place)


@pytest.mark.parametrize("home", ["/", ""])
def test_a_strange_home_is_replaced(own_cli: Cli, home: str) -> None:
    done = own_cli.run("--", "sh", "-c", "touch ~/x && echo $HOME", HOME=home)
    assert (done.returncode, done.stdout) == (0, "/home/agent\n")


def test_a_directory_that_is_gone(own_cli: Cli) -> None:
    gone = own_cli.workdir / "gone"
    gone.mkdir()
    script = 'rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *own_cli.command("run", "--", "true")],
        cwd=gone,
        env=own_cli.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125
    assert "no longer there" in done.stderr


LACKS = {
    "user namespaces": ("unshare -r", "echo 0 > /proc/sys/user/max_user_namespaces", "sysctl -w user.max"),
    "bubblewrap": ("unshare -m", "mount --bind /dev/null $(readlink -f /usr/bin/bwrap)", "apt-get install bubblewrap"),
    "nftables": ("unshare -m", "mount --bind /dev/null $(readlink -f /usr/sbin/nft)", "apt-get install nftables"),
    "a limit that stops core dumps to a program": (
        "unshare -mr",
        "echo '|/bin/dump' >to && mount --bind to /proc/sys/kernel/core_pattern && ulimit -Hc 0",
        "let it be 1 or more (ulimit -Hc",
    ),
    "a way to the system's programs": (
        "unshare -m",
        (
            "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w &&"
            " mount -t overlay -o lowerdir=/usr,upperdir=/mnt/u,workdir=/mnt/w o /usr && chmod 700 /usr"
        ),
        "/usr is closed to users other than its owner\nMend it: sudo chmod o+x /usr",
    ),
    "a file system that shows other owners": ("unshare -m", "mkdir p && mount -t proc p p", "ext4"),
}


@pytest.mark.parametrize("lack", LACKS)
def test_what_a_machine_lacks_is_told_and_nothing_starts(tmp_path: Path, lack: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to take something away")
    where, taking_away, remedy = LACKS[lack]
    script = f'{taking_away} && exec "$@"'
    done = subprocess.run(
        [*where.split(), "sh", "-c", script, "sh", sys.executable, "-m", "belljar", "run", "--", "echo", "started"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin:/usr/sbin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_no_sandbox_is_made_in_another(cli: Cli) -> None:
    source = Path(sys.modules["belljar"].__path__[0]).parent
    packages = Path(click.__file__).parents[1]
    inside = ("python3", "-m", "belljar", "run", "--", "echo", "started")
    shown = ("--ro-bind", f"{source}:/b/source", "--ro-bind", f"{packages}:/b/packages")
    done = cli.run(*shown, "--env", "PYTHONPATH=/b/source:/b/packages", "--", *inside)
    assert (done.returncode, done.stdout) == (125, "")
    assert "no sandbox can be made in another" in done.stderr
