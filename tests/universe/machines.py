"""A machine of the internet on which programs of the real world answer, instead of the stand-in services.

Every port that a stand-in has is taken on every address, so a server listens on a port of its own and the machine's
leads there. It runs as an ordinary user, because PostgreSQL insists on that, and among processes of its own, so that
nothing outlives it.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from belljar.linux.programs import run
from tests.layers import cover, make_layer
from tests.universe.addresses import MACHINE
from tests.universe.clients import PATIENCE, dial
from tests.universe.places import Place

USER = "server"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_PASSWD = "root:x:0:0:root:/root:/bin/sh\n{user}:x:1000:1000::{home}:/bin/sh\n"

_TABLE = """
table ip machine {
    chain arriving {
        type nat hook prerouting priority dstnat;
    }
}
"""

_AS_USER = f"""
{cover("/etc", "$0")}
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""


class Machine:
    """The machine at `addresses.MACHINE`."""

    def __init__(self, internet: Place, home: Path) -> None:
        self._internet = internet
        self.home = home
        """Where its user keeps files."""
        self._layer = make_layer(home / "etc", {"passwd": _PASSWD.format(user=USER, home=home)})
        self._environment = {"PATH": PATH, "HOME": str(home)}
        self._ports = iter(range(20000, 21000))
        internet.call(run, "nft", "-f", "-", text=_TABLE)

    def lead(self, port: int) -> int:
        """Have a port of the machine lead to one that a server can have, and return that."""
        free = next(self._ports)
        rule = f"add rule ip machine arriving ip daddr {MACHINE} tcp dport {port} dnat to :{free}\n"
        self._internet.call(run, "nft", "-f", "-", text=rule)
        return free

    def run(self, *command: str) -> None:
        """Run a program to its end."""
        argv = self._as_user(command)
        done = self._internet.call(subprocess.run, argv, env=self._environment, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    @contextmanager
    def serving(self, port: int, *command: str) -> Iterator[Path]:
        """Have a program serve a port that `lead` returned, in the foreground. What it says is in the file."""
        log = self.home / f"{port}.log"
        with log.open("wb") as output:
            server = self._internet.call(
                subprocess.Popen,
                # In whatever way this process ends, its servers do.
                ["setpriv", "--pdeathsig", "KILL", *self._as_user(command)],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        with server:
            try:
                self._wait_for(server, port, log)
                yield log
            finally:
                _end(server)

    def close(self) -> None:
        """Have its ports lead nowhere."""
        self._internet.call(run, "nft", "delete", "table", "ip", "machine")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _as_user(self, command: tuple[str, ...]) -> list[str]:
        namespaces = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"]
        return [*namespaces, "sh", "-euc", _AS_USER, str(self._layer), *command]

    def _wait_for(self, server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        given_up = time.monotonic() + PATIENCE
        while True:
            try:
                dial(self._internet, "127.0.0.1", port).close()
            except ConnectionRefusedError:
                alive = server.poll() is None and time.monotonic() < given_up
                assert alive, f"{server.args!r} does not serve:\n{log.read_text()}"
                time.sleep(0.01)
            else:
                return


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Kill the first of its processes. All others end with that, and `unshare`, its parent, waits for them."""
    if server.poll() is None:
        [first] = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGKILL)
