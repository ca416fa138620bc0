"""An agent that fills the disk of the server's state: whatever is to be closed is closed, and stays so."""

import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.control.machines import Machine
from tests.control.servers import problem, until
from tests.control.test_enforcing import connections
from tests.control.test_machine import NOTHING, PLAIN

pytestmark = pytest.mark.long

OTHER = {"mode": "block-all", "egress": {"allowed_domains": ["other.test"]}}
FILL = "dd if=/dev/zero of=fill bs=64k; dd if=/dev/zero of=more bs=512; true"
DISK = 'mount -t tmpfs -o size="$1",mode=700 small "$0" && echo ready && exec sleep infinity'


class SmallDisk:
    """A disk that is seen in a mount namespace of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", DISK, str(directory), "40m"],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        self.place = Path(f"/proc/{self._holder.pid}/root{directory}")
        self.enter = ("nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt")

    def make_room(self) -> None:
        subprocess.run([*self.enter, "mount", "-o", "remount,size=80m", str(self._directory)], check=True)

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def disk():
    directory = Path(tempfile.mkdtemp(prefix="belljar-disk-", dir="/var/tmp"))
    disk = SmallDisk(directory)
    yield disk
    disk.close()
    shutil.rmtree(directory)


@pytest.fixture
def machine(universe, disk):
    """The real server, with its state on a small disk."""
    machine = Machine(universe, disk.place / "state")
    machine.through = disk.enter
    try:
        machine.start()
        yield machine
        machine.clean_up()
    finally:
        machine.kill()


@contextmanager
def streaming(machine: Machine, jar: str):
    """Have a long connection open inside; yields the event of its end."""
    ended = threading.Event()

    def run() -> None:
        with suppress(OSError, AssertionError):
            machine.run(jar, "curl", "-sN", "http://plain.test/stall")
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: [flow for flow in machine.call("GET", f"/sandboxes/{jar}/flows")["flows"] if flow["bytes_down"]])
    yield ended
    thread.join()


def fill(machine: Machine) -> None:
    """Have an agent take all the room there is, until nothing can be written down."""
    jar = machine.sandbox(NOTHING)
    machine.run(jar, "sh", "-c", FILL)
    grant = {"allow": "other.test", "seconds": 60}
    with machine.client() as client:
        until(lambda: client.post(f"/sandboxes/{jar}/network/grants", json=grant).status_code == 507)


def names(machine: Machine) -> set[str]:
    return {sandbox["id"] for sandbox in machine.call("GET", "/sandboxes")["sandboxes"]}


def test_policies_and_deletions_count(machine, universe, disk):
    changed, deleted, expiring = machine.sandbox(PLAIN), machine.sandbox(PLAIN), machine.sandbox(PLAIN, hard_ttl=10)
    with (
        machine.client() as client,
        streaming(machine, changed) as change,
        streaming(machine, deleted) as deletion,
        streaming(machine, expiring) as expiry,
    ):
        fill(machine)
        problem(client.put(f"/sandboxes/{changed}/network", json=OTHER), 507, "not_written_down")
        assert change.wait(60), "its connection has ended"
        client.delete(f"/sandboxes/{deleted}")
        assert deletion.wait(60)
        assert expiry.wait(60)
    disk.make_room()
    until(lambda: not any((machine.state / "stale").read_bytes()))
    until(lambda: not names(machine) & {deleted, expiring})
    machine.kill()
    machine.start()
    assert changed in names(machine)
    universe.forget()
    assert machine.fetch(changed, "http://plain.test/") == ""
    assert connections(universe) == set()
    assert machine.fetch(changed, "http://other.test/") != "", "the policy that was asked for"


def test_a_revoked_grant_does_not_come_back(machine, universe, disk):
    jar = machine.sandbox(NOTHING)
    grants = f"/sandboxes/{jar}/network/grants"
    grant = machine.call("POST", grants, {"allow": "plain.test", "seconds": 3600})["id"]
    with machine.client() as client, streaming(machine, jar) as ended:
        fill(machine)
        problem(client.delete(f"{grants}/{grant}"), 507, "not_written_down")
        assert ended.wait(60), "its connection has ended"
    machine.kill()
    disk.make_room()
    machine.start()
    assert machine.call("GET", grants) == {"grants": []}
    universe.forget()
    assert machine.fetch(jar, "http://plain.test/") == ""
    assert connections(universe) == set()
    machine.call("PUT", f"/sandboxes/{jar}/network", PLAIN)
    assert machine.fetch(jar, "http://plain.test/") != ""
