"""Programs of the host that listen below directories that every sandbox sees, and what a command inside reaches.

In a mount namespace of its own: nothing of it is left on the machine. Called with a layout, a directory, and a
command that starts a sandbox in which that is seen at /bound; prints JSON.
"""

import ctypes
import json
import os
import select
import socket
import stat
import subprocess
import sys
from pathlib import Path

from belljar.linux.files.mounts import enter_private_mount_namespace, mount_tmpfs

LAYOUTS = {
    "on top": {"/opt": "tmpfs", "/etc": "overlay", "/usr": "overlay"},
    "further down": {"/opt": "tmpfs", "/opt/below": "tmpfs", "/usr/local": "overlay", "/etc/ssl": "overlay"},
}
"""Where something else is mounted that neighbours live in."""

INSIDE = """
import json, os, socket, sys
def attempt(kind, path):
    if kind == "file":
        return open(path).read()
    if kind == "device":
        os.close(os.open(path, os.O_RDONLY))
    if kind == "fifo":
        os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b"hello")
    if kind == "stream":
        socket.socket(socket.AF_UNIX).connect(path)
    if kind == "datagram":
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", path)
    return "reached"
print("started", flush=True)
told = []
for kind, path in json.loads(sys.stdin.readline()):
    try:
        told.append([kind, path, attempt(kind, path)])
    except OSError as error:
        told.append([kind, path, type(error).__name__])
print(json.dumps(told))
"""


class Neighbour:
    """Somebody who listens in a directory in every way there is."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.paths = {kind: str(directory / kind) for kind in ("stream", "datagram", "fifo", "device", "file")}
        stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        stream.bind(self.paths["stream"])
        stream.listen()
        datagram.bind(self.paths["datagram"])
        os.mkfifo(self.paths["fifo"])
        os.mknod(self.paths["device"], stat.S_IFCHR, os.makedev(1, 5))
        Path(self.paths["file"]).write_text("shown")
        for kind, path in self.paths.items():
            Path(path).chmod(0o666 if kind != "file" else 0o644)
        fifo = os.open(self.paths["fifo"], os.O_RDWR)
        self._ends: dict[str, socket.socket | int] = {"stream": stream, "datagram": datagram, "fifo": fifo}

    def seen(self) -> list[str]:
        """Return the ways in which somebody has been here."""
        return [self.paths[kind] for kind, end in self._ends.items() if select.select([end], [], [], 0)[0]]


def make_writable(place: Path, kind: str, spare: Path) -> None:
    """Have what we make in a directory be seen by us alone."""
    place.mkdir(exist_ok=True)
    if kind == "tmpfs":
        mount_tmpfs(place)
        return
    upper, work = spare / "upper", spare / "work"
    upper.mkdir(parents=True)
    work.mkdir()
    options = f"lowerdir={place},upperdir={upper},workdir={work}".encode()
    assert ctypes.CDLL(None).mount(b"overlay", bytes(place), b"overlay", 0, options) == 0


def main(layout: str, bound: str, command: list[str]) -> None:
    enter_private_mount_namespace()
    spare = Path("/mnt")
    mount_tmpfs(spare)
    directories = [Path(place) for place in LAYOUTS[layout]]
    for number, kind in enumerate(LAYOUTS[layout].values()):
        make_writable(directories[number], kind, spare / str(number))
    early = [Neighbour(directory / "neighbours/early") for directory in directories]
    named = Neighbour(Path(bound) / "named")
    sandbox = subprocess.Popen([*command, "python3", "-c", INSIDE], stdin=-1, stdout=-1, text=True)
    assert sandbox.stdin is not None
    assert sandbox.stdout is not None
    assert sandbox.stdout.readline() == "started\n"
    late = [Neighbour(directory / "neighbours/late") for directory in directories]
    wanted = [item for one in (*early, *late) for item in one.paths.items()]
    wanted += [(kind, f"/bound/named/{kind}") for kind in named.paths]
    told, _ = sandbox.communicate(json.dumps(wanted) + "\n", timeout=60)
    seen = [path for one in (*early, *late, named) for path in one.seen()]
    json.dump({"told": json.loads(told), "seen": seen}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
